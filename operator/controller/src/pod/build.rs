//! Makes the pod of an attempt from its plan and the holder's specification. Pure; cannot fail.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Affinity, Container, DownwardAPIVolumeFile, DownwardAPIVolumeSource, EmptyDirVolumeSource,
        EnvVar, LocalObjectReference, NodeAffinity, NodeSelector, NodeSelectorRequirement,
        NodeSelectorTerm, ObjectFieldSelector, Pod, PodSpec, ResourceRequirements, Toleration,
        Volume, VolumeMount,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::OwnerReference},
};
use kube::{Resource, ResourceExt, api::ObjectMeta};
use leasehold_core::{plan::PodPlan, pod::container};
use leasehold_crds::{GpuJob, GpuJobSpec, Settings, names, quantity};

use super::prepare;
use crate::supply::GPU_RESOURCE;

/// Where the agent lies in every container.
const AGENT_DIR: &str = "/leasehold/bin";
/// Where the operator's orders appear.
pub(super) const LEASE_DIR: &str = "/leasehold/lease";
/// From the end of the grace period until the kubelet kills the agent too.
const REPORT_SECONDS: i64 = 10;

const AGENT_VOLUME: &str = "leasehold-agent";
const LEASE_VOLUME: &str = "leasehold-lease";
const SHM_VOLUME: &str = "leasehold-shm";

/// The pod of this plan.
#[must_use]
pub fn build(
    job: &GpuJob,
    plan: &PodPlan,
    lease_uid: &str,
    settings: &Settings,
    agent_image: &str,
) -> Pod {
    let spec = &job.spec;
    let first = [install(spec, settings, agent_image), preflight(spec, plan)];
    let prepare = prepare::prepare(spec, plan, settings);
    Pod {
        metadata: metadata(job, plan),
        spec: Some(PodSpec {
            restart_policy: Some("Never".to_owned()),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            active_deadline_seconds: Some(plan.ceiling.as_secs()),
            termination_grace_period_seconds: Some(plan.grace.as_secs() + REPORT_SECONDS),
            affinity: Some(affinity(plan)),
            tolerations: Some(vec![Toleration {
                key: Some(GPU_RESOURCE.to_owned()),
                operator: Some("Exists".to_owned()),
                effect: Some("NoSchedule".to_owned()),
                ..Toleration::default()
            }]),
            image_pull_secrets: pull_secrets(spec),
            volumes: Some(volumes(spec, plan)),
            init_containers: Some(first.into_iter().chain(prepare).collect()),
            containers: vec![main(spec, plan, lease_uid)],
            ..PodSpec::default()
        }),
        status: None,
    }
}

fn metadata(job: &GpuJob, plan: &PodPlan) -> ObjectMeta {
    let labels = [
        ("app.kubernetes.io/managed-by", "leasehold".to_owned()),
        (names::LABEL_HOLDER, job.name_any()),
        (names::LABEL_LEASE, plan.name.clone()),
    ];
    let owner = OwnerReference {
        block_owner_deletion: Some(false),
        ..job.controller_owner_ref(&()).unwrap_or_default()
    };
    ObjectMeta {
        name: Some(plan.name.clone()),
        namespace: job.namespace(),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
        annotations: Some(BTreeMap::from([
            (names::ANNOTATION_RUNTIME_SECONDS.to_owned(), plan.runtime.as_secs().to_string()),
            (names::ANNOTATION_NODE_HINT.to_owned(), plan.node_hint.clone()),
        ])),
        owner_references: Some(vec![owner]),
        finalizers: Some(vec![names::FINALIZER_METERING.to_owned()]),
        ..ObjectMeta::default()
    }
}

/// The one chosen card: by its labels, and by memory where a label means several cards.
fn affinity(plan: &PodPlan) -> Affinity {
    let need = |key: &str, operator: &str, values: Vec<String>| NodeSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: Some(values),
    };
    let mut expressions = vec![need("nvidia.com/gpu.product", "In", plan.product_labels.clone())];
    if let Some((low, high)) = plan.memory_bounds_mib {
        expressions.push(need("nvidia.com/gpu.memory", "Gt", vec![low.to_string()]));
        expressions.push(need("nvidia.com/gpu.memory", "Lt", vec![high.to_string()]));
    }
    let term =
        NodeSelectorTerm { match_expressions: Some(expressions), ..NodeSelectorTerm::default() };
    Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: vec![term],
            }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    }
}

fn pull_secrets(spec: &GpuJobSpec) -> Option<Vec<LocalObjectReference>> {
    (!spec.image_pull_secrets.is_empty()).then(|| {
        spec.image_pull_secrets
            .iter()
            .map(|secret| LocalObjectReference { name: secret.name.clone() })
            .collect()
    })
}

fn volumes(spec: &GpuJobSpec, plan: &PodPlan) -> Vec<Volume> {
    let file = |path: &str, annotation: &str| DownwardAPIVolumeFile {
        path: path.to_owned(),
        field_ref: Some(ObjectFieldSelector {
            field_path: format!("metadata.annotations['{annotation}']"),
            ..ObjectFieldSelector::default()
        }),
        ..DownwardAPIVolumeFile::default()
    };
    let mut volumes = vec![
        Volume {
            name: AGENT_VOLUME.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        },
        Volume {
            name: LEASE_VOLUME.to_owned(),
            downward_api: Some(DownwardAPIVolumeSource {
                items: Some(vec![
                    file("stop", names::ANNOTATION_STOP),
                    file("runtime-seconds", names::ANNOTATION_RUNTIME_SECONDS),
                ]),
                ..DownwardAPIVolumeSource::default()
            }),
            ..Volume::default()
        },
        Volume {
            name: SHM_VOLUME.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource {
                medium: Some("Memory".to_owned()),
                size_limit: shared_memory(spec, plan),
            }),
            ..Volume::default()
        },
    ];
    volumes.extend(prepare::volumes(spec));
    volumes
}

/// As asked for, else half of the pod's memory; it counts within the memory limit.
fn shared_memory(spec: &GpuJobSpec, plan: &PodPlan) -> Option<Quantity> {
    let asked = spec.resources.as_ref().and_then(|resources| resources.shared_memory.as_ref());
    let half = |bytes: i64| Quantity((bytes / 2).to_string());
    match asked {
        Some(asked) => Some(Quantity(asked.as_str().to_owned())),
        None => limits(spec, plan).get("memory").and_then(quantity::units).map(half),
    }
}

/// The cards, and CPU and memory as asked for or as the cards' share of the node.
fn limits(spec: &GpuJobSpec, plan: &PodPlan) -> BTreeMap<String, Quantity> {
    let asked = spec.resources.as_ref();
    let cpu = asked
        .and_then(|resources| resources.cpu.as_ref())
        .map(|asked| Quantity(asked.as_str().to_owned()))
        .or_else(|| {
            (plan.share.cpu_millis > 0).then(|| Quantity(format!("{}m", plan.share.cpu_millis)))
        });
    let memory = asked
        .and_then(|resources| resources.memory.as_ref())
        .map(|asked| Quantity(asked.as_str().to_owned()))
        .or_else(|| {
            (plan.share.memory_bytes > 0).then(|| Quantity(plan.share.memory_bytes.to_string()))
        });
    let mut limits = BTreeMap::from([(GPU_RESOURCE.to_owned(), Quantity(plan.count.to_string()))]);
    limits.extend(cpu.map(|cpu| ("cpu".to_owned(), cpu)));
    limits.extend(memory.map(|memory| ("memory".to_owned(), memory)));
    limits
}

pub(super) fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

pub(super) fn variable(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.into()), value_from: None }
}

/// Copies the agent and what it needs; sees no card, whatever the node's default runtime hands out.
fn install(spec: &GpuJobSpec, settings: &Settings, agent_image: &str) -> Container {
    let mut env = vec![variable("NVIDIA_VISIBLE_DEVICES", "void")];
    env.extend(spec.environment.as_ref().map(|_| variable("LEASEHOLD_BRING", "uv")));
    env.extend(settings.ca_bundle.as_deref().map(|pem| variable("LEASEHOLD_CA_BUNDLE", pem)));
    let little = |cpu: &str, memory: &str| {
        BTreeMap::from([
            ("cpu".to_owned(), Quantity(cpu.to_owned())),
            ("memory".to_owned(), Quantity(memory.to_owned())),
        ])
    };
    Container {
        name: container::INSTALL.to_owned(),
        image: Some(agent_image.to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        args: Some(vec!["install".to_owned(), AGENT_DIR.to_owned()]),
        env: Some(env),
        resources: Some(ResourceRequirements {
            limits: Some(little("1", "64Mi")),
            requests: Some(little("10m", "16Mi")),
            ..ResourceRequirements::default()
        }),
        volume_mounts: Some(vec![mount(AGENT_VOLUME, AGENT_DIR)]),
        ..Container::default()
    }
}

/// A container of the user's image with the cards.
pub(super) fn with_cards(name: &str, spec: &GpuJobSpec, plan: &PodPlan) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(spec.image.clone()),
        image_pull_policy: spec.image_pull_policy.clone(),
        command: Some(vec![format!("{AGENT_DIR}/leasehold-agent")]),
        resources: Some(ResourceRequirements {
            limits: Some(limits(spec, plan)),
            ..ResourceRequirements::default()
        }),
        volume_mounts: Some(vec![
            // What a build in `prepare` does must not change the agent that ends the program.
            VolumeMount { read_only: Some(true), ..mount(AGENT_VOLUME, AGENT_DIR) },
            mount(LEASE_VOLUME, LEASE_DIR),
            mount(SHM_VOLUME, "/dev/shm"),
        ]),
        ..Container::default()
    }
}

fn preflight(spec: &GpuJobSpec, plan: &PodPlan) -> Container {
    let products = serde_json::Value::from(plan.product_names.clone()).to_string();
    let mut env = card_variables(plan);
    env.push(variable("LEASEHOLD_CARD_PRODUCTS", products));
    env.extend(plan.memory_mib.map(|mib| variable("LEASEHOLD_CARD_MEMORY_MIB", mib.to_string())));
    Container {
        args: Some(vec!["preflight".to_owned()]),
        env: Some(env),
        ..with_cards(container::PREFLIGHT, spec, plan)
    }
}

fn main(spec: &GpuJobSpec, plan: &PodPlan, lease_uid: &str) -> Container {
    let mut args = vec!["run".to_owned()];
    // Not the container's own field: container runtimes create a missing directory silently.
    args.extend(spec.working_dir.iter().flat_map(|dir| ["--working-dir".to_owned(), dir.clone()]));
    match (&spec.script, &spec.command) {
        // The kubelet reads $(NAME) and $$ in arguments; the shell shall read them.
        (Some(script), _) => args.push(format!("--script={}", script.replace('$', "$$"))),
        (None, Some(command)) => {
            args.push("--".to_owned());
            args.extend(command.iter().cloned());
            args.extend(spec.args.iter().flatten().cloned());
        }
        (None, None) => {}
    }
    // The user's variables come last in the list, so that they may use ours: $(LEASEHOLD_CARD).
    let mut env = card_variables(plan);
    env.extend([
        variable(names::ENVIRONMENT_LEASE_UID, lease_uid),
        variable(names::ENVIRONMENT_RUNTIME_SECONDS, plan.runtime.as_secs().to_string()),
        variable(names::ENVIRONMENT_GRACE_SECONDS, plan.grace.as_secs().to_string()),
        variable("LEASEHOLD_LEASE_DIR", LEASE_DIR),
        variable("LEASEHOLD_RERUN", plan.rerun.to_string()),
        variable("LEASEHOLD_ATTEMPT", plan.attempt.to_string()),
    ]);
    env.extend(
        plan.hold.map(|hold| variable(names::ENVIRONMENT_HELD_SECONDS, hold.as_secs().to_string())),
    );
    env.extend(spec.env.iter().cloned());
    let mut main = Container {
        args: Some(args),
        env: Some(env),
        termination_message_policy: Some("File".to_owned()),
        ..with_cards(container::MAIN, spec, plan)
    };
    prepare::join(&mut main, spec);
    main
}

/// What the program and the checks may know of the lease.
fn card_variables(plan: &PodPlan) -> Vec<EnvVar> {
    vec![
        variable("LEASEHOLD_CARD", plan.card.clone()),
        variable("LEASEHOLD_COUNT", plan.count.to_string()),
        // What docker's --gpus gives by default: CUDA and nvidia-smi.
        variable("NVIDIA_DRIVER_CAPABILITIES", "compute,utility"),
    ]
}
