//! Whose server packages come from: one that the installation names, or one of the job's own. Pure.
//!
//! It decides who pays when a server cannot be reached, as long as no variable of the job can be
//! what keeps uv from it ([`super::variables`]). Where nobody is known to have named it, as
//! when an index leads to another server for its files, it is not the job's.

use super::{check::Requirements, mask::authority};

/// Where packages come from when nobody names an index: `PyPI` and its files.
const USUAL: [&str; 2] = ["pypi.org", "files.pythonhosted.org"];

/// Servers that are named outside of the requirements files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    installation: Vec<String>,
    own: Vec<String>,
}

impl Servers {
    /// Servers from texts with addresses: the installation's default index, its others, and what
    /// is used, which the job may have named.
    #[must_use]
    pub fn of(default_index: Option<&str>, others: Option<&str>, own: &[String]) -> Self {
        let usual = if default_index.is_none() { &USUAL[..] } else { &[] };
        let named = default_index.into_iter().chain(others).flat_map(hosts);
        Self {
            installation: named.chain(usual.iter().map(|host| (*host).to_owned())).collect(),
            own: own.iter().flat_map(|text| hosts(text)).collect(),
        }
    }

    /// Whether words are about a server that only the job names, in a variable or a file.
    #[must_use]
    pub fn is_own(&self, words: &str, requirements: &Requirements) -> bool {
        let in_files: Vec<String> =
            requirements.lines.iter().flat_map(|line| hosts(&line.text)).collect();
        hosts(words).any(|host| {
            !self.installation.contains(&host)
                && (self.own.contains(&host) || in_files.contains(&host))
        })
    }
}

/// The servers of all addresses in a text, with their ports where they are not the usual ones.
fn hosts(text: &str) -> impl Iterator<Item = String> {
    text.match_indices("://").filter_map(|(at, mark)| {
        let authority = authority(text.get(at + mark.len()..)?);
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let host = host.trim_end_matches([',', ';', ')', '.', ':']).to_ascii_lowercase();
        let usual = [":443", ":80"].iter().find_map(|port| host.strip_suffix(port));
        Some(usual.unwrap_or(&host).to_owned()).filter(|host| !host.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restore::lines::split;

    #[test]
    fn a_server_is_the_jobs_when_only_the_job_names_it() {
        let text = "torch --hash=x\n--extra-index-url https://u:${P}@Own.example:443/simple\n\
                    six @ git+https://git.example/six.git # see https://comment.example\n\
                    -i http://mirror.example/simple\n";
        let requirements = Requirements { lines: split("r.txt", text), ..Requirements::default() };
        let mirror = Servers::of(
            Some("http://mirror.example/simple"),
            Some("extra=https://extra.example/simple"),
            &["https://a.example/simple http://b.example:8080/simple,https://c.example".to_owned()],
        );
        for (words, own) in [
            ("Failed to fetch: https://***@own.example/simple/six/", true),
            ("unable to access 'https://git.example/six.git/'", true),
            ("url (http://a.example:80/simple/six/)", true),
            ("url (http://b.example:8080/six)", true),
            ("url (http://b.example/six)", false),
            ("at https://c.example.", true),
            ("at http://mirror.example/simple/six/", false),
            ("at https://extra.example/simple/six/", false),
            ("at https://comment.example/", false),
            ("at https://pypi.org/simple/", false),
            ("no address", false),
        ] {
            assert_eq!(mirror.is_own(words, &requirements), own, "{words}");
        }
    }

    #[test]
    fn the_usual_index_is_the_jobs_only_beside_another_one() {
        let own = ["https://pypi.org/simple".to_owned()];
        let words = "Failed to fetch: https://pypi.org/simple/six/";
        let nothing = Requirements::default();
        assert!(!Servers::of(None, None, &own).is_own(words, &nothing));
        assert!(Servers::of(Some("https://mirror/simple"), None, &own).is_own(words, &nothing));
    }
}
