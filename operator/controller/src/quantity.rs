//! Reading Kubernetes quantities of resources. Pure; what cannot be read is `None`, never 0.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Suffixes and their factors, as thousandths.
const SUFFIXES: [(&str, i128); 12] = [
    ("Ki", 1_000 << 10),
    ("Mi", 1_000 << 20),
    ("Gi", 1_000 << 30),
    ("Ti", 1_000 << 40),
    ("Pi", 1_000 << 50),
    ("m", 1),
    ("k", 1_000_000),
    ("M", 1_000_000_000),
    ("G", 1_000_000_000_000),
    ("T", 1_000_000_000_000_000),
    ("P", 1_000_000_000_000_000_000),
    ("", 1_000),
];

/// Whole units, rounded down: bytes of memory, numbers of cards.
#[must_use]
pub fn units(quantity: &Quantity) -> Option<i64> {
    i64::try_from(thousandths(&quantity.0)? / 1_000).ok()
}

/// Thousandths: of a CPU core.
#[must_use]
pub fn millis(quantity: &Quantity) -> Option<i64> {
    i64::try_from(thousandths(&quantity.0)?).ok()
}

fn thousandths(text: &str) -> Option<i128> {
    let (number, factor) =
        SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)))?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || decimals.len() > 9 || !all_digits(whole) || !all_digits(decimals) {
        return None;
    }
    let scale = 10_i128.checked_pow(u32::try_from(decimals.len()).ok()?)?;
    let digits: i128 = format!("{whole}{decimals}").parse().ok()?;
    digits.checked_mul(factor).map(|product| product / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_or_unknown() {
        let of = |text: &str| Quantity(text.to_owned());
        for (text, bytes) in [
            ("8", 8),
            ("1Ki", 1_024),
            ("1.5Gi", 1_610_612_736),
            ("16G", 16_000_000_000),
            ("24555112Ki", 25_144_434_688),
        ] {
            assert_eq!(units(&of(text)), Some(bytes), "{text}");
        }
        for (text, cores) in [("2", 2_000), ("1900m", 1_900), ("0.5", 500)] {
            assert_eq!(millis(&of(text)), Some(cores), "{text}");
        }
        for text in ["", "m", "x", "1GB", "-1", "1e3"] {
            assert_eq!(units(&of(text)), None, "{text}");
        }
    }
}
