//! Progress: a table that renews itself on a terminal, one line for each change when piped.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write, stdout},
    time::Duration,
};

use leasehold_crds::GpuJob;

use crate::{Act, Failure, ground::Ground};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// Longer than any job of the tour may take.
const MOST_LOOKS: u32 = 600;
/// Longer than an operator that runs needs for its first word, under any load.
const LOOKS_UNTIL_A_WORD: u32 = 60;

/// What is shown of a job.
#[derive(Clone, Default, PartialEq, Eq)]
struct Row {
    status: String,
    node: String,
    ends: String,
    charged: String,
    ended: bool,
}

/// Shows both jobs until each has ended.
pub(crate) fn until_ended(ground: &Ground, acts: &[Act]) -> Result<(), Failure> {
    let live = stdout().is_terminal();
    let mut shown: BTreeMap<&str, Row> = BTreeMap::new();
    println!();
    for look in 0..MOST_LOOKS {
        let mut rows = BTreeMap::new();
        for act in acts {
            rows.insert(act.name, row(ground, act)?);
        }
        if rows != shown {
            if live {
                redraw(&rows, look > 0)?;
            } else {
                rows.iter().filter(|(name, row)| shown.get(*name) != Some(row)).for_each(line);
            }
        }
        if look == LOOKS_UNTIL_A_WORD
            && let Some((name, _)) = rows.iter().find(|(_, row)| row.status.is_empty())
        {
            return Err(format!(
                "job {name} has no status after half a minute: is the operator running on this cluster?"
            )
            .into());
        }
        let all_ended = rows.values().all(|row| row.ended);
        shown = rows;
        if all_ended {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    Err("a job of the tour did not end within five minutes; run with KEEP=1 and look at it".into())
}

fn row(ground: &Ground, act: &Act) -> Result<Row, Failure> {
    let job: Option<GpuJob> = ground.get("gpujob", act.name)?;
    let Some(status) = job.and_then(|job| job.status) else { return Ok(Row::default()) };
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    Ok(Row {
        status: ready.map(|ready| ready.reason.clone()).unwrap_or_default(),
        node: status.node.clone().unwrap_or_default(),
        ends: status.lease.and_then(|lease| lease.ends_at).unwrap_or_default(),
        charged: status
            .cost
            .map(|cost| format!("{} {}", cost.charged, cost.currency))
            .unwrap_or_default(),
        ended: status.outcome.is_some(),
    })
}

/// One change; a job that nobody has looked at yet has nothing to tell.
fn line((name, row): (&&str, &Row)) {
    if row.status.is_empty() {
        return;
    }
    let told = |before: &str, what: &str| match what {
        "" => String::new(),
        what => format!("{before}{what}"),
    };
    let on = told(" on ", &row.node);
    let then =
        if row.ended { told(", charged ", &row.charged) } else { told(", ends by ", &row.ends) };
    println!("{name}: {}{on}{then}", row.status);
}

fn redraw(rows: &BTreeMap<&str, Row>, again: bool) -> std::io::Result<()> {
    let mut out = stdout().lock();
    if again {
        // Up over the last table, then clear to the end of the screen.
        write!(out, "\x1b[{}A\x1b[J", rows.len() + 1)?;
    }
    writeln!(out, "{:<12} {:<22} {:<14} {:<22} CHARGED", "JOB", "STATUS", "NODE", "ENDS")?;
    for (name, row) in rows {
        writeln!(
            out,
            "{name:<12} {:<22} {:<14} {:<22} {}",
            row.status, row.node, row.ends, row.charged
        )?;
    }
    out.flush()
}
