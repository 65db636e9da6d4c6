//! The container that restores packages before the program starts. Pure; cannot fail.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvVar, Volume,
};
use leasehold_core::{plan::PodPlan, pod::container};
use leasehold_crds::{GpuJobSpec, Settings, desire::file_names, job::Environment, names};

use super::build::{LEASE_DIR, mount, variable, with_cards};

/// Where the restored environment lies, for `prepare` and the program.
const ENVIRONMENT_DIR: &str = "/leasehold/environment";
/// Where the files of a `ConfigMap` lie.
const FILES_DIR: &str = "/leasehold/files";

const ENVIRONMENT_VOLUME: &str = "leasehold-environment";
const FILES_VOLUME: &str = "leasehold-files";

/// Volumes for a specification with an environment.
pub(super) fn volumes(spec: &GpuJobSpec) -> Vec<Volume> {
    let Some(environment) = &spec.environment else {
        return Vec::new();
    };
    let files = environment.from.as_ref().map(|from| Volume {
        name: FILES_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: from.config_map.clone(),
            // Without it the pod would wait for the ConfigMap, card in hand; so prepare says at
            // once which file is missing.
            optional: Some(true),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    });
    let environment = Volume {
        name: ENVIRONMENT_VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    };
    std::iter::once(environment).chain(files).collect()
}

/// `prepare` for a specification with an environment.
pub(super) fn prepare(spec: &GpuJobSpec, plan: &PodPlan, settings: &Settings) -> Option<Container> {
    let environment = spec.environment.as_ref()?;
    let mut container = with_cards(container::PREPARE, spec, plan);
    container.args = Some(vec!["prepare".to_owned()]);
    let mounts = container.volume_mounts.get_or_insert_default();
    mounts.push(mount(ENVIRONMENT_VOLUME, ENVIRONMENT_DIR));
    if environment.from.is_some() {
        mounts.push(mount(FILES_VOLUME, FILES_DIR));
    }
    let mut env = vec![
        variable("LEASEHOLD_ENVIRONMENT_DIR", ENVIRONMENT_DIR),
        variable("LEASEHOLD_LEASE_DIR", LEASE_DIR),
        variable("LEASEHOLD_REQUIREMENTS", literal(&file_names(environment).join("\n"))),
    ];
    // So that money ends a restore also while no operator runs.
    env.extend(
        plan.hold.map(|hold| variable(names::ENVIRONMENT_HELD_SECONDS, hold.as_secs().to_string())),
    );
    env.extend(files(environment, spec.working_dir.as_deref()));
    // Once for uv, and once to tell the installation's from those of the job, which may set uv's.
    if let Some(index) = settings.index.as_deref().map(literal) {
        env.push(variable("LEASEHOLD_INDEX", index.clone()));
        env.push(variable("UV_DEFAULT_INDEX", index));
    }
    if !settings.extra_indexes.is_empty() {
        let others = literal(&settings.extra_indexes.join(" "));
        env.push(variable("LEASEHOLD_EXTRA_INDEXES", others.clone()));
        env.push(variable("UV_INDEX", others));
    }
    // Neither proxies nor uv's patience: the agent takes all of `core::restore::variables` to be the
    // job's or its image's, which then pays for an index that cannot be reached.
    // The job's own variables come last, so that its indexes and their credentials win.
    env.extend(spec.env.iter().cloned());
    container.env = Some(env);
    Some(container)
}

/// Lets the program use the environment.
pub(super) fn join(main: &mut Container, spec: &GpuJobSpec) {
    if spec.environment.is_none() {
        return;
    }
    main.volume_mounts.get_or_insert_default().push(mount(ENVIRONMENT_VOLUME, ENVIRONMENT_DIR));
    main.env
        .get_or_insert_default()
        .insert(0, variable("LEASEHOLD_ENVIRONMENT_DIR", ENVIRONMENT_DIR));
}

/// Where relative names are looked for: inline files travel in variables.
fn files(environment: &Environment, working_dir: Option<&str>) -> Vec<EnvVar> {
    if let Some(files) = &environment.inline {
        let file = |(index, (name, text)): (usize, (&String, &String))| {
            variable(&format!("LEASEHOLD_FILE_{index}"), literal(&format!("{name}\n{text}")))
        };
        return files.iter().enumerate().map(file).collect();
    }
    if let Some(from) = &environment.from {
        return vec![
            variable("LEASEHOLD_FILES_DIR", FILES_DIR),
            variable("LEASEHOLD_CONFIG_MAP", literal(&from.config_map)),
        ];
    }
    let folder = working_dir.map(|folder| variable("LEASEHOLD_FILES_DIR", literal(folder)));
    folder.into_iter().collect()
}

/// The kubelet reads `$(NAME)` and `$$` in values.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}
