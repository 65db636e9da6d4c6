//! A pod that was built is read back as it was meant.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use leasehold_core::plan::{PodPlan, Share};
use leasehold_crds::{GpuJob, Settings};
use serde_json::{Value, json};

use super::{build::build, facts::pod_facts};

fn job(spec: &Value) -> GpuJob {
    let mut whole = json!({
        "gpu": {"cards": ["4090"]}, "image": "python:3.11-slim",
        "maxRuntime": "1h", "budget": {"limit": "1"},
    });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "apiVersion": "leasehold.dev/v1alpha1", "kind": "GpuJob",
        "metadata": {"name": "train", "namespace": "ml", "uid": "u1"}, "spec": whole,
    }))
    .unwrap()
}

fn plan() -> PodPlan {
    PodPlan {
        name: "train-r0-a1".into(),
        rerun: 0,
        attempt: 1,
        card: "rtx4090".into(),
        node_hint: "node-1".into(),
        product_labels: vec!["NVIDIA-GeForce-RTX-4090".into()],
        product_names: vec!["NVIDIA GeForce RTX 4090".into()],
        memory_mib: Some(24_564),
        memory_bounds_mib: Some((22_000, 26_000)),
        count: 2,
        share: Share { cpu_millis: 4_000, memory_bytes: 1 << 34 },
        runtime: SignedDuration::from_hours(1),
        hold: Some(SignedDuration::from_hours(2)),
        grace: SignedDuration::from_secs(45),
        ceiling: SignedDuration::from_hours(3),
    }
}

fn built(spec: &Value) -> Value {
    serde_json::to_value(build(&job(spec), &plan(), "lease-1", &Settings::default(), "agent:1"))
        .unwrap()
}

/// A pod as the API server gives it back.
fn stored() -> Pod {
    let mut pod = built(&json!({"script": "true"}));
    pod["metadata"]["uid"] = json!("u2");
    pod["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    serde_json::from_value(pod).unwrap()
}

fn at<'a>(pod: &'a Value, path: &str) -> &'a Value {
    pod.pointer(path).unwrap_or(&Value::Null)
}

#[test]
fn limits_are_read_back_from_what_nobody_can_change() {
    let mut pod = stored();
    pod.metadata.annotations.as_mut().unwrap().clear();
    let facts = pod_facts(&pod).unwrap();
    assert_eq!(facts.granted.runtime, plan().runtime);
    assert_eq!(facts.granted.grace, plan().grace);
    assert_eq!(facts.ceiling, Some(plan().ceiling));
    assert_eq!(facts.lease_uid.as_deref(), Some("lease-1"));
    assert_eq!(facts.runtime_told, None);
    assert!(facts.metered);
}

#[test]
fn what_a_pod_waits_for_is_read_from_its_conditions() {
    let mut pod = stored();
    pod.status = serde_json::from_value(json!({"phase": "Pending", "conditions": [
        {"type": "PodReadyToStartContainers", "status": "False"},
        {"type": "Initialized", "status": "False", "reason": "ContainersNotInitialized",
         "message": "containers with incomplete status: [preflight]"},
        {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
        {"type": "ContainersReady", "status": "False", "reason": "ContainersNotReady"},
        {"type": "PodScheduled", "status": "True"},
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
         "message": "Eviction API: evicting"},
    ]}))
    .unwrap();
    let facts = pod_facts(&pod).unwrap();
    assert_eq!(
        facts.unmet,
        [
            "PodReadyToStartContainers is False",
            "Initialized is False: ContainersNotInitialized: containers with incomplete status: \
             [preflight]",
        ]
    );
    let disruption = facts.disrupted.unwrap();
    assert!(disruption.is_asked_for());
    assert_eq!(disruption.to_string(), "EvictionByEvictionAPI: Eviction API: evicting");
}

#[test]
fn only_the_containers_that_need_cards_see_them() {
    let pod = built(&json!({"script": "true"}));
    for path in ["/spec/initContainers/1", "/spec/containers/0"] {
        assert_eq!(at(&pod, &format!("{path}/resources/limits/nvidia.com~1gpu")), "2");
        assert_eq!(at(&pod, &format!("{path}/resources/limits/cpu")), "4000m");
    }
    let install = "/spec/initContainers/0";
    assert_eq!(at(&pod, &format!("{install}/resources/limits/nvidia.com~1gpu")), &Value::Null);
    assert_eq!(at(&pod, &format!("{install}/env/0/value")), "void");
}

#[test]
fn nobody_but_its_installer_can_change_the_agent() {
    let pod = built(&json!({"script": "true", "environment": {}}));
    let containers = ["/spec/initContainers", "/spec/containers"].map(|path| at(&pod, path));
    let containers: Vec<&Value> =
        containers.iter().flat_map(|list| list.as_array().unwrap()).collect();
    assert_eq!(containers.len(), 4);
    for container in containers {
        let mounts = container["volumeMounts"].as_array().unwrap();
        let agent: Vec<&Value> =
            mounts.iter().filter(|mount| mount["name"] == "leasehold-agent").collect();
        let is_installer = container["name"] == "agent-install";
        assert_eq!(agent.len(), 1, "{container}");
        assert_eq!(agent[0]["readOnly"] == true, !is_installer, "{container}");
    }
}

#[test]
fn a_script_reaches_its_shell_as_it_was_written() {
    let pod = built(&json!({"script": "echo $$ $(date) $HOME", "workingDir": "/work dir"}));
    let args = at(&pod, "/spec/containers/0/args");
    assert_eq!(
        args,
        &json!(["run", "--working-dir", "/work dir", "--script=echo $$$$ $$(date) $$HOME"])
    );
}

#[test]
fn a_command_keeps_its_arguments_apart() {
    let pod = built(&json!({"command": ["python", "-c"], "args": ["print(1)", "--script"]}));
    let args = at(&pod, "/spec/containers/0/args");
    assert_eq!(args, &json!(["run", "--", "python", "-c", "print(1)", "--script"]));
}

#[test]
fn shared_memory_is_mounted_once_and_counts_within_the_memory() {
    let pod = built(&json!({"script": "true", "resources": {"memory": "8Gi"}}));
    let shm = at(&pod, "/spec/volumes/2/emptyDir");
    assert_eq!(shm, &json!({"medium": "Memory", "sizeLimit": (4_i64 << 30).to_string()}));
    let asked = json!({"script": "true", "resources": {"memory": "8Gi", "sharedMemory": "2Gi"}});
    assert_eq!(at(&built(&asked), "/spec/volumes/2/emptyDir/sizeLimit"), "2Gi");
}

#[test]
fn a_pod_follows_its_holder_but_is_kept_until_it_is_accounted_for() {
    let pod = built(&json!({"script": "true"}));
    assert_eq!(at(&pod, "/metadata/ownerReferences/0/blockOwnerDeletion"), false);
    assert_eq!(at(&pod, "/metadata/finalizers"), &json!(["leasehold.dev/metering"]));
    assert_eq!(at(&pod, "/spec/terminationGracePeriodSeconds"), 55);
    assert_eq!(at(&pod, "/spec/automountServiceAccountToken"), false);
}

#[test]
fn an_environment_is_prepared_from_its_files_alone() {
    let settings = Settings {
        ca_bundle: Some("pem".into()),
        index: Some("https://mirror/simple".into()),
        extra_indexes: vec!["https://a/simple".into(), "https://b/simple".into()],
        ..Settings::default()
    };
    let env = |environment: Value| {
        let job = job(&json!({
            "script": "true", "workingDir": "/w", "environment": environment,
            "env": [{"name": "TOKEN", "value": "t"}],
        }));
        let pod =
            serde_json::to_value(build(&job, &plan(), "lease-1", &settings, "agent:1")).unwrap();
        let names = at(&pod, "/spec/initContainers").as_array().unwrap();
        let names: Vec<_> = names.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["agent-install", "preflight", "prepare"]);
        assert_eq!(at(&pod, "/spec/initContainers/0/env/1/value"), "uv");
        assert_eq!(at(&pod, "/spec/initContainers/0/env/2/value"), "pem");
        assert_eq!(at(&pod, "/spec/containers/0/env/0/name"), "LEASEHOLD_ENVIRONMENT_DIR");
        let all = at(&pod, "/spec/initContainers/2/env").as_array().unwrap().clone();
        all.iter()
            .map(|one| {
                format!("{}={}", one["name"].as_str().unwrap(), one["value"].as_str().unwrap())
            })
            .collect::<Vec<_>>()
    };
    let [dir, orders, money, own] = [
        "LEASEHOLD_ENVIRONMENT_DIR=/leasehold/environment",
        "LEASEHOLD_LEASE_DIR=/leasehold/lease",
        "LEASEHOLD_HELD_SECONDS=7200",
        "TOKEN=t",
    ];
    let indexes = [
        "LEASEHOLD_INDEX=https://mirror/simple",
        "UV_DEFAULT_INDEX=https://mirror/simple",
        "LEASEHOLD_EXTRA_INDEXES=https://a/simple https://b/simple",
        "UV_INDEX=https://a/simple https://b/simple",
    ];
    for (environment, given) in [
        (json!({}), &["LEASEHOLD_REQUIREMENTS=requirements.txt", "LEASEHOLD_FILES_DIR=/w"][..]),
        (
            json!({"files": ["a.txt", "b.txt"], "from": {"configMap": "m"}}),
            &[
                "LEASEHOLD_REQUIREMENTS=a.txt\nb.txt",
                "LEASEHOLD_FILES_DIR=/leasehold/files",
                "LEASEHOLD_CONFIG_MAP=m",
            ],
        ),
        (
            json!({"inline": {"requirements.txt": "idna # $(NAME)"}}),
            &[
                "LEASEHOLD_REQUIREMENTS=requirements.txt",
                "LEASEHOLD_FILE_0=requirements.txt\nidna # $$(NAME)",
            ],
        ),
    ] {
        let expected =
            [&[dir, orders], &given[..1], &[money], &given[1..], &indexes, &[own]].concat();
        assert_eq!(env(environment.clone()), expected, "{environment}");
    }
}
