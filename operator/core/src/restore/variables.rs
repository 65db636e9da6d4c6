//! Variables of a job or its image that stand between uv and an index. Pure.
//!
//! The installation sets none of them, so whoever has set one answers for a way that does not work:
//! it may be the variable. Which failures a variable can cause depends on what it changes; a list of
//! certificates does not keep a name from being resolved.
//!
//! Source: uv's reference of environment variables and its source (`crates/uv-settings`,
//! `crates/uv-client`), reqwest's system proxies, git's and libcurl's manual pages.

/// What a variable changes about the way to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changes {
    /// The way to addresses that begin so.
    Way(&'static [&'static str]),
    /// Who is trusted.
    Trust,
    /// Whom git trusts, which uv calls for `git+https://…`.
    TrustOfGit,
    /// How long uv waits for an answer.
    Patience,
    /// How often uv tries again.
    Tries,
    /// Whether uv tries at all.
    Network,
}

const HTTP: Changes = Changes::Way(&["http://"]);
const HTTPS: Changes = Changes::Way(&["https://"]);
const BOTH: Changes = Changes::Way(&["http://", "https://"]);

/// The variables, and what each changes.
const KNOWN: [(&str, Changes); 23] = [
    ("HTTP_PROXY", HTTP),
    ("http_proxy", HTTP),
    ("HTTPS_PROXY", HTTPS),
    ("https_proxy", HTTPS),
    ("ALL_PROXY", BOTH),
    ("all_proxy", BOTH),
    ("UV_SYSTEM_CERTS", Changes::Trust),
    ("UV_NATIVE_TLS", Changes::Trust),
    ("SSL_CERT_FILE", Changes::Trust),
    ("SSL_CERT_DIR", Changes::Trust),
    ("SSL_CLIENT_CERT", Changes::Trust),
    ("GIT_SSL_CAINFO", Changes::TrustOfGit),
    ("GIT_SSL_CAPATH", Changes::TrustOfGit),
    ("GIT_SSL_CERT", Changes::TrustOfGit),
    ("GIT_SSL_KEY", Changes::TrustOfGit),
    ("GIT_PROXY_SSL_CAINFO", Changes::TrustOfGit),
    ("UV_HTTP_TIMEOUT", Changes::Patience),
    ("UV_REQUEST_TIMEOUT", Changes::Patience),
    ("HTTP_TIMEOUT", Changes::Patience),
    ("UV_HTTP_CONNECT_TIMEOUT", Changes::Patience),
    ("UV_HTTP_RETRIES", Changes::Tries),
    ("UV_INTERNAL__TEST_NO_HTTP_RETRY_DELAY", Changes::Tries),
    ("UV_OFFLINE", Changes::Network),
];

/// Variables that uv reads as yes or no.
const SWITCHES: [&str; 3] = ["UV_SYSTEM_CERTS", "UV_NATIVE_TLS", "UV_OFFLINE"];

/// How uv understands no.
const NO: [&str; 6] = ["0", "false", "f", "no", "n", "off"];

/// Words about a certificate, in lower case: of uv's library, then of git's.
const CERTIFICATE: [&str; 5] = [
    "invalid peer certificate",
    "received fatal alert",
    "certificate problem",
    "certificate verif",
    "setting certificate",
];

/// Words about an answer that did not come in time, in lower case.
const LATE: [&str; 3] = ["timed out", "timeout", "deadline has elapsed"];

/// How uv's words begin, in lower case, when git failed.
const GIT: &str = "git operation failed";

/// How uv says, in lower case, that it was told not to use the network.
pub(super) const OFFLINE: [&str; 2] =
    ["network connectivity is disabled", "the network was disabled"];

/// The variables of a job or its image that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    set: Vec<(&'static str, Changes)>,
}

impl Variables {
    /// Those that have a value. One that says no to what it stands for is not set.
    #[must_use]
    pub fn of(read: impl Fn(&str) -> Option<String>) -> Self {
        let is_set = |(name, _): &(&'static str, Changes)| {
            read(name).is_some_and(|value| {
                let is_no = SWITCHES.contains(name) && NO.contains(&value.to_lowercase().as_str());
                !value.is_empty() && !is_no
            })
        };
        Self { set: KNOWN.into_iter().filter(is_set).collect() }
    }

    /// Variables with the address of a proxy, which can have a password.
    pub fn of_proxies() -> impl Iterator<Item = &'static str> {
        let known = KNOWN.into_iter().filter(|(_, changes)| matches!(changes, Changes::Way(_)));
        known.map(|(name, _)| name)
    }

    /// Names of those that can have caused what these words say of an unreachable server. The words
    /// are in lower case.
    #[must_use]
    pub fn behind(&self, words: &str) -> Vec<&'static str> {
        let speak_of = |them: &[&str]| them.iter().any(|word| words.contains(word));
        let names_no_address = !words.contains("://");
        let (is_offline, is_of_git) = (speak_of(&OFFLINE), words.contains(GIT));
        let can = |changes: &Changes| match changes {
            Changes::Network => is_offline,
            _ if is_offline => false,
            Changes::Way(beginnings) => names_no_address || speak_of(beginnings),
            Changes::Trust => speak_of(&CERTIFICATE),
            Changes::TrustOfGit => is_of_git && speak_of(&CERTIFICATE),
            Changes::Patience => !is_of_git && speak_of(&LATE),
            // A certificate that is not trusted is not looked at again.
            Changes::Tries => !is_of_git && !speak_of(&CERTIFICATE),
        };
        let set = self.set.iter().filter(|(_, changes)| can(changes));
        set.map(|(name, _)| *name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: &str = "failed to fetch: https://index/simple/six/: error sending request for url \
        (https://index/simple/six/): client error (connect): tcp connect error: connection refused";
    const PLAIN: &str = "failed to fetch: http://index/simple/six/: http status server error (503)";
    const LATE: &str = "failed to fetch: https://index/simple/six/: operation timed out";
    const DISTRUSTED: &str =
        "failed to fetch: https://index/simple/six/: invalid peer certificate: unknownissuer";
    const WITHOUT_NETWORK: &str = "network connectivity is disabled, but the requested data wasn't \
        found in the cache: https://index/six-1.0-py3-none-any.whl";
    const GIT_DISTRUSTED: &str = "git operation failed: fatal: unable to access 'https://host/x.git/': \
        server certificate verification failed. cafile: none";
    const GIT_LATE: &str = "git operation failed: fatal: unable to access 'https://host/x.git/': \
        failed to connect to host port 443: connection timed out";
    const FAILURES: [&str; 7] =
        [REFUSED, PLAIN, LATE, DISTRUSTED, WITHOUT_NETWORK, GIT_DISTRUSTED, GIT_LATE];

    fn all_set() -> Variables {
        Variables::of(|_| Some("1".to_owned()))
    }

    #[test]
    fn a_variable_answers_for_what_it_can_have_caused() {
        let http = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
        let https = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
        let trust = [
            "UV_SYSTEM_CERTS",
            "UV_NATIVE_TLS",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
            "SSL_CLIENT_CERT",
        ];
        let trust_of_git = [
            "GIT_SSL_CAINFO",
            "GIT_SSL_CAPATH",
            "GIT_SSL_CERT",
            "GIT_SSL_KEY",
            "GIT_PROXY_SSL_CAINFO",
        ];
        let patience =
            ["UV_HTTP_TIMEOUT", "UV_REQUEST_TIMEOUT", "HTTP_TIMEOUT", "UV_HTTP_CONNECT_TIMEOUT"];
        let tries = ["UV_HTTP_RETRIES", "UV_INTERNAL__TEST_NO_HTTP_RETRY_DELAY"];
        for (words, names) in [
            (REFUSED, [&https[..], &tries].concat()),
            (PLAIN, [&http[..], &tries].concat()),
            (LATE, [&https[..], &patience, &tries].concat()),
            (DISTRUSTED, [&https[..], &trust].concat()),
            (WITHOUT_NETWORK, vec!["UV_OFFLINE"]),
            (GIT_DISTRUSTED, [&https[..], &trust, &trust_of_git].concat()),
            (GIT_LATE, https.to_vec()),
        ] {
            assert_eq!(all_set().behind(words), names, "{words}");
        }
        let anywhere = all_set().behind("dns error");
        assert!(http.iter().chain(&https).all(|name| anywhere.contains(name)), "{anywhere:?}");
    }

    #[test]
    fn each_variable_answers_for_some_failure() {
        for (name, _) in KNOWN {
            let only = Variables::of(|asked| (asked == name).then(|| "1".to_owned()));
            assert!(FAILURES.iter().any(|words| only.behind(words) == [name]), "{name}");
        }
    }

    #[test]
    fn what_is_not_set_or_excepts_from_a_proxy_answers_for_nothing() {
        for value in ["", "0", "False", "off"] {
            let variables = Variables::of(|name| {
                (value.is_empty() || SWITCHES.contains(&name)).then(|| value.to_owned())
            });
            assert_eq!(variables, Variables::default(), "{value:?}");
        }
        let excepted = |name: &str| name.eq_ignore_ascii_case("NO_PROXY").then(|| "*".to_owned());
        assert_eq!(Variables::of(excepted), Variables::default());
        assert_eq!(Variables::default().behind(REFUSED), Vec::<&str>::new());
    }
}
