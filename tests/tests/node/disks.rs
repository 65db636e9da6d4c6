//! The node's disk is full before the program starts: nobody pays. Here the disk of a volume is made
//! small, as if the node had no more room.

use leasehold_tests::{jobs, suite::Stage};

use crate::{LIMIT, environments::needing, policies};

/// Less than the agent's program and any package need.
const ROOM: &str = "64Ki";

/// A volume of a pod with no more room than that.
fn small(volume: &str) -> String {
    let number = format!("object.spec.volumes.map(one, one.name).indexOf(\"{volume}\")");
    format!(
        "JSONPatch{{op: \"add\", path: \"/spec/volumes/\" + string({number}) + \"/emptyDir\", \
         value: {{\"medium\": \"Memory\", \"sizeLimit\": \"{ROOM}\"}}}}"
    )
}

fn probe(volume: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: probe}}
spec:
  volumes: [{{name: {volume}, emptyDir: {{}}}}]
  containers: [{{name: main, image: none}}]
"
    )
}

pub(crate) fn full_before_the_program(stage: &Stage) {
    let job = needing("environment: {inline: {requirements.txt: einops}}");
    let cases = [("no-room-for-agent", "leasehold-agent"), ("no-room", "leasehold-environment")];
    for (namespace, volume) in cases {
        let namespace = jobs::namespace(stage, namespace);
        policies::put_into_force(stage, &namespace, &[small(volume)], (&probe(volume), ROOM));
        job.apply(stage, &namespace);
    }
    for (namespace, _) in cases {
        ends_for_its_disk(stage, namespace);
        policies::lift(stage, namespace);
    }
}

fn ends_for_its_disk(stage: &Stage, namespace: &str) {
    let message = jobs::until_ready_is(stage, namespace, "train", "DiskFull", LIMIT);
    for words in ["No space left on device", "node-1", "What to do"] {
        assert!(message.contains(words), "{namespace}: {message}");
    }
    let end = ("DiskFull", "Infrastructure");
    let status = jobs::ended_as(stage, namespace, "train", end, LIMIT);
    assert_eq!(status.running_at, None, "{namespace}: the program did not start");
}
