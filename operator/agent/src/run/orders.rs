//! What the operator says while the program runs: annotations of the pod, as files. Does I/O.
//!
//! The kubelet replaces all files at once by swapping a symbolic link, so a read sees an old or a
//! new order, never half of one. A missing or empty file is no order.

use std::{fs, path::PathBuf, time::Duration};

use leasehold_core::reason::Reason;

use crate::notice;

/// An order to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Why; [`Reason::Stopped`] when the operator is newer and its word unknown here.
    pub reason: Reason,
    /// The operator's word.
    pub word: String,
}

/// The directory with the orders.
#[derive(Debug)]
pub struct Orders {
    directory: Option<PathBuf>,
    /// The last running time that could be read.
    runtime: Option<Duration>,
    /// The last text that could not be read, so that it is told once.
    unreadable: Option<String>,
}

impl Orders {
    /// Orders from a directory; from nowhere without one.
    #[must_use]
    pub const fn from(directory: Option<PathBuf>) -> Self {
        Self { directory, runtime: None, unreadable: None }
    }

    /// The order to stop.
    #[must_use]
    pub fn stop(&self) -> Option<Order> {
        let word = self.text("stop")?;
        Some(Order { reason: Reason::parse(&word).unwrap_or(Reason::Stopped), word })
    }

    /// The changed running time. A text that cannot be read leaves the last one in force.
    pub fn runtime(&mut self) -> Option<Duration> {
        let Some(text) = self.text("runtime-seconds") else {
            self.runtime = None;
            return None;
        };
        if let Ok(seconds) = text.parse() {
            self.runtime = Some(Duration::from_secs(seconds));
        } else if self.unreadable.as_ref() != Some(&text) {
            notice::say(&format!(
                "warning: {text:?} is not a running time in seconds and changes nothing"
            ));
            self.unreadable = Some(text);
        }
        self.runtime
    }

    fn text(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.directory.as_ref()?.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
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
    fn an_unknown_word_stops_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let orders = Orders::from(Some(directory.path().to_owned()));
        for (word, reason) in
            [("BudgetExhausted\n", Reason::BudgetExhausted), ("Idle", Reason::Stopped)]
        {
            fs::write(directory.path().join("stop"), word).unwrap();
            let order = orders.stop().unwrap();
            assert_eq!((order.reason, order.word.as_str()), (reason, word.trim()));
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
