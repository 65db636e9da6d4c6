//! Waiting until something is true, with a deadline and the last state in the failure.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Looks until `look` finds something or the time is over.
///
/// # Panics
/// When the time is over: with what was waited for and what was seen last.
pub fn wait_for<T, E: Display>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<T, E>,
) -> T {
    #[expect(clippy::disallowed_methods, reason = "waiting for real processes takes real time")]
    let now = Instant::now;
    let start = now();
    loop {
        match look() {
            Ok(found) => return found,
            #[expect(clippy::panic, reason = "this is how a test fails")]
            Err(seen) if now().duration_since(start) > limit => {
                panic!("{what}: not within {}s; last seen: {seen}", limit.as_secs())
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}
