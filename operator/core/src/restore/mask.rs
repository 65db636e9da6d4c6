//! Secrets are taken out of everything that is shown. Pure; never fails.

use std::cmp::Reverse;

/// Stands where a secret was.
const MASK: &str = "***";

/// Shorter values occur in ordinary words; masking them would hide the message.
const SHORTEST_SECRET: usize = 4;

/// Takes secrets out of texts: user names, passwords and tokens in addresses, and known values.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    /// The longest first: one may be a part of another.
    secrets: Vec<String>,
}

impl Mask {
    /// A mask that also knows these values, for example passwords of an index.
    #[must_use]
    pub fn knowing(secrets: impl IntoIterator<Item = String>) -> Self {
        let secrets = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST_SECRET);
        let mut secrets: Vec<String> = secrets.collect();
        secrets.sort_by_key(|secret| Reverse(secret.len()));
        Self { secrets }
    }

    /// The text without secrets.
    #[must_use]
    pub fn apply(&self, text: &str) -> String {
        let known = |text: String, secret: &String| text.replace(secret.as_str(), MASK);
        without_credentials(&self.secrets.iter().fold(text.to_owned(), known))
    }

    /// The beginning of a longer text, without secrets and without an end that could be half of one.
    #[must_use]
    pub fn apply_to_beginning(&self, text: &str) -> String {
        let mut kept = without_unfinished_address(text);
        while let Some(shorter) =
            self.secrets.iter().find_map(|secret| without_beginning_of(secret, kept))
        {
            kept = shorter;
        }
        self.apply(kept)
    }
}

/// The text before the beginning of a secret at its end.
fn without_beginning_of<'a>(secret: &str, text: &'a str) -> Option<&'a str> {
    let ends = secret.char_indices().map(|(at, _)| at).filter(|at| *at > 0).rev();
    ends.into_iter().find_map(|end| text.strip_suffix(secret.get(..end)?))
}

/// The text up to an address at its end of which the part before `@` may go on.
fn without_unfinished_address(text: &str) -> &str {
    let unfinished = text.rmatch_indices("://").map(|(at, mark)| at + mark.len()).next();
    let unfinished = unfinished.and_then(|at| Some((text.get(..at)?, text.get(at..)?)));
    match unfinished {
        Some((before, after)) if authority(after) == after => before,
        Some(_) | None => text,
    }
}

/// What follows `://` up to the path. A host has none of the letters that end it.
pub(super) fn authority(after: &str) -> &str {
    let ends = |letter: char| letter.is_whitespace() || "/?#\"'`<>".contains(letter);
    after.split(ends).next().unwrap_or_default()
}

/// Without the part before `@` in every address, which RFC 3986 ends before the first `/`, `?` or `#`,
/// and without its query: signed addresses and tokens are written there.
fn without_credentials(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        rest = after;
        if let Some((userinfo, _)) = authority(after).rsplit_once('@') {
            shown.push_str(MASK);
            rest = after.get(userinfo.len()..).unwrap_or_default();
        }
        let ends = |letter: char| letter.is_whitespace() || "\"'`<>".contains(letter);
        let (address, others) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        if let Some((place, query)) = address.split_once('?').filter(|(_, query)| !query.is_empty())
        {
            shown.push_str(place);
            shown.push('?');
            shown.push_str(MASK);
            let fragment = query.find('#').and_then(|at| query.get(at..));
            shown.push_str(fragment.unwrap_or_default());
            rest = others;
        }
    }
    shown.push_str(rest);
    shown
}

/// The secrets in an address with user name and password, as [`Mask::knowing`] takes them. That of a
/// proxy may have no scheme.
pub fn secrets_of(address: &str) -> impl Iterator<Item = String> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next();
    let userinfo = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
    // A user name alone is a token; beside a password it is no secret.
    let secret =
        userinfo.map(|userinfo| userinfo.split_once(':').map_or(userinfo, |(_, word)| word));
    secret.map(str::to_owned).into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_addresses_are_masked() {
        for (text, shown) in [
            ("https://user:s3cret@host/simple", "https://***@host/simple"),
            ("at (http://token@host:80/x)", "at (http://***@host:80/x)"),
            ("a https://u:p@h1 b ftp://u@h2?q", "a https://***@h1 b ftp://***@h2?***"),
            ("git+ssh://git@host/x.git@v1", "git+ssh://***@host/x.git@v1"),
            ("https://host/a@1/b", "https://host/a@1/b"),
            ("https://user:p@ss@host", "https://***@host"),
            ("`https://u:p@host`", "`https://***@host`"),
            (
                "at https://host/x.whl?sig=s3cret&a=b#sha256=1 next",
                "at https://host/x.whl?***#sha256=1 next",
            ),
            ("`https://host/?token=s3cret`", "`https://host/?***`"),
            ("https://h/a?b=c://d?e f://g?h", "https://h/a?*** f://g?***"),
            ("did https://host/ end?", "did https://host/ end?"),
            ("nothing @ all ://", "nothing @ all ://"),
            ("https://é:ü@host/ß", "https://***@host/ß"),
        ] {
            assert_eq!(Mask::default().apply(text), shown);
        }
    }

    #[test]
    fn known_values_are_masked_wherever_they_stand() {
        let address = "https://user:s3cret@host/simple";
        let mask = Mask::knowing(secrets_of(address).chain(["abc".to_owned()]));
        assert_eq!(mask.apply("token s3cret of user abc"), "token *** of user abc");
        for (address, secret) in [
            ("https://t0ken@host", Some("t0ken")),
            ("user:s3cret@proxy:3128", Some("s3cret")),
            ("https://host", None),
            ("/path/a@b", None),
        ] {
            assert_eq!(secrets_of(address).next().as_deref(), secret, "{address}");
        }
    }

    #[test]
    fn a_secret_that_contains_another_leaves_no_rest() {
        for secrets in [["team", "team-s3cret"], ["team-s3cret", "team"]] {
            let mask = Mask::knowing(secrets.map(str::to_owned));
            assert_eq!(mask.apply("team-s3cret of team"), "*** of ***");
        }
        // What stands in it like an address is a part of it.
        let mask = Mask::knowing(["a://b@c".to_owned()]);
        assert_eq!(mask.apply("word a://b@c"), "word ***");
    }

    #[test]
    fn a_beginning_ends_before_half_a_secret() {
        let mask = Mask::knowing(["s3cret-é-end".to_owned(), "cret-other".to_owned()]);
        for (text, shown) in [
            ("word s3cret-é-en", "word "),
            ("word s3cret-é", "word "),
            ("word s", "word "),
            ("word s3cret-é-end", "word ***"),
            ("s3cret-é-end s3cret-é-end cret-o", "*** *** "),
            // The end of the first could be the beginning of the second.
            ("s3cret", ""),
            ("at https://user:pass", "at https://"),
            ("at https://user:pass@host", "at https://"),
            ("at https://user:pass@host/", "at https://***@host/"),
            ("plain", "plain"),
            ("", ""),
        ] {
            assert_eq!(mask.apply_to_beginning(text), shown, "{text}");
        }
    }
}
