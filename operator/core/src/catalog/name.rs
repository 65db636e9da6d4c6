//! Names of cards, as people, labels of nodes and `nvidia-smi` write them. Pure.

/// The label that GPU feature discovery makes of a name: characters outside `[A-Za-z0-9-_. ]` are
/// dropped and each run of blanks becomes one `-`.
#[must_use]
pub fn product_label(product: &str) -> String {
    let kept: String = product
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | ' '))
        .collect();
    kept.split(' ').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// A name without the parts that differ between tools: vendor prefixes, case, blanks, dashes.
/// Two names mean the same card only when the whole results are equal, never by prefix.
#[must_use]
pub fn normalize(name: &str) -> String {
    let mut folded: String = letters(name).collect();
    for prefix in ["nvidia", "tesla", "geforce"] {
        if let Some(rest) = folded.strip_prefix(prefix) {
            folded = rest.to_owned();
        }
    }
    folded
}

fn letters(name: &str) -> impl DoubleEndedIterator<Item = char> {
    let letters = name.chars().filter(|letter| !matches!(letter, '-' | '_' | ' '));
    letters.map(|letter| letter.to_ascii_lowercase())
}

/// Whether a name is the same as one that is normalized. Each pass over a job asks this of all names
/// of all cards, and most differ in their last letter.
pub(super) fn is_same(name: &str, normalized: &str) -> bool {
    letters(name).rev().zip(normalized.chars().rev()).all(|(one, other)| one == other)
        && normalize(name) == normalized
}
