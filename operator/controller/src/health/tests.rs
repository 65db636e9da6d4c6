//! What readiness says.

use kube::core::Status;

use super::*;

const BEGUN: &str = "2026-01-01T12:00:00Z";

fn at(second: i64) -> Timestamp {
    BEGUN.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second)
}

fn refused(code: u16, reason: &str, message: &str) -> watcher::Error {
    let status = Status { code, ..Status::failure(message, reason) };
    watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()))
}

fn ready() -> Health {
    let health = Health::new(at(0));
    health.api_server(at(1), Ok(()));
    for watched in Watched::ALL {
        health.watch_is_complete(*watched);
    }
    health
}

fn said(health: &Health, second: i64, detail: Detail) -> String {
    Report { checks: &health.checks(at(second)), detail }.to_string()
}

#[test]
fn at_the_start_everything_is_missing_and_each_has_its_line() {
    let health = Health::new(at(0));
    let said = said(&health, 3, Detail::Missing);
    assert_eq!(said.lines().count(), 1 + Watched::ALL.len() + 1, "{said}");
    for words in [
        "[-] API server: does not answer since 2026-01-01T12:00:00Z",
        "[-] watch of GpuJob: since 2026-01-01T12:00:00Z: the first list is not complete yet",
        "not ready: 8 of 11 checks failed",
    ] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn when_nothing_is_missing_one_word_says_so_and_verbose_lists_all() {
    let health = ready();
    assert_eq!(said(&health, 5, Detail::Missing), "ready\n");
    let all = said(&health, 5, Detail::All);
    assert!(all.contains("[+] watch of Pod (those on nodes): ok"), "{all}");
    assert!(all.contains("[+] rights: ok"), "{all}");
}

#[test]
fn a_missing_right_names_kind_and_verbs() {
    let health = Health::new(at(0));
    health.api_server(at(1), Ok(()));
    let words = "nodes is forbidden: User \"operator\" cannot list resource \"nodes\"";
    health.watch_failed(Watched::Nodes, at(2), &refused(403, "Forbidden", words));
    health.watch_failed(Watched::Nodes, at(7), &refused(403, "Forbidden", words));
    let said = said(&health, 8, Detail::Missing);
    for words in [
        "[-] watch of Node: failing since 2026-01-01T12:00:02Z, last at 2026-01-01T12:00:07Z",
        "cannot list resource",
        "grant the operator list and watch on nodes",
    ] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_missing_definition_is_named_with_its_cure() {
    let health = Health::new(at(0));
    let error = refused(404, "NotFound", "404 page not found");
    health.watch_failed(Watched::OpenLeases, at(2), &error);
    let said = said(&health, 3, Detail::Missing);
    assert!(said.contains("does not know gpuleases.leasehold.dev; install"), "{said}");
}

#[test]
fn a_watch_that_stands_again_is_well_although_nothing_changes() {
    let health = ready();
    health.watch_failed(Watched::Jobs, at(100), &watcher::Error::NoResourceVersion);
    assert!(said(&health, 110, Detail::Missing).contains("watch of GpuJob: failing"));
    assert_eq!(said(&health, 121, Detail::Missing), "ready\n");
    health.watch_failed(Watched::Jobs, at(200), &watcher::Error::NoResourceVersion);
    health.watch_goes_on(Watched::Jobs);
    assert_eq!(said(&health, 201, Detail::Missing), "ready\n");
}

#[test]
fn an_api_server_that_is_gone_is_told_with_its_last_words() {
    let health = ready();
    health.api_server(at(10), Err("connection refused".to_owned()));
    health.api_server(at(15), Err("connection refused".to_owned()));
    let said = said(&health, 16, Detail::Missing);
    let words = "does not answer since 2026-01-01T12:00:10Z, last at 2026-01-01T12:00:15Z: connection refused";
    assert!(said.contains(words), "{said}");
    health.api_server(at(20), Ok(()));
    assert_eq!(self::said(&health, 21, Detail::Missing), "ready\n");
}

#[test]
fn who_waits_for_a_leader_is_ready_and_who_cannot_ask_for_one_is_not() {
    let health = ready();
    health.election(at(10), Ok(()));
    assert_eq!(said(&health, 11, Detail::Missing), "ready\n");
    health.election(at(12), Err("leases is forbidden".to_owned()));
    let said = said(&health, 13, Detail::Missing);
    assert!(said.contains("[-] leader election: failing since 2026-01-01T12:00:12Z"), "{said}");
}

#[test]
fn a_denied_right_of_a_write_is_named() {
    let health = ready();
    let right = *crate::rights::NEEDED.iter().find(|right| right.verb == "create").unwrap();
    assert_eq!(health.missing_rights(vec![right]), [right]);
    assert!(health.missing_rights(vec![right]).is_empty());
    let said = said(&health, 16, Detail::Missing);
    assert!(said.contains("[-] right to create "), "{said}");
}

#[test]
fn an_operator_that_ends_is_not_ready() {
    let health = ready();
    health.ending();
    assert!(said(&health, 5, Detail::Missing).contains("[-] shutdown"));
}
