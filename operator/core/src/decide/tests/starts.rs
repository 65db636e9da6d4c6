//! Pods that do not come as far as their program.

use super::*;

impl World {
    /// A container waits, in the kubelet's words.
    fn hold_up(&mut self, name: &str, word: &str, said: &str) -> &mut Self {
        let state = ContainerState::Waiting { reason: word.into(), message: said.into() };
        self.pod().containers = vec![ContainerFacts::first(name, state)];
        self.settle()
    }

    /// A container cannot be started, in the words of the container runtime.
    fn refuse_start(&mut self, name: &str, said: &str) -> &mut Self {
        let finished_at = Some(self.at());
        let ended = Ended {
            started_at: None,
            finished_at,
            exit_code: 128,
            reason: "StartError".into(),
            message: said.into(),
            report: None,
        };
        let pod = self.pod();
        pod.containers = vec![ContainerFacts::first(name, ContainerState::Ended(ended))];
        pod.is_over = true;
        self.settle()
    }

    /// The pod ends, without a container that tells of it.
    fn vanish_from_node(&mut self) -> &mut Self {
        self.pod().containers.clear();
        self.pod().is_over = true;
        self.settle()
    }

    /// Who pays, how many seconds, and why.
    fn bill(&self) -> (Payer, i64, Reason) {
        let [closing] = &self.closed[..] else { panic!("{:?}", self.closed) };
        let Closing { paid_by, bill, finding, .. } = closing;
        (
            *paid_by,
            if bill.charged == Money::ZERO { 0 } else { bill.billed_seconds },
            finding.reason,
        )
    }

    fn says(&self, words: &[&str]) {
        for word in words {
            assert!(self.message().contains(word), "{word}: {}", self.message());
        }
    }
}

const HOOK: &str = "failed to create containerd task: failed to create shim task: OCI runtime \
                    create failed: runc create failed: unable to start container process: error \
                    during container init: error running prestart hook #0: exit status 1, stdout: \
                    , stderr: Auto-detected mode as 'legacy' nvidia-container-cli: ";

#[test]
fn a_node_without_the_runtime_handler_is_named_and_costs_nothing() {
    let mut world = World::with(a_job());
    // The kubelet tells in Events alone why it makes no sandbox: no container ever waits for
    // anything but its turn.
    world.settle().bind().hold_up(container::INSTALL, "PodInitializing", "");
    world.pod().unmet = vec!["PodReadyToStartContainers is False".into()];
    world.after(1_800).settle();
    assert!(!world.pod().deletion_requested);
    world.after(1).settle();
    assert!(world.pod().deletion_requested);
    world.after(9).vanish_from_node();
    assert_eq!(world.bill(), (Payer::Infrastructure, 0, Reason::NodeCouldNotStart));
    world.says(&["node node-1", "PodReadyToStartContainers is False", "runtime handler"]);
    assert_eq!(world.created.len(), 1);
}

#[test]
fn money_that_runs_out_before_anything_started_is_not_spent() {
    let mut job = a_job();
    job.limit = Limit::Amount(Money::parse("0.02").unwrap());
    let mut world = World::with(job);
    world.settle().bind().hold_up(container::INSTALL, "ContainerCreating", "");
    world.after(170).settle();
    assert!(world.pod().deletion_requested);
    world.after(3).vanish_from_node();
    assert_eq!(world.bill(), (Payer::Infrastructure, 0, Reason::NodeCouldNotStart));
}

#[test]
fn a_driver_upgraded_under_its_loaded_module_is_told_by_the_runtime_and_costs_nothing() {
    let mut world = World::with(a_job());
    let words =
        format!("{HOOK}initialization error: nvml error: driver/library version mismatch: unknown");
    world.settle().bind().after(5).refuse_start(container::PREFLIGHT, &words);
    assert_eq!(world.bill(), (Payer::Infrastructure, 0, Reason::DriverLibraryMismatch));
    world.says(&["node node-1", "version mismatch", "reboot", "changing the image does not help"]);
}

#[test]
fn an_image_that_wants_a_newer_driver_is_paid_for_the_seconds_that_it_was_held() {
    let mut world = World::with(a_job());
    let words = format!(
        "{HOOK}requirement error: unsatisfied condition: cuda>=12.8, please update your driver to \
         a newer version, or use an earlier cuda container: unknown"
    );
    world.settle().bind().after(5).refuse_start(container::PREFLIGHT, &words);
    assert_eq!(world.bill(), (Payer::User, 5, Reason::ImageRequiresNewerDriver));
    world.says(&["cuda>=12.8", "image for an older CUDA", "newer driver"]);
}

#[test]
fn a_cdi_device_that_the_node_cannot_resolve_costs_nothing() {
    let words = "failed to create containerd container: CDI device injection failed: unresolvable \
                 CDI devices nvidia.com/gpu=all";
    let mut world = World::with(a_job());
    world.settle().bind().hold_up(container::PREFLIGHT, "CreateContainerError", words);
    assert_eq!(world.ready(), (Truth::True, Reason::WaitingForContainer));
    world.after(301).settle();
    assert!(world.pod().deletion_requested);
    world.after(9).vanish_from_node();
    assert_eq!(world.bill(), (Payer::Infrastructure, 0, Reason::CdiDeviceUnresolved));
    world.says(&["node node-1", "nvidia.com/gpu=all", "nvidia-ctk cdi generate"]);

    let mut world = World::with(a_job());
    let words = "failed to create shim task: OCI runtime create failed: could not apply required \
                 modification to OCI specification: error modifying OCI spec: failed to inject CDI \
                 devices: unresolvable CDI devices nvidia.com/gpu=all";
    world.settle().bind().after(5).refuse_start(container::PREFLIGHT, words);
    assert_eq!(world.bill(), (Payer::Infrastructure, 0, Reason::CdiDeviceUnresolved));
}

#[test]
fn a_start_that_takes_too_long_says_what_was_seen_last() {
    let mut world = World::with(a_job());
    world.settle().bind().hold_up(container::PREFLIGHT, "CrashLoopBackOff", "back-off 5m");
    let ended = Ended {
        started_at: Some(world.at()),
        finished_at: Some(world.at()),
        exit_code: 0,
        reason: "Completed".into(),
        message: String::new(),
        report: Some(Report { evidence: "agent copied".into(), ..Report::new(Stage::Install) }),
    };
    let state = ContainerState::Ended(ended);
    world.pod().containers.insert(0, ContainerFacts::first(container::INSTALL, state));
    world.after(1_801).settle();
    world.pod().is_over = true;
    world.settle();
    assert_eq!(world.bill().2, Reason::StartupTimeout);
    world.says(&[
        "preflight waits: CrashLoopBackOff: back-off 5m",
        "agent-install said last: agent copied",
    ]);
}

#[test]
fn an_image_that_cannot_be_pulled_holds_its_card_for_five_minutes() {
    let mut world = World::with(a_job());
    world.settle().bind().hold_up(container::PREFLIGHT, "ErrImagePull", "not found");
    assert_eq!(world.ready(), (Truth::True, Reason::WaitingForImage));
    world.after(301).settle();
    assert!(world.pod().deletion_requested);
    world.after(9).vanish_from_node();
    assert_eq!(world.closed[0].bill.billed_seconds, 310);
    assert!(world.closed[0].finding.evidence.contains("ErrImagePull: not found"));
    assert_eq!(world.ready(), (Truth::False, Reason::ImagePullFailed));
}

#[test]
fn the_agents_own_image_is_not_the_holders_fault() {
    let mut world = World::with(a_job());
    world.settle().bind().hold_up(container::INSTALL, "InvalidImageName", "no");
    world.after(1).settle().vanish_from_node();
    assert_eq!(world.ready(), (Truth::False, Reason::AgentFailed));
    assert_eq!(world.closed[0].bill.charged, Money::ZERO);
}

#[test]
fn a_start_that_takes_too_long_ends() {
    let mut world = World::with(a_job());
    world.settle().bind();
    let started_at = Some(world.at());
    let state = ContainerState::Running { started_at };
    world.pod().containers = vec![ContainerFacts::first(container::PREPARE, state)];
    world.after(1_801).settle();
    assert!(world.pod().deletion_requested);
    world.vanish_from_node();
    assert_eq!(world.ready(), (Truth::False, Reason::StartupTimeout));
    assert!(world.message().contains("container prepare has been at work since"));
    assert_eq!(world.closed[0].paid_by, Payer::User);
}

#[test]
fn a_check_of_cards_that_hangs_in_the_driver_holds_them_for_minutes_and_costs_nothing() {
    let mut world = World::with(a_job());
    world.settle().bind().after(60);
    let started_at = Some(world.at());
    let state = ContainerState::Running { started_at };
    world.pod().containers = vec![ContainerFacts::first(container::PREFLIGHT, state)];
    world.settle().after(300).settle();
    assert!(!world.pod().deletion_requested);
    world.after(1).settle();
    assert!(world.pod().deletion_requested);
    world.vanish_from_node();
    assert_eq!(world.bill(), (Payer::Infrastructure, 0, Reason::NvidiaSmiTimeout));
    world.says(&["node-1", "container preflight has been at work since"]);
}

#[test]
fn money_that_ends_while_a_check_of_cards_hangs_is_not_spent() {
    let mut world = World::with(a_job());
    world.spec(|job| job.limit = Limit::Amount(Money::parse("0.02").unwrap()));
    world.settle().bind().after(10);
    let started_at = Some(world.at());
    let state = ContainerState::Running { started_at };
    world.pod().containers = vec![ContainerFacts::first(container::PREFLIGHT, state)];
    world.settle().after(170).settle();
    assert!(world.pod().deletion_requested);
    world.vanish_from_node();
    assert_eq!(world.bill(), (Payer::Infrastructure, 0, Reason::NvidiaSmiTimeout));
}
