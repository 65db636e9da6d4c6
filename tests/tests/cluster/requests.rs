//! What people ask for outside of git.

use leasehold_crds::GpuRequest;
use leasehold_tests::{
    jobs::{self, Job},
    suite::Stage,
    waiting::wait_for,
};

use crate::LIMIT;

/// Makes a request and waits for its answer.
fn ask(stage: &Stage, namespace: &str, name: &str, action: &str, job: &str) -> (String, String) {
    let request = format!(
        "apiVersion: leasehold.dev/v1alpha1
kind: GpuRequest
metadata: {{name: {name}}}
spec:
  target: {{kind: GpuJob, name: {job}}}
  action: {action}
"
    );
    stage.playground.apply(namespace, &request).unwrap();
    wait_for(&format!("request {name} is answered"), LIMIT, || {
        let request: Option<GpuRequest> = stage
            .playground
            .get(namespace, "gpurequest", name)
            .map_err(|error| error.to_string())?;
        let status = request.and_then(|request| request.status).ok_or("no status")?;
        if status.state == "Pending" {
            Err("pending".to_owned())
        } else {
            Ok((status.state, status.message))
        }
    })
}

pub(crate) fn a_request_stops_a_job_that_git_wants_to_run(stage: &Stage) {
    let namespace = jobs::namespace(stage, "requests");
    let job = Job::named("train").simulated_for("600s");
    job.apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    assert_eq!(ask(stage, &namespace, "stop", "Stop", "train").0, "Done");
    jobs::until_ready_is(stage, &namespace, "train", "Stopped", LIMIT);
    // What a git controller does all the time starts nothing.
    job.apply(stage, &namespace);
    let message = jobs::until_ready_is(stage, &namespace, "train", "Stopped", LIMIT);
    assert!(message.contains("GpuRequest stop"), "{message}");
    let changed = stage.playground.apply(
        &namespace,
        "apiVersion: leasehold.dev/v1alpha1
kind: GpuRequest
metadata: {name: stop}
spec: {target: {kind: GpuJob, name: train}, action: Start}
",
    );
    assert!(changed.unwrap_err().to_string().contains("acted on once"));
    assert_eq!(ask(stage, &namespace, "go-on", "Start", "train").0, "Done");
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    jobs::closed_lease(stage, &namespace, "train-r0-a1", LIMIT);
    let (answer, message) = ask(stage, &namespace, "nobody", "Stop", "absent");
    assert_eq!((answer.as_str(), message.as_str()), ("Refused", "there is no job of this name"));
}
