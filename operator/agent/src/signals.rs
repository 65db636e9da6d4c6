//! Signals as values that can be waited for. Does I/O.

use std::{
    sync::mpsc::{self, Receiver},
    thread,
};

use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// Receives these signals from now on. Until then the kernel drops those without a handler for a
/// PID 1, so this comes first in every stage that can be stopped.
pub fn receive(signals: &[i32]) -> Result<Receiver<i32>, Failure> {
    let mut signals = Signals::new(signals).map_err(Failure::Signals)?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || signals.forever().try_for_each(|signal| sender.send(signal)));
    Ok(receiver)
}
