//! `prepare` with the real uv and this machine's Python, against indexes on this machine only.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where it is wrong")]

mod agent;
mod index;
mod pod;

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command, time::Duration};

use agent::{Agent, file};
use index::{Answer, Index};
use leasehold_core::{reason::Reason, report::Stage};
use nix::sys::signal::Signal;
use pod::{a_pod, refused};

#[test]
fn an_environment_is_restored_and_the_program_runs_in_it() {
    let pod = a_pod();
    pod.wheel("first", "1.0");
    pod.wheel("second", "2.0");
    let files = [("a.txt", "first>=1\n-r b.txt\n"), ("b.txt", "second==2.0 # pinned\n")];
    let venv = pod.path("environment/venv");
    // What a killed try leaves is in the way of nothing.
    fs::create_dir_all(&venv).unwrap();
    fs::write(Path::new(&venv).join("pyvenv.cfg"), "half").unwrap();
    for _again in 0..2 {
        let seen = pod.prepares(&files).ends();
        assert_eq!((seen.code, seen.report.reason), (Some(0), Some(Reason::Completed)), "{seen:?}");
        let environment = seen.report.environment.clone().unwrap();
        assert_eq!((environment.python.starts_with("3."), environment.packages), (true, Some(2)));
        assert!(seen.stderr_text().contains("\n + second==2.0\n"), "{seen:?}");
        assert!(!Path::new(&pod.path("environment/cache")).exists());
    }
    let program = "import first, second, sys, os; print(first.VERSION, second.VERSION, sys.prefix, os.environ['VIRTUAL_ENV'])";
    let seen = pod.runs(&["python3", "-c", program]);
    assert_eq!(seen.stdout_text(), format!("1.0 2.0 {venv} {venv}\n"), "{seen:?}");
    let seen = pod.runs(&["first-command"]);
    assert_eq!(seen.stdout_text(), "first 1.0\n", "{seen:?}");
    let script = format!("#!/usr/bin/env python3\n{program}\n");
    let seen = pod.installed(&["run", "--script", &script]).with("PYTHONHOME", "/nowhere").ends();
    assert!(seen.stdout_text().starts_with("1.0 2.0 "), "{seen:?}");
}

#[test]
fn the_images_packages_are_seen_also_those_of_a_virtual_environment() {
    let pod = a_pod();
    pod.wheel("first", "1.0");
    pod.wheel("second", "2.0");
    assert_eq!(pod.prepares(&[("a.txt", "first\n")]).ends().code, Some(0));
    // The restored environment is the image's Python of another pod.
    let other = a_pod();
    other.wheel("second", "2.0");
    let path = format!("{}:/usr/bin:/bin", pod.path("environment/venv/bin"));
    let seen = other.prepares(&[("b.txt", "second\n")]).with("PATH", &path).ends();
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let seen = other.runs(&["python", "-c", "import first, second; print(first.VERSION)"]);
    assert_eq!(seen.stdout_text(), "1.0\n", "{seen:?}");
    // The other one's command now starts the new environment's Python.
    let command = fs::read_to_string(other.path("environment/venv/bin/first-command")).unwrap();
    assert!(command.starts_with(&format!("#!{}", other.path("environment/venv"))), "{command}");
}

/// A Python like that of a distribution, which wants nobody but its package manager to install into
/// it: this machine's with the mark in its library. The directory with its commands.
fn an_externally_managed_python(place: &Path) -> String {
    const PROGRAM: &str = r#"
import os, shutil, sys, sysconfig
root, version = sys.argv[1], "python%d.%d" % sys.version_info[:2]
library = os.path.join(root, "lib", version)
os.makedirs(os.path.join(root, "bin"))
os.makedirs(library)
base = getattr(sys, "_base_executable", sys.executable)
shutil.copy(os.path.realpath(base), os.path.join(root, "bin", "python3"))
original = sysconfig.get_path("stdlib")
for name in os.listdir(original):
    if name not in ("EXTERNALLY-MANAGED", "site-packages"):
        os.symlink(os.path.join(original, name), os.path.join(library, name))
open(os.path.join(library, "EXTERNALLY-MANAGED"), "w").close()
"#;
    let python = Command::new("python3").args(["-c", PROGRAM]).arg(place.join("image")).status();
    assert!(python.unwrap().success());
    place.join("image/bin").display().to_string()
}

#[test]
fn an_externally_managed_python_is_left_alone() {
    let pod = a_pod();
    pod.wheel("first", "1.0");
    let path = an_externally_managed_python(pod.place.path());
    let seen = pod
        .prepares(&[("a.txt", "first\n")])
        .with("PATH", &format!("{path}:/usr/bin:/bin"))
        .with("UV_SYSTEM_PYTHON", "1")
        .with("VIRTUAL_ENV", "/nowhere")
        .ends();
    assert_eq!(seen.code, Some(0), "{seen:?}");
    assert!(seen.stderr_text().contains(&path), "{seen:?}");
}

#[test]
fn an_image_without_python_is_refused_at_once() {
    let pod = a_pod();
    let seen = pod.prepares(&[("a.txt", "first\n")]).with("PATH", "/nowhere").ends();
    refused(&seen, Reason::NoPythonInImage, &["/nowhere"]);
    let old = tempfile::tempdir().unwrap();
    file(old.path(), "python3", "#!/no/such/loader\n", 0o755);
    file(
        old.path(),
        "python",
        "#!/bin/sh\necho 'leasehold-python {\"version\": \"2.7.18\", \"executable\": \"\", \"scripts\": \"/\", \"is_virtual\": false, \"sees_base\": true, \"packages\": []}'\n",
        0o755,
    );
    let path = old.path().display().to_string();
    let seen = pod.prepares(&[("a.txt", "first\n")]).with("PATH", &path).ends();
    refused(&seen, Reason::NoPythonInImage, &["python3 cannot be started", "is Python 2.7.18"]);
}

#[test]
fn files_that_cannot_be_restored_are_told_with_their_lines() {
    let pod = a_pod();
    pod.wheel("first", "1.0");
    for (text, reason, words) in [
        ("first\n-r more.txt\n", Reason::EnvironmentFileMissing, ["a.txt:2", "environment/files"]),
        ("first\nsecond ==\n", Reason::RequirementsInvalid, ["a.txt:2: `second ==`", "version"]),
        ("first\n--frob\n", Reason::RequirementsInvalid, ["a.txt:2: `--frob`", "Unexpected"]),
        ("-e /src/proj", Reason::RequirementsNotPortable, ["a.txt:1", "not in the pod"]),
        ("first\nthird\n", Reason::PackageNotFound, ["a.txt:2: `third`", "no index has third"]),
        ("first==9\n", Reason::RequirementsConflict, ["first==9", "no version"]),
    ] {
        let seen = pod.prepares(&[("a.txt", text)]).ends();
        refused(&seen, reason, &words);
    }
    let seen = pod
        .prepares(&[])
        .with("LEASEHOLD_REQUIREMENTS", "r.txt")
        .with("LEASEHOLD_FILES_DIR", &pod.path("code"));
    refused(&seen.ends(), Reason::EnvironmentFileMissing, &["r.txt", &pod.path("code")]);
}

#[test]
fn a_full_disk_is_named_whoever_finds_it_full() {
    let pod = a_pod();
    pod.wheel("first", "1.0");
    let directory = pod.place.path().join("environment");
    fs::create_dir(&directory).unwrap();
    // Without any room the agent cannot write the files, with a little uv cannot write packages.
    for (used, code) in [(2_048, 125), (2_036, 1)] {
        let prepares = pod.prepares(&[("a.txt", &"# filling\n".repeat(300))]);
        let seen = prepares.with_a_small_disk(&directory, used).ends();
        assert_eq!(
            (seen.code, seen.report.reason),
            (Some(code), Some(Reason::DiskFull)),
            "{seen:?}"
        );
        assert!(seen.report.evidence.contains("No space left on device"), "{seen:?}");
        assert!(seen.stderr_text().contains(Reason::DiskFull.cure()), "{seen:?}");
    }
}

#[test]
fn neither_the_image_nor_the_agent_has_to_be_writable() {
    let pod = a_pod();
    pod.wheel("first", "1.0");
    let environment = pod.place.path().join("environment");
    fs::create_dir(&environment).unwrap();
    let seen = pod
        .prepares(&[("a.txt", "first\n")])
        .with("LEASEHOLD_HELD_SECONDS", "3600")
        .in_a_read_only_container(&[&environment])
        .ends();
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let script = "#!/usr/bin/env python3\nimport os, sys\n\
        print(os.path.dirname(sys.argv[0]), os.path.dirname(os.environ['PIP_CERT']))\n\
        try: open(os.environ['AGENT'] + '/new', 'w')\nexcept OSError as error: print(error.strerror)\n";
    let environment = pod.path("environment");
    for (restored, certificates) in [(environment.as_str(), environment.as_str()), ("", "/dev/shm")]
    {
        let agent = pod.installed(&["run", "--script", script]).without("PIP_CERT");
        let own = agent.own_directory().display().to_string();
        let seen = agent
            .with("AGENT", &own)
            .with("LEASEHOLD_ENVIRONMENT_DIR", restored)
            .with("LEASEHOLD_CA_BUNDLE", "OURS\n")
            .in_a_read_only_container(&[Path::new(&environment)])
            .ends();
        let expected = format!("/dev/shm {certificates}\nRead-only file system\n");
        assert_eq!(seen.stdout_text(), expected, "{seen:?}");
    }
}

#[test]
fn a_failure_of_the_agent_has_no_secrets() {
    let pod = a_pod();
    let seen = pod
        .prepares(&[])
        .with("UV_INDEX", "https://user:s3cret-word@host/simple")
        .with("LEASEHOLD_REQUIREMENTS", "a.txt")
        .with("LEASEHOLD_FILE_0", "s3cret-word/a.txt\n")
        .ends();
    assert_eq!((seen.code, seen.report.reason), (Some(125), Some(Reason::AgentFailed)), "{seen:?}");
    assert!(seen.report.evidence.contains("LEASEHOLD_FILE_"), "{seen:?}");
    let told = format!("{} {}", seen.stderr_text(), seen.report.evidence);
    assert!(told.contains("***/a.txt") && !told.contains("s3cret"), "{told}");
}

#[test]
fn a_stop_ends_uv_at_once() {
    let pod = a_pod();
    let index = Index::that_answers(Answer::Nothing);
    let prepares =
        || pod.prepares(&[("a.txt", "first\n")]).with("UV_DEFAULT_INDEX", &index.address(""));
    for agent in [prepares(), prepares().in_its_own_namespace()] {
        let orders = agent.orders();
        let running = agent.starts();
        let working = running.report_that(|report| report.evidence == "resolving");
        assert_eq!((working.stage, working.reason), (Stage::Prepare, None));
        index.was_asked();
        fs::write(orders.join("stop"), "Stopped").unwrap();
        running.signal(Signal::SIGTERM);
        let seen = running.ends();
        assert_eq!((seen.code, seen.report.reason), (Some(143), Some(Reason::Stopped)), "{seen:?}");
        assert!(seen.took < Duration::from_secs(20), "{seen:?}");
    }
}

#[test]
fn a_jammed_log_does_not_keep_a_restore_from_its_end() {
    // Nobody reads stderr, and uv prints more than it takes before it fails.
    const UV: &str = "#!/bin/sh\nfor number in $(seq 10000); do \
        echo \"line $number of uv, which a pipe has no place for\"; done\n\
        echo 'error: Failed to write'\necho '  cause: No space left on device (os error 28)'\nexit 2\n";
    let mut pod = a_pod();
    pod.uv = file(pod.place.path(), "uv", UV, 0o755);
    let seen = pod.prepares(&[("a.txt", "first\n")]).unheard().ends();
    assert_eq!((seen.code, seen.report.reason), (Some(1), Some(Reason::DiskFull)), "{seen:?}");
    assert!(seen.stderr_text().contains("\nline 1 of uv"), "{seen:?}");
    assert!(!seen.stderr_text().contains("line 10000 of uv"), "{seen:?}");
}

#[test]
fn uv_is_brought_when_asked_for_and_its_absence_is_the_agents_failure() {
    let pod = a_pod();
    let bin = pod.path("bin");
    let uv = Path::new(&bin).join("uv");
    let seen = Agent::called(&["install", &bin]).ends();
    assert_eq!((seen.code, uv.exists()), (Some(0), false), "{seen:?}");
    let seen = Agent::called(&["install", &bin]).with("LEASEHOLD_BRING", "uv").ends();
    if Path::new("/usr/bin/uv").exists() {
        assert_eq!((seen.code, uv.exists()), (Some(0), true), "{seen:?}");
    } else {
        assert_eq!((seen.code, seen.report.reason), (Some(125), Some(Reason::AgentFailed)));
        assert!(seen.report.evidence.contains("/usr/bin/uv"), "{seen:?}");
    }
    let seen = pod.installed(&["install", &bin]).with("LEASEHOLD_BRING", "uv").ends();
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let (copy, original) = (fs::metadata(&uv).unwrap(), fs::metadata(&pod.uv).unwrap());
    assert_eq!((copy.len(), copy.permissions().mode() & 0o777), (original.len(), 0o755));
}

#[test]
fn the_program_trusts_image_and_installation() {
    let pod = a_pod();
    let image = file(pod.place.path(), "image.crt", "IMAGE\n", 0o644);
    let show =
        "import os; print(open(os.environ['PIP_CERT']).read(), os.environ['CURL_CA_BUNDLE'])";
    let mut agent = pod
        .installed(&["run", "--", "python3", "-c", show])
        .with("LEASEHOLD_CA_BUNDLE", "OURS\n")
        .with("CURL_CA_BUNDLE", "mine")
        .with("SSL_CERT_FILE", &image);
    for name in ["PIP_CERT", "REQUESTS_CA_BUNDLE"] {
        agent = agent.without(name);
    }
    let seen = agent.ends();
    assert_eq!(seen.stdout_text(), "IMAGE\nOURS\n mine\n", "{seen:?}");
}
