//! Whether the kernel killed a process of this container for memory. Does I/O; unknown where the
//! control groups are not mounted.

use std::fs;

/// Counters of version 2 and of version 1, as a container sees its own group.
const COUNTERS: [&str; 2] =
    ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"];

/// How many processes of this container the kernel has killed for memory so far.
#[must_use]
pub fn oom_kills() -> Option<u64> {
    COUNTERS.iter().find_map(|file| count(&fs::read_to_string(file).ok()?))
}

fn count(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_count_kills() {
        assert_eq!(count("low 0\nhigh 0\nmax 5\noom 2\noom_kill 1\noom_group_kill 0\n"), Some(1));
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(count("oom_kill_disable 0\n"), None);
    }
}
