//! Words what was measured as tables, between two marks of a page; what is around them stays.

use std::{
    collections::BTreeSet,
    fmt::{Error, Write},
    path::Path,
};

use crate::{
    Failure,
    contender::Contender,
    counting::Counts,
    report::{Course, Quiet, Report, Restart, Rounds, Spread, Start},
    rounds::course_name,
};

const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";
const COURSES: [Course; 2] = [Course::Pods, Course::Ends];
/// What is told of the processes, in this order.
const PROCESSES: [&str; 7] = [
    "leasehold",
    "Kueue",
    "kube-apiserver",
    "etcd",
    "kube-controller-manager",
    "kube-scheduler",
    "simulated-nodes",
];

/// Writes the tables into the page.
pub(crate) fn write(report: &Report, page: &Path) -> Result<(), Failure> {
    let text = std::fs::read_to_string(page)?;
    let missing = || format!("{} lacks {BEGIN} and {END}", page.display());
    let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    let tables = tables(report)?;
    std::fs::write(page, format!("{before}{BEGIN}\n{tables}{END}{after}"))?;
    Ok(())
}

fn tables(report: &Report) -> Result<String, Error> {
    let mut text = String::new();
    let machine = &report.machine;
    writeln!(
        text,
        "Machine: {} cores of {}, {} GiB of memory, Linux {}. Everything shares it: control plane, simulated nodes, contender and load.",
        machine.cores, machine.processor, machine.memory_gib, machine.kernel
    )?;
    if let Some(rounds) = &report.rounds {
        rates(&mut text, rounds)?;
        writes(&mut text, rounds)?;
        processes(&mut text, rounds)?;
    }
    if let Some(restart) = &report.restart {
        restarts(&mut text, restart)?;
    }
    if let Some(held) = &report.quiet {
        quiet(&mut text, held)?;
    }
    Ok(text)
}

fn contenders(rounds: &Rounds) -> Vec<Contender> {
    let all: BTreeSet<_> = rounds.turns.iter().map(|turn| turn.contender).collect();
    all.into_iter().collect()
}

fn heading(text: &mut String, first: &str, columns: &[String]) -> Result<(), Error> {
    writeln!(text, "\n| {first} | {} |", columns.join(" | "))?;
    writeln!(text, "|---|{}", "---|".repeat(columns.len()))
}

fn rates(text: &mut String, rounds: &Rounds) -> Result<(), Error> {
    writeln!(
        text,
        "\n## Rates\n\nObjects per second, median [least..greatest]; turns of {} objects on {} nodes. Ratios are leasehold's rate to another's in the same round.",
        rounds.objects, rounds.nodes
    )?;
    let all = contenders(rounds);
    let others: Vec<_> = all.iter().filter(|one| **one != Contender::Leasehold).collect();
    let names = all.iter().map(|one| one.name().to_owned());
    let ratios = others.iter().map(|one| format!("ratio to {}", one.name()));
    heading(text, "", &names.chain(ratios).collect::<Vec<_>>())?;
    for course in COURSES {
        let rates = all.iter().map(|one| spread(rounds.rate(*one, course), 1));
        let ratios = others.iter().map(|one| spread(rounds.ratio(**one, course), 2));
        let cells: Vec<_> = rates.chain(ratios).collect();
        writeln!(text, "| {} | {} |", course_name(course), cells.join(" | "))?;
    }
    Ok(())
}

fn spread(spread: Option<Spread>, digits: usize) -> String {
    spread.map_or_else(
        || "-".to_owned(),
        |Spread { middle, least, greatest }| {
            format!("{middle:.digits$} [{least:.digits$}..{greatest:.digits$}]")
        },
    )
}

/// One column for each contender and course.
fn columns(rounds: &Rounds) -> Vec<(Contender, Course)> {
    let all = contenders(rounds);
    COURSES.into_iter().flat_map(|course| all.iter().map(move |one| (*one, course))).collect()
}

fn column_names(columns: &[(Contender, Course)]) -> Vec<String> {
    let named = columns.iter();
    named.map(|(one, course)| format!("{}: {}", course_name(*course), one.name())).collect()
}

fn writes(text: &mut String, rounds: &Rounds) -> Result<(), Error> {
    writeln!(
        text,
        "\n## Writes per object\n\nRequests that change something, whoever made them, until nothing is written any more; those of node and leader leases are left out."
    )?;
    let columns = columns(rounds);
    heading(text, "", &column_names(&columns))?;
    let row = |value: &dyn Fn(&Counts) -> f64| -> Vec<Option<f64>> {
        let cell = |(one, course): &(Contender, Course)| {
            Some(Spread::of(rounds.turns(*one, *course).map(|turn| value(&turn.writes)))?.middle)
        };
        columns.iter().map(cell).collect()
    };
    line(text, "**all**", &row(&|writes| writes.values().sum()), 1)?;
    let kinds: BTreeSet<_> = rounds.turns.iter().flat_map(|turn| turn.writes.keys()).collect();
    for kind in kinds {
        let cells = row(&|writes| writes.get(kind).copied().unwrap_or_default());
        // Less than one in a hundred objects is noise.
        if cells.iter().flatten().any(|count| *count >= 0.01) {
            line(text, kind, &cells, 2)?;
        }
    }
    Ok(())
}

fn processes(text: &mut String, rounds: &Rounds) -> Result<(), Error> {
    writeln!(
        text,
        "\n## CPU per object\n\nMilliseconds, and the most memory that the contender's own process had."
    )?;
    let columns = columns(rounds);
    heading(text, "", &column_names(&columns))?;
    let middle = |(one, course): &(Contender, Course),
                  value: &dyn Fn(&crate::report::Turn) -> Option<f64>| {
        Some(Spread::of(rounds.turns(*one, *course).filter_map(value))?.middle)
    };
    let all =
        columns.iter().map(|column| middle(column, &|turn| Some(turn.cpu_millis.values().sum())));
    line(text, "**all**", &all.collect::<Vec<_>>(), 1)?;
    for process in PROCESSES {
        let cells = columns
            .iter()
            .map(|column| middle(column, &|turn| turn.cpu_millis.get(process).copied()));
        line(text, process, &cells.collect::<Vec<_>>(), 1)?;
    }
    let memory = columns.iter().map(|column| middle(column, &|turn| Some(turn.memory_mib)));
    line(text, "memory, MiB", &memory.collect::<Vec<_>>(), 0)
}

fn line(text: &mut String, name: &str, cells: &[Option<f64>], digits: usize) -> Result<(), Error> {
    let cells = cells.iter().map(|cell| match cell {
        Some(value) if *value >= 0.005 => format!("{value:.digits$}"),
        _ => "-".to_owned(),
    });
    writeln!(text, "| {name} | {} |", cells.collect::<Vec<_>>().join(" | "))
}

fn restarts(text: &mut String, restart: &Restart) -> Result<(), Error> {
    writeln!(
        text,
        "\n## Restart\n\nThe operator is started while {} ended jobs and as many sealed leases are stored.",
        restart.jobs
    )?;
    starts(text, &[("with them", &restart.with), ("without", &restart.without)])
}

fn starts(text: &mut String, all: &[(&str, &Start)]) -> Result<(), Error> {
    let names: Vec<_> = all.iter().map(|(name, _)| (*name).to_owned()).collect();
    heading(text, "", &names)?;
    let mut row = |name: &str, digits: usize, value: &dyn Fn(&Start) -> f64| {
        let cells: Vec<_> = all.iter().map(|(_, start)| Some(value(start))).collect();
        line(text, name, &cells, digits)
    };
    row("all watches complete, s", 1, &|start| start.ready_seconds)?;
    row("a waiting job has its pod, s", 1, &|start| start.pod_seconds)?;
    row("every holder had a pass, s", 1, &|start| start.drained_seconds)?;
    row("passes", 0, &|start| start.passes)?;
    row("CPU of the operator, s", 1, &|start| start.cpu_seconds)?;
    row("most memory, MiB", 0, &|start| start.memory_mib)?;
    let kinds: BTreeSet<_> = all.iter().flat_map(|(_, start)| start.requests.keys()).collect();
    for kind in kinds {
        row(&format!("requests: {kind}"), 0, &|start| {
            start.requests.get(kind).copied().unwrap_or_default()
        })?;
    }
    Ok(())
}

fn quiet(text: &mut String, quiet: &Quiet) -> Result<(), Error> {
    let told = |counts: &Counts, digits: usize| {
        let all = counts.iter().map(|(what, count)| format!("{what} {count:.digits$}"));
        let all: Vec<_> = all.collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    };
    writeln!(
        text,
        "\n## Quiet\n\n{} leases are held and nothing happens for {:.0} s. They were reached at {:.1} per second.\n",
        quiet.leases, quiet.seconds, quiet.held_per_second
    )?;
    let (sum, all) = (quiet.writes_to_run.values().sum::<f64>(), &quiet.writes_to_run);
    writeln!(text, "- Writes per object until its program runs: {sum:.1} ({}).", told(all, 2))?;
    writeln!(text, "- Writes, whoever made them: {}.", told(&quiet.writes, 0))?;
    writeln!(text, "- Requests of the operator: {}.", told(&quiet.requests, 0))?;
    writeln!(
        text,
        "- The operator needs {:.1} ms of CPU per second, and had at most {:.0} MiB.",
        quiet.cpu_millis_per_second, quiet.memory_mib
    )?;
    writeln!(text, "\nStarted again with these leases:")?;
    starts(text, &[("held leases", &quiet.start)])
}
