//! Programs in real containers: how they end, and that it is told truly.

use leasehold_tests::{
    jobs::{self, Job},
    operator::Operator,
    suite::Stage,
};

use crate::LIMIT;

pub(crate) fn quickstart(stage: &Stage) {
    let namespace = jobs::namespace(stage, "quickstart");
    let example = leasehold_tests::playground::project().join("examples/quickstart.yaml");
    let example = example.to_string_lossy();
    stage.playground.kubectl(&["apply", "-n", &namespace, "-f", &example]).unwrap();
    jobs::until_ready_is(stage, &namespace, "quickstart", "Succeeded", LIMIT);
    let log = log_of(stage, &namespace, "quickstart-r0-a1");
    assert!(log.contains("NVIDIA GeForce RTX 4090") && log.contains("einops 0.8.0"), "{log}");
    jobs::ended_as(stage, &namespace, "quickstart", ("Completed", "User"), LIMIT);
}

pub(crate) fn log_of(stage: &Stage, namespace: &str, pod: &str) -> String {
    stage.playground.kubectl(&["logs", "-n", namespace, pod, "-c", "main"]).unwrap()
}

pub(crate) fn failures(stage: &Stage) {
    let namespace = jobs::namespace(stage, "failures");
    let table = [
        ("missing", "command: [trian]", "CommandNotFound", "trian"),
        ("not-executable", "command: [/etc/passwd]", "CommandNotExecutable", "/etc/passwd"),
        ("fails", "command: [python3, -c, 'raise SystemExit(3)']", "CommandFailed", "3"),
        ("killed", "script: 'kill -9 $$'", "CommandKilled", "SIGKILL"),
    ];
    for (name, program, _, _) in table {
        Job::named(name).running(program).apply(stage, &namespace);
    }
    for (name, _, reason, words) in table {
        let message = jobs::until_ready_is(stage, &namespace, name, reason, LIMIT);
        assert!(message.contains(words), "{name}: {message}");
        assert!(message.contains("What to do"), "{name}: {message}");
        jobs::ended_as(stage, &namespace, name, (reason, "User"), LIMIT);
    }
}

/// `/dev/shm` is a tmpfs of the size that was asked for.
pub(crate) fn full_disk(stage: &Stage) {
    let namespace = jobs::namespace(stage, "full");
    Job::named("train")
        .running("command: [dd, if=/dev/zero, of=/dev/shm/full, bs=1M, count=100]")
        .within("maxRuntime: 20m\nresources: {memory: 256Mi, sharedMemory: 64Mi}")
        .apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "CommandFailed", LIMIT);
    let log = log_of(stage, &namespace, "train-r0-a1");
    assert!(log.contains("No space left on device"), "{log}");
    jobs::ended_as(stage, &namespace, "train", ("CommandFailed", "User"), LIMIT);
}

pub(crate) fn image_that_is_nowhere(stage: &Stage) {
    let namespace = jobs::namespace(stage, "no-image");
    let image = "registry.invalid/team/train:1";
    Job::named("train")
        .from_image(image)
        .within("maxRuntime: 20m\nimagePullPolicy: Never")
        .apply(stage, &namespace);
    let message = jobs::until_ready_is(stage, &namespace, "train", "ImagePullFailed", LIMIT);
    assert!(message.contains(image), "{message}");
    let status = jobs::ended_as(stage, &namespace, "train", ("ImagePullFailed", "User"), LIMIT);
    assert_eq!(status.running_at, None);
    // A registry that does not answer may come back.
    let image = "127.0.0.1:1/team/train:1";
    Job::named("waits").from_image(image).apply(stage, &namespace);
    let message = jobs::until_ready_is(stage, &namespace, "waits", "WaitingForImage", LIMIT);
    assert!(message.contains(image), "{message}");
    delete(stage, &namespace, "waits");
    jobs::ended_as(stage, &namespace, "waits", ("HolderDeleted", "User"), LIMIT);
}

fn delete(stage: &Stage, namespace: &str, name: &str) {
    stage.playground.kubectl(&["delete", "gpujob", name, "-n", namespace]).unwrap();
}

pub(crate) fn max_runtime(stage: &Stage) {
    let namespace = jobs::namespace(stage, "max-runtime");
    Job::named("polite")
        .running("script: \"trap 'echo saved; exit 0' TERM; while :; do sleep 1; done\"")
        .within("maxRuntime: 5s\ngracePeriod: 20s")
        .apply(stage, &namespace);
    Job::named("deaf")
        .running("script: \"trap '' TERM; while :; do sleep 1; done\"")
        .within("maxRuntime: 5s\ngracePeriod: 3s")
        .apply(stage, &namespace);
    for name in ["polite", "deaf"] {
        jobs::until_ready_is(stage, &namespace, name, "MaxRuntimeReached", LIMIT);
        let end = ("MaxRuntimeReached", "User");
        let status = jobs::ended_as(stage, &namespace, name, end, LIMIT);
        assert!(jobs::ran_for(&status) >= 5, "{name}: {status:?}");
    }
    assert!(log_of(stage, &namespace, "polite-r0-a1").contains("saved"));
}

pub(crate) fn stopped(stage: &Stage) {
    let namespace = jobs::namespace(stage, "stopped");
    let job = Job::named("train")
        .running("script: \"trap 'echo stopped; exit 0' TERM; while :; do sleep 1; done\"");
    job.apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    job.clone().within("maxRuntime: 20m\nstate: Stopped").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Stopped", LIMIT);
    assert!(log_of(stage, &namespace, "train-r0-a1").contains("stopped"));
    jobs::ended_as(stage, &namespace, "train", ("Stopped", "User"), LIMIT);
    job.within("maxRuntime: 20m\nstate: Running").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    delete(stage, &namespace, "train");
    let lease = jobs::closed_lease(stage, &namespace, "train-r0-a2", LIMIT);
    jobs::is_billed_right(&lease);
    assert_eq!(lease.status.unwrap().released_because.as_deref(), Some("HolderDeleted"));
}

pub(crate) fn money(stage: &Stage) {
    let namespace = jobs::namespace(stage, "money");
    // 0.40 per hour: 110 s cost 0.012223, of which the grace period may take 5 s. A start on a busy
    // machine takes some of the rest; were it all, it would not be the money that ends the program.
    let yaml = Job::named("poor")
        .running("command: [sleep, infinity]")
        .within("maxRuntime: 20m\ngracePeriod: 5s")
        .yaml()
        .replace("limit: \"1\"", "limit: \"0.012223\"");
    stage.playground.apply(&namespace, &yaml).unwrap();
    jobs::until_ready_is(stage, &namespace, "poor", "BudgetExhausted", LIMIT);
    let status = jobs::ended_as(stage, &namespace, "poor", ("BudgetExhausted", "User"), LIMIT);
    let charged = status.charged.unwrap();
    let charged = leasehold_core::money::Money::parse(&charged).unwrap();
    assert!(charged.micros() <= 12_223, "{charged}");
}

pub(crate) fn long_name(stage: &Stage) {
    let namespace = jobs::namespace(stage, "names");
    let name = "exp.v1.2-with-a-name-of-forty-characters";
    assert_eq!(name.len(), 40);
    Job::named(name).apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, name, "Succeeded", LIMIT);
}

/// An ELF file names its dynamic loader in a program header of type `PT_INTERP`; a static one has
/// none (System V ABI, chapter 5).
pub(crate) fn agent_is_static(stage: &Stage) {
    const PT_INTERP: u32 = 3;
    let agent = stage.playground.environment().agent.as_ref().unwrap();
    let bytes = std::fs::read(agent).unwrap();
    assert!(bytes.len() < 10_000_000, "{} bytes", bytes.len());
    let number = |at: usize, size: usize| -> usize {
        bytes[at..at + size].iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let (table, entry, count) = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
    assert!(count > 0);
    for header in 0..count {
        assert_ne!(number(table + header * entry, 4), PT_INTERP as usize, "it has a loader");
    }
}

pub(crate) fn too_much_memory(stage: &Stage) {
    let namespace = jobs::namespace(stage, "memory");
    Job::named("train")
        .running("script: \"tail /dev/zero\"")
        .within("maxRuntime: 20m\nresources: {memory: 64Mi, sharedMemory: 64Mi}")
        .apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "HostOutOfMemory", LIMIT);
    jobs::ended_as(stage, &namespace, "train", ("HostOutOfMemory", "User"), LIMIT);
}

/// After everything that ran together.
pub(crate) fn all_cards_are_free(stage: &Stage) {
    let operator = Operator::start(&stage.playground).unwrap();
    let namespace = jobs::namespace(stage, "all-cards");
    Job::named("train").on("gpu: {cards: [4090], count: 8}").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Succeeded", LIMIT);
    jobs::ended_as(stage, &namespace, "train", ("Completed", "User"), LIMIT);
    operator.kill().unwrap();
}
