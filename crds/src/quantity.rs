//! CPU and memory quantities as Kubernetes writes them. Pure; parsing can fail, and fractions are
//! rounded up, as Kubernetes does. What clusters write is read as it is; what specifications say
//! is held to the forms and bounds of the CEL rules.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// 64 mebibytes, the least memory in which a container with a GPU program can start.
pub const LEAST_MEMORY: i64 = 64 << 20;
/// 64 tebibytes, the most memory that a specification may name.
pub const MOST_MEMORY: i64 = 64 << 40;
/// The most CPU that a specification may name, in thousandths of a core.
pub const MOST_CPU_MILLIS: i64 = 1_024_000;

/// Units of memory in specifications.
const MEMORY_UNITS: [&str; 9] = ["", "Ki", "Mi", "Gi", "Ti", "k", "M", "G", "T"];

/// What a unit stands for, in thousandths.
fn unit_in_thousandths(unit: &str) -> Option<i128> {
    Some(match unit {
        "m" => 1,
        "" => 1_000,
        "k" => 1_000_000,
        "M" => 1_000_000_000,
        "G" => 1_000_000_000_000,
        "T" => 1_000_000_000_000_000,
        "P" => 1_000_000_000_000_000_000,
        "Ki" => 1_000 << 10,
        "Mi" => 1_000 << 20,
        "Gi" => 1_000 << 30,
        "Ti" => 1_000 << 40,
        "Pi" => 1_000 << 50,
        _ => return None,
    })
}

/// Whole units of what a cluster offers: bytes of memory, numbers of cards.
#[must_use]
pub fn units(quantity: &Quantity) -> Option<i64> {
    let (number, unit) = split(&quantity.0);
    scaled_up(number, unit_in_thousandths(unit)?, 1_000)
}

/// Thousandths of what a cluster offers: of a CPU core.
#[must_use]
pub fn millis(quantity: &Quantity) -> Option<i64> {
    let (number, unit) = split(&quantity.0);
    scaled_up(number, unit_in_thousandths(unit)?, 1)
}

/// Memory in bytes: `32Gi`, `1.5Gi`, `16G`, `17179869184`; `None` for anything else, also when it
/// is below [`LEAST_MEMORY`] or above [`MOST_MEMORY`].
#[must_use]
pub fn memory_bytes(text: &str) -> Option<i64> {
    let (number, unit) = split(text);
    if !MEMORY_UNITS.contains(&unit) {
        return None;
    }
    let bytes = scaled_up(number, unit_in_thousandths(unit)?, 1_000)?;
    (LEAST_MEMORY..=MOST_MEMORY).contains(&bytes).then_some(bytes)
}

/// CPU in thousandths of a core: `8`, `0.5`, `500m`; `None` for anything else, also when it is
/// zero or above [`MOST_CPU_MILLIS`].
#[must_use]
pub fn cpu_millis(text: &str) -> Option<i64> {
    let (number, unit) = split(text);
    if !matches!((unit, number.contains('.')), ("", _) | ("m", false)) {
        return None;
    }
    let millis = scaled_up(number, unit_in_thousandths(unit)?, 1)?;
    (1..=MOST_CPU_MILLIS).contains(&millis).then_some(millis)
}

/// Nominal card memory in whole gibibytes: `24Gi`.
#[must_use]
pub fn whole_gibibytes(text: &str) -> Option<i64> {
    let number = text.strip_suffix("Gi")?;
    let digits =
        !number.is_empty() && number.len() <= 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    let gibibytes: i64 = if digits {
        number.parse().ok()?
    } else {
        return None;
    };
    (gibibytes > 0 && !number.starts_with('0')).then_some(gibibytes)
}

/// The number and its unit.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    text.split_at(end)
}

/// `number × unit ÷ divisor`, rounded up; at most 15 digits before the point and 9 behind it.
fn scaled_up(number: &str, unit: i128, divisor: i128) -> Option<i64> {
    const DECIMALS: u32 = 9;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str, most: usize| {
        (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !digits(whole, 15) || !digits(fraction, DECIMALS as usize) {
        return None;
    }
    let one = 10_i128.pow(DECIMALS);
    let whole: i128 = whole.parse().ok()?;
    let fraction: i128 = format!("{fraction:0<9}").parse().ok()?;
    let scaled = (whole * one + fraction).checked_mul(unit)?;
    let divisor = one * divisor;
    i64::try_from((scaled + divisor - 1) / divisor).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_is_read_as_kubernetes_reads_it_or_refused() {
        for (text, bytes) in [
            ("16G", 16_000_000_000),
            ("512Mi", 512 << 20),
            ("1.1Gi", 1_181_116_007),
            ("67108864", 64 << 20),
            ("0.0625Gi", 64 << 20),
            ("64Ti", 64 << 40),
        ] {
            assert_eq!(memory_bytes(text), Some(bytes), "{text}");
        }
        for text in [
            "512m", "16GB", "16gb", "64Gi ", " 1Gi", "16384", "", "Gi", "-1Gi", "1e9", ".5Gi",
            "1.Gi", "65Ti", "0.01Pi", "63.9Mi",
        ] {
            assert_eq!(memory_bytes(text), None, "{text:?}");
        }
    }

    #[test]
    fn cpu_is_read_as_kubernetes_reads_it_or_refused() {
        for (text, millis) in
            [("8", 8_000), ("0.5", 500), ("500m", 500), ("0.0001", 1), ("1024", 1_024_000)]
        {
            assert_eq!(cpu_millis(text), Some(millis), "{text}");
        }
        for text in ["0", "0m", "1.5m", "m", "-1", "1025", "8 ", "eight", ""] {
            assert_eq!(cpu_millis(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_a_cluster_offers_is_read_or_unknown() {
        let of = |text: &str| Quantity(text.to_owned());
        for (text, bytes) in [
            ("8", 8),
            ("1Ki", 1_024),
            ("1.5Gi", 1_610_612_736),
            ("24555112Ki", 25_144_434_688),
            ("1500m", 2),
            ("2Pi", 2 << 50),
        ] {
            assert_eq!(units(&of(text)), Some(bytes), "{text}");
        }
        for (text, cores) in [("2", 2_000), ("1900m", 1_900), ("0.5", 500)] {
            assert_eq!(millis(&of(text)), Some(cores), "{text}");
        }
        for text in ["", "m", "x", "1GB", "-1", "1e3", "999999999999999Pi"] {
            assert_eq!(units(&of(text)), None, "{text}");
        }
    }

    #[test]
    fn card_memory_is_whole_gibibytes() {
        assert_eq!(whole_gibibytes("24Gi"), Some(24));
        for text in ["24", "24G", "0Gi", "024Gi", "1.5Gi", "Gi", "99999Gi"] {
            assert_eq!(whole_gibibytes(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "[0-9.]{0,26}(m|Ki|Mi|Gi|Ti|G|x)?") {
            let _ = (memory_bytes(&text), cpu_millis(&text), whole_gibibytes(&text), units(&Quantity(text)));
        }
    }
}
