//! Secrets are taken out of everything that is shown. Pure; never fails.

/// Stands where a secret was.
const MASK: &str = "***";

/// Shorter values occur in ordinary words; masking them would hide the message.
const SHORTEST_SECRET: usize = 4;

/// Takes secrets out of texts: user names, passwords and tokens in addresses, and known values.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    secrets: Vec<String>,
}

impl Mask {
    /// A mask that also knows these values, for example passwords of an index.
    #[must_use]
    pub fn knowing(secrets: impl IntoIterator<Item = String>) -> Self {
        let secrets = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST_SECRET);
        Self { secrets: secrets.collect() }
    }

    /// The text without secrets.
    #[must_use]
    pub fn apply(&self, text: &str) -> String {
        let known = |text: String, secret: &String| text.replace(secret.as_str(), MASK);
        self.secrets.iter().fold(without_userinfo(text), known)
    }
}

/// The part before `@` in every address: RFC 3986 ends it before the first `/`, `?` or `#`.
fn without_userinfo(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let ends = |letter: char| letter.is_whitespace() || "/?#\"'`<>".contains(letter);
        let authority = after.get(..after.find(ends).unwrap_or(after.len())).unwrap_or_default();
        rest = after;
        if let Some((userinfo, _)) = authority.rsplit_once('@') {
            shown.push_str(MASK);
            rest = after.get(userinfo.len()..).unwrap_or_default();
        }
    }
    shown.push_str(rest);
    shown
}

/// The secrets in an address with user name and password, as [`Mask::knowing`] takes them.
pub fn secrets_of(address: &str) -> impl Iterator<Item = String> {
    let authority = address.split_once("://").map(|(_, rest)| rest);
    let authority = authority.and_then(|rest| rest.split(['/', '?', '#']).next());
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
            ("a https://u:p@h1 b ftp://u@h2?q", "a https://***@h1 b ftp://***@h2?q"),
            ("git+ssh://git@host/x.git@v1", "git+ssh://***@host/x.git@v1"),
            ("https://host/a@1/b", "https://host/a@1/b"),
            ("https://user:p@ss@host", "https://***@host"),
            ("`https://u:p@host`", "`https://***@host`"),
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
        let token: Vec<_> = secrets_of("https://t0ken@host").collect();
        assert_eq!((token, secrets_of("https://host").count()), (vec!["t0ken".to_owned()], 0));
    }
}
