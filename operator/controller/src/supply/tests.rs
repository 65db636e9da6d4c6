//! Free cards, claims and the order of service.

use leasehold_core::{
    catalog::Catalog,
    condition::{Claim, ConditionType, Truth, settle},
    plan::{PodPlan, Share, Wake},
    reason::{Finding, Reason},
    status::{Effective, Status},
};
use serde_json::json;

use super::*;

fn holder(name: &str) -> Holder {
    Holder { namespace: "ml".into(), name: name.into() }
}

fn node(name: &str, cards: u32) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {
            "nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090",
            "nvidia.com/gpu.memory": "24564",
        }},
        "status": {
            "allocatable": {"nvidia.com/gpu": cards.to_string(), "cpu": "8", "memory": "32Gi"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }))
    .unwrap()
}

fn pod(name: &str, on: Option<&str>, cards: u32, phase: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ml", "annotations": {"leasehold.dev/node-hint": "a"}},
        "spec": {"nodeName": on, "containers": [
            {"name": "main", "resources": {"limits": {"nvidia.com/gpu": cards.to_string()}}},
        ]},
        "status": {"phase": phase},
    }))
    .unwrap()
}

fn key(name: &str) -> PodKey {
    ("ml".into(), name.into())
}

fn supply(cards: u32) -> Supply {
    let supply = Supply::default();
    supply.node("a", Some(&node("a", cards)));
    supply
}

fn creating(name: &str, count: u32) -> Plan {
    let pod = PodPlan {
        name: name.into(),
        rerun: 0,
        attempt: 1,
        card: "rtx4090".into(),
        node_hint: "a".into(),
        product_labels: Vec::new(),
        product_names: Vec::new(),
        memory_mib: None,
        memory_bounds_mib: None,
        count,
        share: Share::default(),
        runtime: jiff::SignedDuration::ZERO,
        hold: None,
        grace: jiff::SignedDuration::ZERO,
        ceiling: jiff::SignedDuration::ZERO,
    };
    let commands = vec![Command::CreatePod(pod)];
    Plan { status: None, commands, notices: Vec::new(), wake: Wake::OnChange }
}

fn waiting(count: u32, card: &str) -> Plan {
    let why = Finding::new(Reason::WaitingForCard, "");
    let claims = vec![Claim::new(ConditionType::Ready, Truth::True, &why)];
    let effective = Effective {
        count,
        max_runtime: jiff::SignedDuration::ZERO,
        grace_period: jiff::SignedDuration::ZERO,
        startup_timeout: jiff::SignedDuration::ZERO,
        keep_logs: jiff::SignedDuration::ZERO,
        cards: vec![card.into()],
    };
    let conditions = settle(claims, &[], 1, jiff::Timestamp::UNIX_EPOCH);
    let status = Status { effective: Some(effective), conditions, ..Status::default() };
    Plan { status: Some(status), commands: Vec::new(), notices: Vec::new(), wake: Wake::OnChange }
}

fn free(supply: &Supply) -> i64 {
    supply.count("rtx4090").free
}

#[test]
fn a_chosen_card_is_taken_until_its_pod_has_ended() {
    let supply = supply(4);
    supply.plan(&holder("train"), 0, |_| creating("train-r0-a1", 2));
    assert_eq!(free(&supply), 2);
    supply.ours(key("train-r0-a1"), &pod("train-r0-a1", None, 2, "Pending"));
    assert_eq!(free(&supply), 2);
    supply.placed(key("train-r0-a1"), &pod("train-r0-a1", Some("a"), 2, "Running"));
    supply.ours(key("train-r0-a1"), &pod("train-r0-a1", Some("a"), 2, "Running"));
    assert_eq!(free(&supply), 2);
    assert!(supply.placed(key("train-r0-a1"), &pod("train-r0-a1", Some("a"), 2, "Succeeded")));
    assert_eq!(free(&supply), 4);
}

#[test]
fn what_was_not_created_is_given_back() {
    let supply = supply(4);
    let plan = supply.plan(&holder("train"), 0, |_| creating("train-r0-a1", 2));
    supply.plan(&holder("waits"), 0, |_| waiting(4, "rtx4090"));
    assert!(supply.next_in_line().is_empty());
    assert!(supply.give_back(&holder("train"), &plan));
    assert_eq!(free(&supply), 4);
    assert_eq!(supply.next_in_line(), [holder("waits")]);
    assert!(!supply.give_back(&holder("train"), &plan));
}

#[test]
fn a_node_that_had_cards_is_known_until_it_is_gone() {
    let supply = supply(4);
    let mut without = node("a", 0);
    without.metadata.labels = None;
    supply.node("a", Some(&without));
    supply.node("never-had-one", Some(&without));
    let known = |supply: &Supply| {
        let mut names = Vec::new();
        supply.plan(&holder("train"), 0, |market| {
            names.extend(market.nodes.iter().map(|node| node.name.clone()));
            Plan { status: None, commands: Vec::new(), notices: Vec::new(), wake: Wake::OnChange }
        });
        names
    };
    assert_eq!(known(&supply), ["a"]);
    supply.node("a", None);
    assert!(known(&supply).is_empty());
}

#[test]
fn a_new_list_drops_claims_of_pods_that_are_gone_and_finds_those_that_wait() {
    let supply = supply(4);
    supply.plan(&holder("gone"), 0, |_| creating("gone-r0-a1", 2));
    supply.lists_ours();
    supply.ours(key("waits-r0-a1"), &pod("waits-r0-a1", None, 1, "Pending"));
    supply.keep_ours(&HashSet::from([key("waits-r0-a1")]));
    assert_eq!(free(&supply), 3);
}

#[test]
fn a_claim_outlives_a_list_that_began_before_it() {
    let supply = supply(4);
    supply.lists_ours();
    supply.plan(&holder("train"), 0, |_| creating("train-r0-a1", 2));
    supply.keep_ours(&HashSet::new());
    assert_eq!(free(&supply), 2);
    supply.lists_ours();
    supply.keep_ours(&HashSet::new());
    assert_eq!(free(&supply), 4);
}

#[test]
fn pods_of_others_take_cards_too() {
    let supply = supply(4);
    supply.placed(key("foreign"), &pod("foreign", Some("a"), 3, "Running"));
    assert_eq!(free(&supply), 1);
    supply.keep_pods(&HashSet::new());
    assert_eq!(free(&supply), 4);
}

#[test]
fn the_longest_waiting_that_fit_are_next_and_no_more_than_fit() {
    let supply = supply(2);
    supply.plan(&holder("large"), 1, |_| waiting(9, "rtx4090"));
    supply.plan(&holder("other-card"), 2, |_| waiting(1, "h20-96"));
    supply.plan(&holder("third"), 5, |_| waiting(1, "rtx4090"));
    supply.plan(&holder("first"), 3, |_| waiting(1, "rtx4090"));
    supply.plan(&holder("second"), 4, |_| waiting(1, "rtx4090"));
    assert_eq!(supply.next_in_line(), [holder("first"), holder("second")]);
    let gone =
        Plan { status: None, commands: Vec::new(), notices: Vec::new(), wake: Wake::OnChange };
    supply.plan(&holder("first"), i64::MIN, |_| gone);
    assert_eq!(supply.next_in_line(), [holder("second"), holder("third")]);
}

#[test]
fn shared_and_mislabelled_cards_are_not_for_lease() {
    let supply = Supply::default();
    for (key, value) in [
        ("nvidia.com/gpu.sharing-strategy", "time-slicing"),
        ("nvidia.com/gpu.product", "NVIDIA-GeForce-RTX-4090-SHARED"),
        ("nvidia.com/gpu.product", "nvidia_geforce_rtx_4090"),
    ] {
        let mut node = node("a", 4);
        node.labels_mut().insert(key.into(), value.into());
        supply.node("a", Some(&node));
        assert_eq!(supply.count("rtx4090").total, 0, "{value}");
    }
    assert!(Catalog::built_in().card("rtx4090").is_some());
}
