//! Which card, on which node, at which price. Pure.
//! [`crate::decide`] asks here when a holder without a lease wants to run.

use crate::{
    catalog::{Card, UnknownCard},
    desired::Desired,
    lease,
    money::{HourlyRate, Money},
    observed::{Market, NodeSupply, Price},
    reason::{Finding, Reason},
};

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// This card is free on this node.
    Place(Chosen<'a>),
    /// Nothing fits now; it may later without a change of the specification.
    Wait(Finding),
    /// Nothing can ever fit.
    Refuse(Finding),
}

/// A free card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen<'a> {
    /// The card.
    pub card: &'a Card,
    /// A node with room; the scheduler may choose another one with the same card.
    pub node: &'a NodeSupply,
    /// What one card costs by the hour; zero when unpriced.
    pub per_hour: Money,
}

/// The cards that the typed names stand for, in order of preference.
pub fn acceptable<'a>(desired: &Desired, market: &'a Market) -> Result<Vec<&'a Card>, Finding> {
    let mut cards: Vec<&Card> = Vec::new();
    for typed in &desired.cards {
        for card in
            market.catalog.resolve(typed).map_err(|unknown| unknown_card(unknown, market))?
        {
            if !cards.iter().any(|known| known.id == card.id) {
                cards.push(card);
            }
        }
    }
    Ok(cards)
}

/// Chooses the first acceptable card that is priced, paid for by `left` and free.
#[must_use]
pub fn choose<'a>(desired: &Desired, market: &'a Market, left: Option<Money>) -> Choice<'a> {
    let cards = match acceptable(desired, market) {
        Ok(cards) => cards,
        Err(finding) => return Choice::Refuse(finding),
    };
    let offers: Vec<_> = cards.iter().map(|card| offer(desired, market, card, left)).collect();
    let affordable: Vec<_> = cards
        .iter()
        .zip(&offers)
        .filter_map(|(card, offer)| offer.as_ref().ok().map(|per_hour| (*card, *per_hour)))
        .collect();
    if affordable.is_empty() {
        return nothing_affordable(offers);
    }
    let placed = affordable.iter().find_map(|(card, per_hour)| {
        let node = best_fit(market, card, desired.count.get())?;
        Some(Chosen { card, node, per_hour: *per_hour })
    });
    match placed {
        Some(chosen) => Choice::Place(chosen),
        None => Choice::Wait(no_room(desired, market, &affordable)),
    }
}

/// The price of a card for this holder, or why it cannot be used.
fn offer(
    desired: &Desired,
    market: &Market,
    card: &Card,
    left: Option<Money>,
) -> Result<Money, Finding> {
    let Some(price) = market.prices.get(&card.id) else {
        return match left {
            None => Ok(Money::ZERO),
            Some(_) => {
                Err(Finding::new(Reason::Unpriced, format!("no price is known for {}", card.id)))
            }
        };
    };
    if price.currency != desired.currency {
        return Err(currency_mismatch(desired, card, price));
    }
    let rate = HourlyRate::of(price.per_hour, desired.count.get());
    if lease::pays_for_a_start(rate, desired.grace_period, left) {
        Ok(price.per_hour)
    } else {
        Err(too_small(desired, card, rate, left))
    }
}

/// Waiting for a price helps, everything else needs a change.
fn nothing_affordable(offers: Vec<Result<Money, Finding>>) -> Choice<'static> {
    let mut refusals: Vec<Finding> = offers.into_iter().filter_map(Result::err).collect();
    refusals.sort_by_key(|finding| finding.reason != Reason::Unpriced);
    match refusals.into_iter().next() {
        Some(finding) if finding.reason == Reason::Unpriced => Choice::Wait(finding),
        Some(finding) => Choice::Refuse(finding),
        None => Choice::Refuse(Finding::new(Reason::InvalidSpec, "gpu.cards is empty")),
    }
}

fn best_fit<'a>(market: &'a Market, card: &Card, count: u32) -> Option<&'a NodeSupply> {
    market
        .nodes_of(&card.id)
        .filter(|node| node.open && node.free >= count)
        .min_by(|left, right| left.free.cmp(&right.free).then_with(|| left.name.cmp(&right.name)))
}

fn no_room(desired: &Desired, market: &Market, cards: &[(&Card, Money)]) -> Finding {
    let count = desired.count.get();
    let names = cards.iter().map(|(card, _)| card.id.as_str()).collect::<Vec<_>>().join(", ");
    let nodes: Vec<_> = cards.iter().flat_map(|(card, _)| market.nodes_of(&card.id)).collect();
    let largest = nodes.iter().map(|node| node.allocatable).max().unwrap_or(0);
    if nodes.is_empty() {
        return Finding::new(Reason::WaitingForCard, format!("no node has {names}"));
    }
    if largest == 0 {
        let evidence = format!(
            "{} by label have {names}, 0 cards are allocatable: look at the device plugin there",
            counted(nodes.len(), "node")
        );
        return Finding::new(Reason::WaitingForCard, evidence);
    }
    if largest < count {
        let evidence =
            format!("{count} × {names} in one pod asked for, the largest node has {largest}");
        return Finding::new(Reason::CountExceedsNodes, evidence);
    }
    let total: u32 = nodes.iter().map(|node| node.allocatable).sum();
    let closed = match nodes.iter().filter(|node| !node.open).count() {
        0 => String::new(),
        closed => format!(" ({closed} not ready or cordoned)"),
    };
    let evidence = format!(
        "{count} × {names} asked for; {total} are in {}{closed}, but none that is open has enough free",
        counted(nodes.len(), "node")
    );
    Finding::new(Reason::WaitingForCard, evidence)
}

fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Near names, those that can be bought here first.
fn unknown_card(unknown: UnknownCard, market: &Market) -> Finding {
    let priced = |name: &String| {
        let cards = market.catalog.resolve(name).unwrap_or_default();
        cards.iter().any(|card| market.prices.contains_key(&card.id))
    };
    let mut near = unknown.near;
    near.sort_by_cached_key(|name| !priced(name));
    let near = if near.is_empty() {
        "no known name looks like it".to_owned()
    } else {
        format!("did you mean {}?", near.join(", "))
    };
    Finding::new(
        Reason::UnknownCard,
        format!("gpu.cards: no card is called {:?}; {near}", unknown.typed),
    )
}

fn currency_mismatch(desired: &Desired, card: &Card, price: &Price) -> Finding {
    let evidence = format!(
        "{} is priced in {}, the budget is in {}",
        card.id, price.currency, desired.currency
    );
    Finding::new(Reason::CurrencyMismatch, evidence)
}

fn too_small(desired: &Desired, card: &Card, rate: HourlyRate, left: Option<Money>) -> Finding {
    let left = left.unwrap_or_default();
    let evidence = format!(
        "{left} {currency} are left; {count} × {card} cost {rate} {currency} per hour, and a start and a stop alone take gracePeriod {grace} and one second",
        currency = desired.currency,
        count = desired.count.get(),
        card = card.id,
        rate = rate.per_hour(),
        grace = crate::duration::format(desired.grace_period),
    );
    Finding::new(Reason::BudgetTooSmall, evidence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        catalog::Catalog,
        desired::{GpuCount, Wish},
        money::Limit,
    };
    use jiff::SignedDuration;

    fn wanting(cards: &[&str], count: u32) -> Desired {
        Desired {
            rerun: 0,
            spec_hash: "v1:a".into(),
            cards: cards.iter().map(|&card| card.to_owned()).collect(),
            count: GpuCount::new(count).unwrap(),
            max_runtime: SignedDuration::from_hours(1),
            grace_period: SignedDuration::from_secs(30),
            limit: Limit::Amount(Money::parse("10").unwrap()),
            currency: "USD".into(),
            wish: Wish::Running,
            keep_logs: SignedDuration::from_hours(1),
        }
    }

    fn node(name: &str, card: &str, allocatable: u32, free: u32) -> NodeSupply {
        NodeSupply {
            name: name.into(),
            card: Some(card.into()),
            allocatable,
            free,
            open: true,
            emptied: None,
            taints: Vec::new(),
            silent_since: None,
            cpu_millis: 40_000,
            memory_bytes: 400,
        }
    }

    fn market(nodes: Vec<NodeSupply>) -> Market {
        let prices = [
            ("rtx4090", "0.40"),
            ("rtx3090", "0.20"),
            ("a100-sxm4-80", "1.80"),
            ("h20-96", "1.00"),
        ]
        .into_iter()
        .map(|(card, price)| {
            let currency = if card == "h20-96" { "CNY" } else { "USD" };
            (
                card.to_owned(),
                Price { per_hour: Money::parse(price).unwrap(), currency: currency.into() },
            )
        })
        .collect();
        Market { catalog: Catalog::built_in(), prices, nodes }
    }

    fn chosen(choice: Choice) -> (String, String) {
        match choice {
            Choice::Place(chosen) => (chosen.card.id.clone(), chosen.node.name.clone()),
            other @ (Choice::Wait(_) | Choice::Refuse(_)) => panic!("{other:?}"),
        }
    }

    fn reason(choice: &Choice) -> (&'static str, Reason) {
        match choice {
            Choice::Place(_) => ("place", Reason::Placing),
            Choice::Wait(finding) => ("wait", finding.reason),
            Choice::Refuse(finding) => ("refuse", finding.reason),
        }
    }

    #[test]
    fn the_first_card_with_room_is_taken_on_the_fullest_node_that_fits() {
        let market = market(vec![
            node("a", "rtx4090", 4, 0),
            node("b", "rtx3090", 8, 8),
            node("c", "rtx3090", 4, 2),
        ]);
        let desired = wanting(&["4090", "3090"], 2);
        assert_eq!(
            chosen(choose(&desired, &market, desired.limit.left_after(Money::ZERO))),
            ("rtx3090".into(), "c".into())
        );
    }

    #[test]
    fn a_family_takes_any_priced_board() {
        let market = market(vec![node("a", "a100-sxm4-80", 8, 8)]);
        let desired = wanting(&["a100"], 1);
        assert_eq!(
            chosen(choose(&desired, &market, desired.limit.left_after(Money::ZERO))).0,
            "a100-sxm4-80"
        );
    }

    #[test]
    fn what_cannot_be_placed_says_why() {
        let supply = market(vec![
            node("a", "rtx4090", 4, 1),
            node("b", "h20-96", 8, 8),
            node("c", "l4", 1, 1),
        ]);
        for (cards, count, answer) in [
            (&["rtx4900"][..], 1, ("refuse", Reason::UnknownCard)),
            (&["4090"], 2, ("wait", Reason::WaitingForCard)),
            (&["4090"], 5, ("wait", Reason::CountExceedsNodes)),
            (&["3090"], 1, ("wait", Reason::WaitingForCard)),
            (&["h20"], 1, ("refuse", Reason::CurrencyMismatch)),
            (&["l4"], 1, ("wait", Reason::Unpriced)),
            (&["l4", "4090"], 1, ("place", Reason::Placing)),
        ] {
            let desired = wanting(cards, count);
            assert_eq!(
                reason(&choose(&desired, &supply, desired.limit.left_after(Money::ZERO))),
                answer,
                "{cards:?} × {count}"
            );
        }
        let poor = Some(Money::parse("0.003").unwrap());
        assert_eq!(
            reason(&choose(&wanting(&["4090"], 1), &supply, poor)),
            ("refuse", Reason::BudgetTooSmall)
        );
        assert_eq!(
            reason(&choose(&wanting(&["l4"], 1), &supply, None)),
            ("place", Reason::Placing)
        );
    }

    #[test]
    fn a_node_without_allocatable_cards_points_at_its_device_plugin() {
        let supply = market(vec![node("a", "rtx3090", 0, 0)]);
        let desired = wanting(&["3090"], 1);
        let Choice::Wait(finding) =
            choose(&desired, &supply, desired.limit.left_after(Money::ZERO))
        else {
            panic!()
        };
        assert!(
            finding.evidence.starts_with("1 node by label have rtx3090, 0 cards are allocatable"),
            "{}",
            finding.evidence
        );
    }

    #[test]
    fn near_names_begin_with_what_has_a_price() {
        let market = market(Vec::new());
        let Choice::Refuse(finding) = choose(&wanting(&["a101"], 1), &market, None) else {
            panic!()
        };
        assert!(finding.evidence.contains("did you mean a100, "), "{}", finding.evidence);
        let Choice::Refuse(finding) = choose(&wanting(&["rtx4080x"], 1), &market, None) else {
            panic!()
        };
        assert!(finding.evidence.contains("did you mean rtx4090, "), "{}", finding.evidence);
    }

    #[test]
    fn a_closed_node_is_not_chosen() {
        let mut closed = node("a", "rtx3090", 4, 4);
        closed.open = false;
        let desired = wanting(&["3090"], 1);
        assert_eq!(
            reason(&choose(&desired, &market(vec![closed]), desired.limit.left_after(Money::ZERO))),
            ("wait", Reason::WaitingForCard)
        );
    }
}
