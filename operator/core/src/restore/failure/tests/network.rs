//! Servers that refuse, do not answer, or are not asked.

use super::*;

#[test]
fn the_way_to_an_index_is_explained() {
    check(
        &[("r.txt", "six")],
        &[
            (
                "error: Request failed after 3 retries in 6.5s
  cause: Failed to fetch: http://127.0.0.1:9/simple/attrs/
  cause: error sending request for url (http://127.0.0.1:9/simple/attrs/)
  cause: client error (Connect)
  cause: tcp connect error
  cause: Connection refused (os error 111)",
                Reason::IndexUnreachable,
                &["http://127.0.0.1:9/simple/attrs/", "Connection refused"],
            ),
            (
                "error: Request failed after 3 retries in 6.3s
  cause: Failed to fetch: https://no-such-host.invalid/simple/attrs/
  cause: error sending request for url (https://no-such-host.invalid/simple/attrs/)
  cause: client error (Connect)
  cause: dns error
  cause: error resolving DNS
  cause: failed to lookup address information: Name does not resolve",
                Reason::IndexUnreachable,
                &["no-such-host.invalid", "Name does not resolve"],
            ),
            (
                "error: Failed to fetch: https://127.0.0.1:18443/simple/toolz/
  cause: error sending request for url (https://127.0.0.1:18443/simple/toolz/)
  cause: client error (Connect)
  cause: invalid peer certificate: UnknownIssuer",
                Reason::IndexUnreachable,
                &["UnknownIssuer"],
            ),
            (
                "error: Request failed after 2 retries in 33.5s
  cause: Failed to fetch: http://127.0.0.1:18099/simple/toolz/
  cause: error sending request for url (http://127.0.0.1:18099/simple/toolz/)
  cause: operation timed out",
                Reason::IndexUnreachable,
                &["operation timed out"],
            ),
            (
                "error: Request failed after 3 retries in 8.3s
  cause: Failed to fetch: http://127.0.0.1:18084/simple/six/
  cause: HTTP status server error (503 Service Unavailable) for url (http://127.0.0.1:18084/simple/six/)",
                Reason::IndexUnreachable,
                &["503 Service Unavailable"],
            ),
            (
                "error: Request failed after 3 retries in 7.8s
  cause: Failed to fetch: http://127.0.0.1:18085/simple/six/
  cause: HTTP status client error (429 Too Many Requests) for url (http://127.0.0.1:18085/simple/six/)",
                Reason::IndexUnreachable,
                &["429"],
            ),
            (
                "error: No solution found when resolving dependencies
  cause: Because six was not found in the package registry and you require six, we can conclude that your requirements are unsatisfiable.

hint: An index URL (http://127.0.0.1:18080/simple) could not be queried due to a lack of valid authentication credentials (401 Unauthorized)",
                Reason::IndexRefused,
                &["http://127.0.0.1:18080/simple", "401 Unauthorized"],
            ),
            (
                "error: No solution found when resolving dependencies
  cause: Because six was not found in the package registry and you require six, we can conclude that your requirements are unsatisfiable.

hint: An index (http://127.0.0.1:18081/simple) returned a 403 Forbidden error. Check that the index URL is correct and the credentials are valid.",
                Reason::IndexRefused,
                &["403 Forbidden"],
            ),
            (
                "error: Failed to download `six @ https://host/nothing/six-1.0-py3-none-any.whl`
  cause: Failed to fetch: https://host/nothing/six-1.0-py3-none-any.whl
  cause: HTTP status client error (404 Not Found) for url (https://host/nothing/six-1.0-py3-none-any.whl)",
                Reason::PackageNotFound,
                &["https://host/nothing/six-1.0-py3-none-any.whl"],
            ),
            (
                "error: Failed to download and build `six @ git+https://127.0.0.1:9/x.git`
  cause: Git operation failed
  cause: failed to clone into: cache2/git-v2/db/643f48818ad0f691
  cause: process didn't exit successfully: `/usr/bin/git fetch --force --update-head-ok 'https://127.0.0.1:9/x.git' '+HEAD:refs/remotes/origin/HEAD'` (exit status: 128)
         --- stderr
         fatal: unable to access 'https://127.0.0.1:9/x.git/': Failed to connect to 127.0.0.1 port 9 after 0 ms: Couldn't connect to server",
                Reason::IndexUnreachable,
                &["fatal: unable to access"],
            ),
            (
                "error: Failed to download and build `six @ git+https://github.com/none/none.git`
  cause: Git operation failed
  cause: Git executable not found. Ensure that Git is installed and available.",
                Reason::PackageBuildFailed,
                &["six @ git+https", "Git executable not found"],
            ),
        ],
    );
}

#[test]
fn an_index_that_only_the_job_names_is_its_own() {
    let output = "error: Request failed after 3 retries in 6.5s
  cause: Failed to fetch: https://***@own.example/simple/six/
  cause: error sending request for url (https://own.example/simple/six/)
  cause: dns error";
    let git = "error: Failed to download and build `six @ git+https://own.example/x.git`
  cause: Git operation failed
  cause: process didn't exit successfully: `/usr/bin/git fetch` (exit status: 128)
         --- stderr
         fatal: unable to access 'https://own.example/x.git/': Could not resolve host: own.example";
    let refused = "error: Failed to fetch: https://own.example/simple/six/
  cause: HTTP status client error (403 Forbidden) for url (https://own.example/simple/six/)";
    let installations = Servers::of(Some("https://own.example/simple"), None, &[]);
    for (text, line, servers, reason) in [
        (
            output,
            "-i https://u:p@own.example/simple",
            Servers::default(),
            Reason::OwnIndexUnreachable,
        ),
        (output, "six", Servers::default(), Reason::IndexUnreachable),
        (output, "-i https://u:p@own.example/simple", installations, Reason::IndexUnreachable),
        (
            git,
            "six @ git+https://own.example/x.git",
            Servers::default(),
            Reason::OwnIndexUnreachable,
        ),
        (refused, "-i https://own.example/simple", Servers::default(), Reason::IndexRefused),
    ] {
        let files = [("r.txt", line)];
        let requirements = gather(&["r.txt".to_owned()], &mut Written(&files)).unwrap();
        assert_eq!(
            explain(text, &requirements, &servers, &Variables::default()).reason,
            reason,
            "{line}: {text}"
        );
    }
}

#[test]
fn a_way_that_the_job_has_changed_is_its_own() {
    let proxy = "error: Failed to fetch: https://pypi.example/simple/six/
  cause: error sending request for url (https://pypi.example/simple/six/)
  cause: client error (Connect)
  cause: tunnel error: failed to create underlying connection
  cause: tcp connect error
  cause: Connection refused (os error 111)";
    let offline = "error: No solution found when resolving dependencies
  cause: Because six was not found in the cache and you require six, we can conclude that your requirements are unsatisfiable.

hint: Packages were unavailable because the network was disabled. When the network is disabled, registry packages may only be read from the cache.";
    let offline_address = "error: Failed to download `six @ https://h.example/six-1.0-py3-none-any.whl`
  cause: Network connectivity is disabled, but the requested data wasn't found in the cache: https://h.example/six-1.0-py3-none-any.whl";
    let offline_git = "error: Failed to download and build `six @ git+https://h.example/x.git`
  cause: Git operation failed
  cause: failed to clone into: c/git-v2/db/8edbf5ecdd90f30b
  cause: Remote Git fetches are not allowed because network connectivity is disabled (i.e., with `--offline`)";
    let build = "error: Failed to build `six==1.0`
  cause: The build backend returned an error
         [stderr]
         Network connectivity is disabled, but the requested data wasn't found in the cache: x";
    let refused = "error: Failed to fetch: https://pypi.example/simple/six/
  cause: HTTP status client error (403 Forbidden) for url (https://pypi.example/simple/six/)";
    let requirements = Requirements::default();
    for (text, variable, reason, words) in [
        (
            proxy,
            "https_proxy",
            Reason::OwnIndexUnreachable,
            "https_proxy is set by the job or its image: Failed to fetch: https://pypi.example",
        ),
        (proxy, "HTTP_PROXY", Reason::IndexUnreachable, "Failed to fetch"),
        (proxy, "SSL_CERT_FILE", Reason::IndexUnreachable, "Failed to fetch"),
        (offline, "UV_OFFLINE", Reason::OwnIndexUnreachable, "UV_OFFLINE is set by the job"),
        (offline, "HTTPS_PROXY", Reason::PackageNotFound, "no index has six"),
        (offline_address, "UV_OFFLINE", Reason::OwnIndexUnreachable, "wasn't found in the cache"),
        (offline_git, "UV_OFFLINE", Reason::OwnIndexUnreachable, "fetches are not allowed"),
        (build, "UV_OFFLINE", Reason::PackageBuildFailed, "six==1.0 cannot be built"),
        (refused, "HTTPS_PROXY", Reason::IndexRefused, "403 Forbidden"),
    ] {
        let variables = Variables::of(|name| (name == variable).then(|| "secret-value".to_owned()));
        let finding = explain(text, &requirements, &Servers::default(), &variables);
        assert_eq!(finding.reason, reason, "{variable}: {finding:?}");
        assert!(finding.evidence.contains(words), "{variable}: {finding:?}");
        assert!(!finding.evidence.contains("secret-value"), "{variable}: {finding:?}");
    }
    let both =
        Variables::of(|name| name.to_uppercase().starts_with("HTTPS_").then(|| "x".to_owned()));
    let both = explain(proxy, &requirements, &Servers::default(), &both).evidence;
    assert!(both.starts_with("HTTPS_PROXY, https_proxy are set by the job"), "{both}");
}
