//! The real agent as a child process, with its report, its orders and what it printed.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops where it is wrong"
)]

use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use leasehold_agent::clock;
use leasehold_core::report::{Report, Stage};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

/// Longest wait for something that happens by itself; no test takes this long.
const PATIENCE: Duration = Duration::from_mins(2);

/// A call of the agent.
pub(crate) struct Agent {
    words: Vec<OsString>,
    place: TempDir,
    environment: Vec<(String, OsString)>,
    removed: Vec<String>,
    input: Vec<u8>,
    is_heard: bool,
}

impl Agent {
    /// The agent with these arguments, an hour of running time and no orders.
    pub(crate) fn called(arguments: &[&str]) -> Self {
        let mut words = vec![OsString::from(env!("CARGO_BIN_EXE_leasehold-agent"))];
        words.extend(arguments.iter().map(OsString::from));
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("orders")).unwrap();
        let agent = Self {
            words,
            place,
            environment: Vec::new(),
            removed: Vec::new(),
            input: Vec::new(),
            is_heard: true,
        };
        let log = agent.place.path().join("termination-log").display().to_string();
        let orders = agent.orders().display().to_string();
        agent
            .with("LEASEHOLD_TERMINATION_LOG", &log)
            .with("LEASEHOLD_LEASE_DIR", &orders)
            .with("LEASEHOLD_RUNTIME_SECONDS", "3600")
    }

    /// `run` with this command.
    pub(crate) fn runs(command: &[&str]) -> Self {
        Self::called(&[&["run", "--"], command].concat())
    }

    /// An environment variable; the last value wins.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// What the program reads.
    pub(crate) fn given(mut self, input: &[u8]) -> Self {
        input.clone_into(&mut self.input);
        self
    }

    /// Nobody reads its stderr before it has ended.
    pub(crate) fn unheard(mut self) -> Self {
        self.is_heard = false;
        self
    }

    /// The agent as `install` leaves it, beside a fresh `held-since`.
    pub(crate) fn installed(mut self) -> Self {
        let directory = self.own_directory();
        let binary = env!("CARGO_BIN_EXE_leasehold-agent");
        let mut install = Command::new(binary);
        install.arg("install").arg(&directory);
        install.env("LEASEHOLD_TERMINATION_LOG", self.place.path().join("install-log"));
        assert!(install.stdout(Stdio::null()).status().unwrap().success());
        self.words[0] = directory.join("leasehold-agent").into();
        self
    }

    /// The directory in which it is installed.
    pub(crate) fn own_directory(&self) -> PathBuf {
        self.place.path().join("agent")
    }

    /// The agent as [`Self::installed`], with this uv beside it.
    pub(crate) fn installed_beside(mut self, uv: &Path) -> Self {
        self = self.installed();
        let directory = self.own_directory();
        std::os::unix::fs::symlink(uv, directory.join("uv")).unwrap();
        self
    }

    /// The agent does not get this variable of the test's own environment.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.removed.push(name.to_owned());
        self
    }

    /// The agent as PID 1 of its own PID namespace.
    pub(crate) fn in_its_own_namespace(mut self) -> Self {
        let unshare = unshare(&["--pid", "--fork", "--mount-proc", "--kill-child"]);
        self.words.splice(0..0, unshare.into_iter().map(OsString::from));
        self
    }

    /// The agent with a disk of 2 MiB in this directory, of which so many KiB are in use.
    pub(crate) fn with_a_small_disk(mut self, directory: &Path, used: u32) -> Self {
        const MOUNT: &str = "mount -t tmpfs -o size=2m tmpfs \"$1\" || exit 99; \
            dd if=/dev/zero of=\"$1/used\" bs=1024 count=\"$2\" status=none; shift 2; exec \"$@\"";
        let mut before = unshare(&["--mount"]);
        before.extend(["sh", "-c", MOUNT, "sh"].map(str::to_owned));
        before.extend([directory.display().to_string(), used.to_string()]);
        self.words.splice(0..0, before.into_iter().map(OsString::from));
        self
    }

    /// The installed agent in a container whose image and agent cannot be changed: only these volumes,
    /// the reports and `/dev/shm` can be written.
    pub(crate) fn in_a_read_only_container(mut self, volumes: &[&Path]) -> Self {
        const MOUNT: &str = "set -e; agent=$1; shift; \
            while [ \"$1\" != -- ]; do mount --bind \"$1\" \"$1\"; shift; done; shift; \
            mount --bind \"$agent\" \"$agent\"; mount --rbind /tmp /tmp; \
            for place in \"$agent\" /tmp /; do mount -o remount,bind,ro \"$place\"; done; exec \"$@\"";
        let mut before = unshare(&["--mount"]);
        before.extend(["sh", "-c", MOUNT, "sh"].map(str::to_owned));
        let own = self.own_directory();
        let places = [&own, self.place.path()].into_iter().chain(volumes.iter().copied());
        before.extend(places.map(|place| place.display().to_string()));
        before.push("--".to_owned());
        self.words.splice(0..0, before.into_iter().map(OsString::from));
        self
    }

    /// The directory in which the operator's orders appear.
    pub(crate) fn orders(&self) -> PathBuf {
        self.place.path().join("orders")
    }

    /// Runs to the end.
    pub(crate) fn ends(self) -> Seen {
        self.starts().ends()
    }

    /// Starts.
    pub(crate) fn starts(self) -> Running {
        let started = clock::now().unwrap();
        let mut command = Command::new(&self.words[0]);
        for name in &self.removed {
            command.env_remove(name);
        }
        let mut child = command
            .args(&self.words[1..])
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&self.input).unwrap();
        // Who is given input sees its end; otherwise it stays open for `hears`.
        let stdin = self.input.is_empty().then_some(stdin);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (may_read, wait) = mpsc::channel();
        let stderr = read_all(child.stderr.take().unwrap(), wait);
        if self.is_heard {
            may_read.send(()).unwrap();
        }
        let (running, ends) = mpsc::channel();
        let pid = child.id();
        // Dropping `running` ends the watch; a test that hangs fails instead.
        thread::spawn(move || match ends.recv_timeout(PATIENCE) {
            Err(mpsc::RecvTimeoutError::Timeout) => kill_with_children(pid),
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {}
        });
        let read = Vec::new();
        Running {
            agent: self,
            child,
            stdin,
            stdout,
            read,
            stderr,
            may_read,
            _watch: running,
            started,
        }
    }
}

/// A running agent.
pub(crate) struct Running {
    agent: Agent,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    read: Vec<u8>,
    stderr: JoinHandle<Vec<u8>>,
    may_read: mpsc::Sender<()>,
    _watch: mpsc::Sender<()>,
    started: Duration,
}

impl Running {
    /// Waits until the program has printed this line.
    pub(crate) fn says(&mut self, line: &str) {
        loop {
            let mut next = String::new();
            assert_ne!(
                self.stdout.read_line(&mut next).unwrap(),
                0,
                "the program ended before it said {line:?}"
            );
            self.read.extend_from_slice(next.as_bytes());
            if next.trim_end() == line {
                return;
            }
        }
    }

    /// Writes a line to the program.
    pub(crate) fn hears(&mut self, line: &str) {
        self.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Signals the agent, and only the agent.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.agent_pid(), signal).unwrap();
    }

    /// The agent's process: the child, or what `unshare` has forked.
    fn agent_pid(&self) -> Pid {
        let child = self.child.id();
        let below = fs::read_to_string(format!("/proc/{child}/task/{child}/children")).unwrap();
        let is_unshare = self.agent.words[0] == "unshare";
        let pid = if is_unshare { below.trim().parse().unwrap() } else { child };
        Pid::from_raw(i32::try_from(pid).unwrap())
    }

    /// Waits for a report of this kind.
    pub(crate) fn report_that(&self, is_wanted: impl Fn(&Report) -> bool) -> Report {
        let deadline = clock::now().unwrap() + PATIENCE;
        loop {
            if let Some(report) = report_in(self.agent.place.path()).filter(&is_wanted) {
                return report;
            }
            assert!(clock::now().unwrap() < deadline, "no such report");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the program has ended, which the agent need not know yet.
    pub(crate) fn program_has_ended(&self) {
        let agent = self.child.id();
        let children = format!("/proc/{agent}/task/{agent}/children");
        let program = fs::read_to_string(children).unwrap().trim().to_owned();
        let deadline = clock::now().unwrap() + PATIENCE;
        while !fs::read_to_string(format!("/proc/{program}/stat")).unwrap().contains(") Z ") {
            assert!(clock::now().unwrap() < deadline, "the program goes on");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it for good: the agent cannot act any more.
    pub(crate) fn kill(mut self) {
        kill_with_children(self.child.id());
        self.child.wait().unwrap();
    }

    /// Waits for the end.
    pub(crate) fn ends(mut self) -> Seen {
        let mut stdout = self.read;
        self.stdout.read_to_end(&mut stdout).unwrap();
        let status = self.child.wait().unwrap();
        let _ = self.may_read.send(());
        Seen {
            code: status.code(),
            took: clock::now().unwrap().saturating_sub(self.started),
            stdout,
            stderr: self.stderr.join().unwrap(),
            report: report_in(self.agent.place.path()).unwrap_or(Report::new(Stage::Run)),
        }
    }
}

/// What was seen of an agent that has ended.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Its exit code.
    pub(crate) code: Option<i32>,
    /// How long it took.
    pub(crate) took: Duration,
    /// What it printed.
    pub(crate) stdout: Vec<u8>,
    /// What it printed on stderr.
    pub(crate) stderr: Vec<u8>,
    /// Its last report.
    pub(crate) report: Report,
}

impl Seen {
    /// What it printed, as text.
    pub(crate) fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// What it printed on stderr, as text.
    pub(crate) fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// `unshare` with these words, in a user namespace where the test is not root.
fn unshare(words: &[&str]) -> Vec<String> {
    let calls = [&[][..], &["--map-root-user"]].map(|user| [&["unshare"], user, words].concat());
    let is_allowed = |call: &Vec<&str>| {
        let mut tried = Command::new(call[0]);
        tried.args(&call[1..]).arg("true").stderr(Stdio::null());
        tried.status().is_ok_and(|status| status.success())
    };
    let call =
        calls.into_iter().find(is_allowed).expect("needs unshare, and root or user namespaces");
    call.into_iter().map(str::to_owned).collect()
}

/// The uv that setup has brought.
#[expect(clippy::disallowed_methods, reason = "setup tells its results in the environment")]
pub(crate) fn uv() -> String {
    std::env::var("LEASEHOLD_UV")
        .expect("LEASEHOLD_UV is not set: run `make setup`, then `eval \"$(tests/setup/env)\"`")
}

/// Writes a file with a mode.
pub(crate) fn file(directory: &Path, name: &str, content: &str, mode: u32) -> String {
    let path = directory.join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.display().to_string()
}

fn report_in(place: &Path) -> Option<Report> {
    Report::parse(&fs::read_to_string(place.join("termination-log")).ok()?)
}

/// Kills an agent before what it has started, so that it cannot report the end.
fn kill_with_children(agent: u32) {
    let children = fs::read_to_string(format!("/proc/{agent}/task/{agent}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    for pid in i32::try_from(agent).into_iter().chain(children) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

fn read_all(mut stderr: ChildStderr, may_read: mpsc::Receiver<()>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let _ = may_read.recv();
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes).unwrap();
        bytes
    })
}
