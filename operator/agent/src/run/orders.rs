//! What the operator says while the program runs: annotations of the pod, as files. Does I/O.
//!
//! The kubelet replaces all files at once by swapping a symbolic link, so a read sees an old or a
//! new order, never half of one. A missing or empty file is no order.
//!
//! Whoever may edit pods can write the annotations. What is no order of the operator is therefore
//! ignored and said once; the operator deletes a pod that does not obey.

use std::{fs, path::PathBuf, time::Duration};

use leasehold_core::reason::Reason;

use crate::notice;

/// What the operator orders as a stop, see `leasehold_core::decide`. Nothing of it is free of
/// charge, so that nobody runs for free by an annotation.
const STOPS: [Reason; 9] = [
    Reason::Stopped,
    Reason::Superseded,
    Reason::HolderDeleted,
    Reason::MaxRuntimeReached,
    Reason::BudgetExhausted,
    Reason::PodChanged,
    // Of a pod whose program has started in the last moment, or in which another container waits.
    Reason::StartupTimeout,
    Reason::ImagePullFailed,
    Reason::ContainerCreateFailed,
];

/// How much of a text that is ignored is told, in characters.
const TOLD_CHARACTERS: usize = 80;

/// The directory with the orders.
#[derive(Debug)]
pub struct Orders {
    directory: Option<PathBuf>,
    /// The last running time that could be read.
    runtime: Option<Duration>,
    /// The last running time that could not be read, so that it is told once.
    unreadable: Option<String>,
    /// The last stop that was not believed, so that it is told once.
    unbelieved: Option<String>,
}

impl Orders {
    /// Orders from a directory; from nowhere without one.
    #[must_use]
    pub const fn from(directory: Option<PathBuf>) -> Self {
        Self { directory, runtime: None, unreadable: None, unbelieved: None }
    }

    /// Why the operator orders to stop, if it does.
    pub fn stop(&mut self) -> Option<Reason> {
        let word = self.text("stop")?;
        let stop = Reason::parse(&word).filter(|reason| STOPS.contains(reason));
        if stop.is_none() {
            ignore(&mut self.unbelieved, word, "no order of the operator");
        }
        stop
    }

    /// The changed running time. A text that cannot be read leaves the last one in force.
    pub fn runtime(&mut self) -> Option<Duration> {
        let Some(text) = self.text("runtime-seconds") else {
            self.runtime = None;
            return None;
        };
        match text.parse() {
            Ok(seconds) => self.runtime = Some(Duration::from_secs(seconds)),
            Err(_) => ignore(&mut self.unreadable, text, "not a running time in seconds"),
        }
        self.runtime
    }

    fn text(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.directory.as_ref()?.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }
}

/// Says once that a text changes nothing.
fn ignore(last: &mut Option<String>, text: String, because: &str) {
    if last.as_ref() != Some(&text) {
        let told: String = text.chars().take(TOLD_CHARACTERS).collect();
        notice::say(&format!("warning: {told:?} is {because} and changes nothing"));
        *last = Some(text);
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::reason::Payer;

    use super::*;

    #[test]
    fn missing_and_empty_files_are_no_orders() {
        let directory = tempfile::tempdir().unwrap();
        let mut orders = Orders::from(Some(directory.path().to_owned()));
        assert_eq!((orders.stop(), orders.runtime()), (None, None));
        for name in ["stop", "runtime-seconds"] {
            fs::write(directory.path().join(name), "\n").unwrap();
        }
        assert_eq!((orders.stop(), orders.runtime()), (None, None));
        assert_eq!(Orders::from(None).stop(), None);
    }

    #[test]
    fn only_what_the_operator_orders_stops() {
        let directory = tempfile::tempdir().unwrap();
        let mut orders = Orders::from(Some(directory.path().to_owned()));
        let unknown = ["Idle", "stopped", "GpuLost\nStopped", &"x".repeat(100_000)];
        for word in Reason::ALL.iter().map(|reason| reason.name()).chain(unknown) {
            fs::write(directory.path().join("stop"), format!("{word}\n")).unwrap();
            let expected = STOPS.into_iter().find(|reason| reason.name() == word);
            assert_eq!(orders.stop(), expected, "{word}");
        }
    }

    #[test]
    fn no_order_is_free_of_charge() {
        for reason in STOPS {
            assert_eq!(reason.payer(), Payer::User, "{reason}");
        }
    }

    #[test]
    fn a_running_time_that_cannot_be_read_leaves_the_last_one() {
        let directory = tempfile::tempdir().unwrap();
        let mut orders = Orders::from(Some(directory.path().to_owned()));
        for (text, seconds) in
            [("60", Some(60)), ("soon", Some(60)), ("90\n", Some(90)), ("", None)]
        {
            fs::write(directory.path().join("runtime-seconds"), text).unwrap();
            assert_eq!(orders.runtime(), seconds.map(Duration::from_secs), "{text:?}");
        }
    }
}
