//! The price list: `GpuCard` objects into catalog and prices, and their status out of the supply.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{ResourceExt, runtime::watcher::Event};
use leasehold_core::{
    catalog::Catalog,
    condition::ConditionType,
    observed::Price,
    reason::{Finding, Reason},
};
use leasehold_crds::{GpuCard, GpuCardSpec, GpuCardStatus, Settings, market};
use tokio::sync::Notify;

use crate::context::Context;

/// How long changes of the counts are collected until they are written.
const COLLECTED_FOR: Duration = Duration::from_secs(5);

/// All `GpuCard` objects, by name.
#[derive(Default)]
pub struct PriceList {
    inner: Mutex<Inner>,
    /// An event was taken in.
    touched: Notify,
}

#[derive(Default)]
struct Inner {
    cards: BTreeMap<String, Arc<GpuCard>>,
    /// What a list that is under way has named so far: prices stay until it is complete.
    listed: BTreeMap<String, Arc<GpuCard>>,
}

impl PriceList {
    /// Takes in a watch event; the supply has the new list when this returns. Tells whether any
    /// card's specification changed.
    pub fn apply(&self, event: Event<GpuCard>, context: &Context) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let before = specifications(&inner.cards);
        match event {
            Event::Init => inner.listed.clear(),
            Event::InitApply(card) => {
                inner.listed.insert(card.name_any(), Arc::new(card));
            }
            Event::InitDone => inner.cards = std::mem::take(&mut inner.listed),
            Event::Apply(card) => {
                inner.cards.insert(card.name_any(), Arc::new(card));
            }
            Event::Delete(card) => {
                inner.cards.remove(&card.name_any());
            }
        }
        self.touched.notify_one();
        if specifications(&inner.cards) == before {
            return false;
        }
        let (catalog, prices) = read(&inner.cards, &context.settings);
        context.supply.price_list(catalog, prices);
        true
    }

    fn known(&self) -> Vec<Arc<GpuCard>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.cards.values().cloned().collect()
    }

    /// Keeps the counts in the status of all cards, for ever. Nothing is done while nothing changes.
    pub async fn keep_counts(&self, context: &Context) {
        let mut changes = context.supply.changes();
        loop {
            tokio::time::sleep(COLLECTED_FOR).await;
            changes.borrow_and_update();
            if self.tell_counts(context).await {
                tokio::select! {
                    _ = changes.changed() => {}
                    () = self.touched.notified() => {}
                }
            }
        }
    }

    /// Writes the counts that changed since the status was last written. Tells whether all are there.
    async fn tell_counts(&self, context: &Context) -> bool {
        let mut are_told = true;
        for card in self.known() {
            let count = context.supply.count(&card.name_any());
            let status = GpuCardStatus {
                observed_generation: card.metadata.generation.unwrap_or(0),
                nodes: count.nodes,
                total: count.total,
                held: count.held,
                free: count.free,
                conditions: vec![accepted(&card, context)],
            };
            if card.status.as_ref() == Some(&status) {
                continue;
            }
            let next = GpuCard { status: Some(status), ..GpuCard::clone(&card) };
            if let Err(error) = context.cluster.write_card_status(&next).await {
                tracing::debug!(%error, "counts of a card are written next time");
                are_told = false;
            }
        }
        are_told
    }
}

fn specifications(cards: &BTreeMap<String, Arc<GpuCard>>) -> BTreeMap<String, GpuCardSpec> {
    cards.iter().map(|(name, card)| (name.clone(), card.spec.clone())).collect()
}

/// Whether the card can be used, and what to change.
fn accepted(card: &GpuCard, context: &Context) -> Condition {
    let usable = market::with_card(Catalog::built_in(), card)
        .and_then(|_| market::price(card, &context.settings));
    let (status, finding) = match usable {
        Ok(_) => ("True", Finding::new(Reason::Accepted, "")),
        Err(finding) => ("False", finding),
    };
    let kind = ConditionType::Accepted.name();
    let last = card
        .status
        .iter()
        .flat_map(|status| &status.conditions)
        .find(|last| last.type_ == kind && last.status == status);
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: finding.reason.name().to_owned(),
        message: finding.message(),
        observed_generation: card.metadata.generation,
        last_transition_time: last
            .map_or_else(|| Time(context.clock.now()), |last| last.last_transition_time.clone()),
    }
}

/// A card that cannot be used is left out and said so; it stops no other.
fn read(
    cards: &BTreeMap<String, Arc<GpuCard>>,
    settings: &Settings,
) -> (Catalog, BTreeMap<String, Price>) {
    let mut catalog = Catalog::built_in();
    let mut prices = BTreeMap::new();
    for (name, card) in cards {
        let usable = market::with_card(catalog.clone(), card)
            .and_then(|catalog| market::price(card, settings).map(|price| (catalog, price)));
        match usable {
            Ok((more, price)) => {
                catalog = more;
                prices.extend(price.map(|price| (name.clone(), price)));
            }
            Err(finding) => {
                tracing::warn!(card = name, reason = %finding.reason, "card left out: {}", finding.message());
            }
        }
    }
    (catalog, prices)
}
