//! What is measured on.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::Failure;

/// The machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
}

/// Reads what Linux says of it.
pub(crate) fn describe() -> Result<Machine, Failure> {
    let processor = fs::read_to_string("/proc/cpuinfo")?;
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name"));
    let memory = fs::read_to_string("/proc/meminfo")?;
    let kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = kib.and_then(|rest| rest.split_whitespace().next()).ok_or("no MemTotal")?;
    Ok(Machine {
        processor: processor.unwrap_or_default().trim_matches([' ', '\t', ':']).to_owned(),
        cores: std::thread::available_parallelism()?.get(),
        memory_gib: (kib.parse::<u64>()? + 512 * 1024) / (1024 * 1024),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
    })
}
