//! The price list: `GpuCard` objects into catalog and prices, and their status out of the supply.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use kube::{ResourceExt, runtime::watcher::Event};
use leasehold_core::{catalog::Catalog, observed::Price};
use leasehold_crds::{GpuCard, GpuCardStatus, Settings, market};

use crate::context::Context;

/// All `GpuCard` objects, by name.
#[derive(Default)]
pub struct PriceList {
    cards: Mutex<BTreeMap<String, Arc<GpuCard>>>,
}

impl PriceList {
    /// Takes in a watch event; the supply has the new list when this returns.
    pub fn apply(&self, event: Event<GpuCard>, context: &Context) {
        let mut cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Init => cards.clear(),
            Event::Apply(card) | Event::InitApply(card) => {
                cards.insert(card.name_any(), Arc::new(card));
            }
            Event::Delete(card) => {
                cards.remove(&card.name_any());
            }
            Event::InitDone => {}
        }
        let (catalog, prices) = read(&cards, &context.settings);
        context.supply.price_list(catalog, prices);
    }

    /// Writes the counts that changed since the status was last written.
    pub async fn tell_counts(&self, context: &Context) {
        let cards: Vec<_> =
            self.cards.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for card in cards {
            let count = context.supply.count(&card.name_any());
            let status = GpuCardStatus {
                observed_generation: card.metadata.generation.unwrap_or(0),
                nodes: count.nodes,
                total: count.total,
                held: count.total - count.free,
                free: count.free,
                conditions: Vec::new(),
            };
            if card.status.as_ref() == Some(&status) {
                continue;
            }
            let next = GpuCard { status: Some(status), ..GpuCard::clone(&card) };
            if let Err(error) = context.cluster.write_card_status(&next).await {
                tracing::debug!(%error, "counts of a card are written next time");
            }
        }
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
