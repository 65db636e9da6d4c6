//! What the objects and logs say in the end, compared with what was promised.

use std::fmt::Write;

use leasehold_crds::{GpuJob, GpuLease};
use leasehold_tests::jobs::check_bill;

use crate::{Act, Failure, ground::Ground};

/// Promises of the tour and whether they hold.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    told: String,
    checks: Vec<(String, bool)>,
}

impl Findings {
    /// Reads a job's pod, conditions and lease.
    pub(crate) fn read(&mut self, ground: &Ground, act: &Act) -> Result<(), Failure> {
        let name = act.name;
        let attempt = format!("{name}-r0-a1");
        if !act.prints.is_empty() {
            // A program that never started has no log; why it did not is in the conditions below.
            let log = ground
                .kubectl(&["logs", &attempt, "-c", "main"])
                .unwrap_or_else(|error| error.to_string());
            self.tell(&format!("Output of pod {attempt}"), &log);
            for words in act.prints {
                self.check(format!("{name} printed {words:?}"), log.contains(words));
            }
        }
        let job: GpuJob = ground.get("gpujob", name)?.ok_or("the job is gone")?;
        let status = job.status.ok_or("the job has no status")?;
        let mut conditions = String::new();
        for one in &status.conditions {
            let (kind, value, reason) = (&one.type_, &one.status, &one.reason);
            writeln!(conditions, "{kind:<12} {value:<6} {reason:<18} {}", one.message)?;
        }
        self.tell(&format!("Conditions of {name}"), &conditions);
        let lease: GpuLease = ground.get("gpulease", &attempt)?.ok_or("the lease is gone")?;
        self.lease(act, &attempt, &lease);
        Ok(())
    }

    fn lease(&mut self, act: &Act, attempt: &str, lease: &GpuLease) {
        let status = lease.status.clone().unwrap_or_default();
        let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let told = format!(
            "{state}, released because {because}\nheld from {from} to {to}, {count} × {card} at {rate} {currency} per hour\ncharged {charged} {currency} for {seconds} s, paid by {payer}",
            state = status.state,
            because = word(&status.released_because),
            from = word(&status.held_at),
            to = word(&status.ended_at),
            count = lease.spec.count,
            card = lease.spec.card,
            rate = word(&status.rate_per_hour),
            currency = lease.spec.quote.currency,
            charged = word(&status.charged),
            seconds = status.billed_seconds.unwrap_or(0),
            payer = word(&status.paid_by),
        );
        self.tell(&format!("Lease {attempt}"), &told);
        self.check(format!("{} is closed", act.name), status.state == "Closed");
        let because = act.released_because;
        self.check(
            format!("{} was released because {because}", act.name),
            status.released_because.as_deref() == Some(because),
        );
        let charged = word(&status.charged);
        self.check(
            format!("{} was charged rate × held time: {charged}", act.name),
            check_bill(lease).is_ok(),
        );
    }

    fn tell(&mut self, title: &str, text: &str) {
        self.told.extend(["\n── ", title, "\n", text.trim_end(), "\n"]);
    }

    fn check(&mut self, what: String, holds: bool) {
        self.checks.push((what, holds));
    }

    /// Prints everything.
    pub(crate) fn print(&self) {
        print!("{}", self.told);
        println!("\n── Compared with what was promised");
        for (what, holds) in &self.checks {
            println!("{} {what}", if *holds { "✓" } else { "✗" });
        }
    }

    /// Whether every promise holds.
    pub(crate) fn all_hold(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|(_, holds)| *holds)
    }
}
