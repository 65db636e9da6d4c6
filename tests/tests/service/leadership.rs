//! Two operators as processes: one leads, the other one is there when it stands still.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use leasehold::leadership::{LEASE_DURATION, RETRY_PERIOD};
use leasehold_tests::{
    jobs::{self, Job},
    playground::Playground,
    suite::Stage,
    waiting::wait_for,
};
use serde_json::Value;

use crate::{LIMIT, served::Served};

/// How long the program of the job runs: it ends while the leader stands still.
const RUN_SECONDS: i64 = 12;
/// How long an operator that goes on is watched for what it writes.
const AFTERWARDS: Duration = Duration::from_secs(5);

impl Served {
    /// Its own name, once it has said it.
    fn identity(&self) -> String {
        wait_for("it stands for election", LIMIT, || {
            let log = self.log();
            let mut names = log.iter().filter_map(|line| line["identity"].as_str());
            names.next().map(str::to_owned).ok_or("not yet")
        })
    }

    fn until_it_says(&self, words: &str) {
        wait_for(words, LIMIT, || {
            let log = self.log();
            let says =
                |line: &Value| line["message"].as_str().is_some_and(|said| said.starts_with(words));
            if log.iter().any(says) { Ok(()) } else { Err(format!("{:?}", log.last())) }
        });
    }

    fn leads(&self) -> bool {
        self.metric("leasehold_leader") == Some(1.0)
    }
}

/// Two of them, the first of which leads.
fn two(playground: &Playground, name: &str) -> (Served, Served) {
    let first = Served::start_with(playground, &format!("{name}-first"), &[]);
    first.until_it_says("leading");
    let second = Served::start_with(playground, &format!("{name}-second"), &[]);
    second.until_it_says(&format!("waiting: the leader is {}", first.identity()));
    // Who waits is ready, so that a new version can replace an old one.
    second.until_ready();
    assert!(first.leads() && !second.leads());
    (first, second)
}

/// Verb and resource of all writes of an operator since an instant, answered or not.
fn writes_since(playground: &Playground, identity: &str, since: Timestamp) -> BTreeSet<String> {
    let log = std::fs::read_to_string(playground.directory().join("audit.log")).unwrap();
    // The last line may still be being written.
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let text = |event: &Value, at: &str| {
        event.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let writes = events.filter(|event| {
        let at: Timestamp = text(event, "/requestReceivedTimestamp").parse().unwrap();
        let is_read = ["get", "list", "watch"].contains(&text(event, "/verb").as_str())
            // A question to the server.
            || text(event, "/objectRef/resource") == "selfsubjectaccessreviews";
        text(event, "/userAgent").contains(identity) && at >= since && !is_read
    });
    writes
        .map(|event| format!("{} {}", text(&event, "/verb"), text(&event, "/objectRef/resource")))
        .collect()
}

pub(crate) fn of_a_leader_that_stood_still(stage: &Stage) {
    let playground = &stage.playground;
    let namespace = jobs::namespace(stage, "stands-still");
    let (mut first, second) = two(playground, "still");
    let identity = first.identity();
    let begun = jobs::now();
    Job::named("before").simulated_for(&format!("{RUN_SECONDS}s")).apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "before", "Running", LIMIT);
    assert!(writes_since(playground, &identity, begun).contains("create pods"));

    first.signal("-STOP");
    let stopped = jobs::now();
    Job::named("meanwhile").simulated_for("1s").apply(stage, &namespace);
    second.until_it_says("leading");
    let took = jobs::now().duration_since(stopped);
    let most = LEASE_DURATION + RETRY_PERIOD + RETRY_PERIOD;
    assert!(took.unsigned_abs() <= most, "the other one leads after {took}");
    assert!(second.leads());
    for job in ["before", "meanwhile"] {
        jobs::until_ready_is(stage, &namespace, job, "Succeeded", LIMIT);
        jobs::ended_as(stage, &namespace, job, ("Completed", "User"), LIMIT);
    }
    wait_for("the leader has stood still for long", LIMIT, || {
        let still = jobs::now().duration_since(stopped).as_secs();
        if still > 25 { Ok(()) } else { Err(still) }
    });

    let woken = jobs::now();
    first.signal("-CONT");
    let ended = first.until_it_ends();
    assert_eq!(ended.code(), Some(1), "{ended}");
    first.until_it_says("leadership is lost: it was last renewed");
    // Something that both could see to.
    Job::named("after").simulated_for("1s").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "after", "Succeeded", LIMIT);
    std::thread::sleep(AFTERWARDS);
    let written = writes_since(playground, &identity, woken);
    assert!(written.is_empty(), "{written:?}");
    let leases = playground.list(&namespace, "gpuleases").unwrap();
    assert_eq!(leases.len(), 3, "one for each job");
    assert!(second.terminate().success());
}

pub(crate) fn of_a_leader_whose_lease_names_another_one(stage: &Stage) {
    let playground = &stage.playground;
    let (mut first, second) = two(playground, "taken");
    let patch = r#"{"spec": {"holderIdentity": "somebody"}}"#;
    let lease = ["lease", "leasehold", "-n", "leasehold-system", "--type=merge", "-p", patch];
    playground.kubectl(&[&["patch"], &lease[..]].concat()).unwrap();
    let ended = first.until_it_ends();
    assert_eq!(ended.code(), Some(1), "{ended}");
    first.until_it_says("leadership is lost: the lease leasehold-system/leasehold names somebody");
    // Nobody renews that name: it runs out for those that wait.
    second.until_it_says("waiting: the leader is somebody");
    second.until_it_says("leading");
    let identity = second.identity();
    assert!(second.terminate().success(), "it ends in order");
    let third = Served::start_with(playground, "taken-third", &[]);
    let begun = jobs::now();
    third.until_it_says("leading");
    let took = jobs::now().duration_since(begun);
    assert!(
        took.unsigned_abs() < LEASE_DURATION,
        "{identity} gave its lease back, and {took} passed"
    );
    assert!(third.terminate().success());
}
