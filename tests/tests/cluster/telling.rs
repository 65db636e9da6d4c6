//! What leasehold tells beside a job's status: Events, and the counts of cards.

use leasehold_crds::GpuCard;
use leasehold_tests::{
    jobs::{self, Job},
    suite::Stage,
    waiting::wait_for,
};
use serde_json::Value;

use crate::LIMIT;

pub(crate) fn events_tell_each_change_of_the_word_once(stage: &Stage) {
    let namespace = jobs::namespace(stage, "events");
    Job::named("train").simulated_for("15s").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Succeeded", LIMIT);
    Job::named("typo").on("gpu: {cards: [rtx4900]}").apply(stage, &namespace);
    for (name, reason, kind) in [
        ("train", "Running", "Normal"),
        ("train", "Succeeded", "Normal"),
        ("typo", "UnknownCard", "Warning"),
    ] {
        wait_for(&format!("{name} has the event {reason}"), LIMIT, || {
            let events =
                stage.playground.list(&namespace, "events").map_err(|error| error.to_string())?;
            let text = |event: &Value, path| event.pointer(path)?.as_str().map(str::to_owned);
            let told: Vec<_> = events
                .iter()
                .filter(|event| text(event, "/involvedObject/name").as_deref() == Some(name))
                .filter(|event| text(event, "/reason").as_deref() == Some(reason))
                .filter_map(|event| text(event, "/type"))
                .collect();
            if told == [kind] { Ok(()) } else { Err(format!("{told:?}")) }
        });
    }
}

pub(crate) fn cards_tell_how_many_there_are_and_what_is_wrong(stage: &Stage) {
    // Described by nothing but a price, and unknown to the catalog.
    let bare = "apiVersion: leasehold.dev/v1alpha1
kind: GpuCard
metadata: {name: house-made}
spec: {price: {perHour: \"0.10\", currency: USD}}
";
    stage.playground.apply("default", bare).unwrap();
    let card = |name: &str, check: &dyn Fn(&GpuCard) -> bool| {
        wait_for(&format!("card {name}"), LIMIT, || {
            let card: Option<GpuCard> =
                stage.playground.get("", "gpucard", name).map_err(|error| error.to_string())?;
            let card = card.ok_or("there is none")?;
            if check(&card) { Ok(()) } else { Err(format!("{:?}", card.status)) }
        });
    };
    card("rtx4090", &|card| {
        card.status.as_ref().is_some_and(|status| {
            (status.nodes, status.total) == (2, 8) && status.held + status.free == 8
        })
    });
    card("house-made", &|card| {
        let conditions = card.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|condition| {
            condition.type_ == "Accepted"
                && condition.status == "False"
                && condition.message.contains("house-made")
        })
    });
}
