//! CPU time and memory of processes, from `/proc`.

use std::{collections::BTreeMap, fs};

use crate::Failure;

/// `/proc` counts CPU time in hundredths of a second, on every architecture.
const MILLIS_PER_TICK: f64 = 10.0;
/// Fields of `/proc/PID/stat` behind the name: time in user mode and in the kernel.
const TIMES: [usize; 2] = [11, 12];

/// Processes by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes(pub(crate) BTreeMap<String, u32>);

impl Processes {
    /// These and one more.
    pub(crate) fn with(&self, name: &str, process: Option<u32>) -> Self {
        let mut all = self.clone();
        all.0.extend(process.map(|process| (name.to_owned(), process)));
        all
    }

    /// CPU time of each so far, in milliseconds.
    pub(crate) fn cpu(&self) -> Result<BTreeMap<String, f64>, Failure> {
        self.each(cpu_of)
    }

    /// The most memory that each had so far, in MiB.
    pub(crate) fn memory(&self) -> Result<BTreeMap<String, f64>, Failure> {
        self.each(|process| memory_of(process, "VmHWM:"))
    }

    fn each(
        &self,
        look: impl Fn(u32) -> Result<f64, Failure>,
    ) -> Result<BTreeMap<String, f64>, Failure> {
        let all = self.0.iter();
        all.map(|(name, process)| Ok((name.clone(), look(*process)?))).collect()
    }
}

fn cpu_of(process: u32) -> Result<f64, Failure> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // A name may have spaces; nothing behind it has.
    let (_, rest) = text.rsplit_once(") ").ok_or("a stat without a name")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let mut ticks = 0.0;
    for time in TIMES {
        ticks += fields.get(time).ok_or("a short stat")?.parse::<f64>()?;
    }
    Ok(ticks * MILLIS_PER_TICK)
}

/// A line of the status, in MiB.
pub(crate) fn memory_of(process: u32, line: &str) -> Result<f64, Failure> {
    let text = fs::read_to_string(format!("/proc/{process}/status"))?;
    let found = text.lines().find_map(|all| all.strip_prefix(line));
    let kib = found.and_then(|rest| rest.split_whitespace().next()).ok_or("no such line")?;
    Ok(kib.parse::<f64>()? / 1024.0)
}
