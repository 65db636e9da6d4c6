//! `prepare` with the real uv, and indexes that fail or are not asked: what is told, and who pays.
#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod agent;
mod index;
mod pod;

use std::{fs, thread};

use agent::{Agent, file};
use index::{Answer, Index};
use leasehold_core::reason::Reason;
use pod::{a_pod, refused};

/// The agent without what this machine knows of proxies.
fn without_proxies(agent: Agent) -> Agent {
    let names = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"];
    names.into_iter().fold(agent, Agent::without)
}

#[test]
fn an_index_that_refuses_or_fails_is_told_from_one_without_the_package() {
    let pod = a_pod();
    for (answer, reason, words) in [
        (Answer::Status("401 Unauthorized"), Reason::IndexRefused, "401"),
        (Answer::Status("403 Forbidden"), Reason::IndexRefused, "403"),
        (Answer::Status("404 Not Found"), Reason::PackageNotFound, "a.txt:1"),
        (Answer::Status("503 Service Unavailable"), Reason::IndexUnreachable, "503"),
    ] {
        let index = Index::that_answers(answer);
        let address = index.address("user:s3cret-word@");
        let line = format!("first\n--extra-index-url {address}\n");
        let prepares = pod.prepares(&[("a.txt", &line)]).with("UV_DEFAULT_INDEX", &address);
        let seen = without_proxies(prepares).with("LEASEHOLD_INDEX", &address).ends();
        refused(&seen, reason, &[words]);
        let told = format!("{} {}", seen.stderr_text(), seen.report.evidence);
        assert!(!told.contains("s3cret"), "{told}");
    }
}

#[test]
fn an_index_that_only_the_job_names_is_paid_by_the_job() {
    let index = Index::that_answers(Answer::Status("503 Service Unavailable"));
    let address = index.address("user:s3cret-word@");
    let line = format!("first\n--extra-index-url {address}\n");
    let check = |text: &str, variable: &str| {
        let prepares = without_proxies(a_pod().prepares(&[("a.txt", text)]));
        let prepares = prepares.with(variable, &address);
        refused(&prepares.ends(), Reason::OwnIndexUnreachable, &["503"]);
    };
    // Side by side, because each waits for uv's tries.
    thread::scope(|scope| {
        for (text, variable) in [
            (line.as_str(), "NO_VARIABLE"),
            ("first\n", "UV_EXTRA_INDEX_URL"),
            ("first\n", "UV_DEFAULT_INDEX"),
        ] {
            scope.spawn(move || check(text, variable));
        }
    });
}

#[test]
fn an_index_that_variables_of_the_job_lead_away_from_is_paid_by_the_job() {
    let pod = a_pod();
    let index = Index::that_answers(Answer::Nothing);
    let address = index.address("");
    let few = ("UV_HTTP_RETRIES", "0");
    for (variables, words) in [
        (
            &[("HTTP_PROXY", "http://user:s3cret-word@127.0.0.1:9"), few][..],
            ["HTTP_PROXY, UV_HTTP_RETRIES are set by the job", "refused"],
        ),
        (
            &[("UV_HTTP_TIMEOUT", "1"), few],
            ["UV_HTTP_TIMEOUT, UV_HTTP_RETRIES are set by the job", "timed out"],
        ),
        (&[("UV_OFFLINE", "1")], ["UV_OFFLINE is set by the job", "first"]),
    ] {
        let prepares = without_proxies(pod.prepares(&[("a.txt", "first\n")]));
        let prepares =
            prepares.with("LEASEHOLD_INDEX", &address).with("UV_DEFAULT_INDEX", &address);
        let prepares =
            variables.iter().fold(prepares, |agent, (name, value)| agent.with(name, value));
        let seen = prepares.ends();
        refused(&seen, Reason::OwnIndexUnreachable, &words);
        assert!(!format!("{seen:?} {}", seen.stderr_text()).contains("s3cret"), "{seen:?}");
    }
}

#[test]
fn configuration_files_of_uv_lead_nowhere() {
    let pod = a_pod();
    pod.wheel("first", "1.0");
    let code = pod.place.path().join("code");
    fs::create_dir(&code).unwrap();
    file(&code, "a.txt", "first\n", 0o644);
    let configuration = file(&code, "uv.toml", "no-index = true\n", 0o644);
    file(&code, "pyproject.toml", "[tool.uv]\nno-index = true\n", 0o644);
    let seen = pod
        .prepares(&[])
        .with("LEASEHOLD_REQUIREMENTS", "a.txt")
        .with("LEASEHOLD_FILES_DIR", &pod.path("code"))
        .with("UV_CONFIG_FILE", &configuration)
        .ends();
    assert_eq!(seen.code, Some(0), "{seen:?}");
}
