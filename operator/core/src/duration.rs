//! Durations as people write them in YAML: whole hours, minutes and seconds (`4h`, `1h30m`,
//! `90s`), a subset of Go's `time.ParseDuration`. Pure; parsing can fail.

use jiff::SignedDuration;

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a duration: write hours, minutes and seconds in that order, for example 4h, 1h30m or 90s"
)]
pub struct NotADuration {
    /// The text as given.
    pub text: String,
}

/// Parses `4h`, `1h30m`, `90s`; each unit at most once, in this order, whole numbers only.
pub fn parse(text: &str) -> Result<SignedDuration, NotADuration> {
    let refuse = || NotADuration { text: text.to_owned() };
    let mut rest = text;
    let mut seconds: i64 = 0;
    for (unit, length) in [('h', 3_600), ('m', 60), ('s', 1)] {
        let Some((digits, tail)) = rest.split_once(unit) else {
            continue;
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refuse());
        }
        let amount: i64 = digits.parse().map_err(|_| refuse())?;
        seconds = amount
            .checked_mul(length)
            .and_then(|part| seconds.checked_add(part))
            .ok_or_else(refuse)?;
        rest = tail;
    }
    if text.is_empty() || !rest.is_empty() {
        return Err(refuse());
    }
    Ok(SignedDuration::from_secs(seconds))
}

/// Prints whole seconds in the form that [`parse`] reads: `1h30m`, `45s`, `0s`.
#[must_use]
pub fn format(duration: SignedDuration) -> String {
    let total = duration.as_secs();
    let sign = if total < 0 { "-" } else { "" };
    let total = total.unsigned_abs();
    let mut text = String::new();
    for (amount, unit) in [(total / 3_600, 'h'), (total / 60 % 60, 'm'), (total % 60, 's')] {
        if amount > 0 {
            text.push_str(&amount.to_string());
            text.push(unit);
        }
    }
    if text.is_empty() { "0s".to_owned() } else { format!("{sign}{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_parsed_or_refused() {
        for (text, seconds) in
            [("4h", 14_400), ("1h30m", 5_400), ("90s", 90), ("0s", 0), ("90m", 5_400)]
        {
            assert_eq!(parse(text).unwrap().as_secs(), seconds, "{text}");
        }
        for text in [
            "",
            "4",
            "1.5h",
            "-1h",
            "h",
            "30m1h",
            "1h1h",
            "1d",
            " 1h",
            "1h ",
            "99999999999999999999h",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn durations_survive_printing(seconds in 0_i64..10_000_000) {
            let duration = SignedDuration::from_secs(seconds);
            prop_assert_eq!(parse(&format(duration)).unwrap(), duration);
        }
    }
}
