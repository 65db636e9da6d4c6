//! Prices and catalog entries from `GpuCard` objects. Pure; reading can fail.
//! The controller fills [`leasehold_core::observed::Market`] with it.

use kube::ResourceExt;
use leasehold_core::{
    catalog::{Catalog, Override},
    observed::Price,
    reason::Finding,
};

use crate::{
    card::GpuCard,
    desire::{amount, card_names, currency, invalid},
    quantity,
    schema::says,
    settings::Settings,
};

/// Most characters of a card's id: it is the value of a label.
pub(crate) const LONGEST_CARD_ID: usize = 63;

/// The price of a card; `None` when it has none.
pub fn price(card: &GpuCard, settings: &Settings) -> Result<Option<Price>, Finding> {
    let Some(price) = &card.spec.price else {
        return Ok(None);
    };
    let written = price.per_hour.as_str();
    let per_hour =
        amount(written).ok_or_else(|| invalid("spec.price.perHour", written, says::PRICE))?;
    let currency = currency(price.currency.as_deref(), "spec.price.currency", settings)?;
    Ok(Some(Price { per_hour, currency }))
}

/// What the object adds to the catalog.
pub fn catalog_entry(card: &GpuCard) -> Result<Override, Finding> {
    let id = card.name_any();
    if id.len() > LONGEST_CARD_ID {
        return Err(invalid("metadata.name", &id, says::CARD_ID));
    }
    if let Some(index) = card.spec.products.iter().position(String::is_empty) {
        let cure = "write the name that nvidia-smi prints";
        return Err(invalid(&format!("spec.products[{index}]"), "", cure));
    }
    let memory = card.spec.memory.as_deref().map(|text| {
        quantity::whole_gibibytes(text)
            .ok_or_else(|| invalid("spec.memory", text, says::CARD_MEMORY))
    });
    Ok(Override {
        id,
        aliases: card_names("spec.aliases", card.spec.aliases.iter().map(String::as_str))?,
        products: card.spec.products.clone(),
        memory_gib: memory.transpose()?,
    })
}

/// The catalog with the object's card in it. A card that is neither built in nor described is a
/// refusal that names the missing fields.
pub fn with_card(catalog: Catalog, card: &GpuCard) -> Result<Catalog, Finding> {
    let entry = catalog_entry(card)?;
    catalog
        .with(entry)
        .map_err(|incomplete| invalid("metadata.name", &card.name_any(), &incomplete.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::{CardPrice, GpuCardSpec};

    fn settings() -> Settings {
        Settings { currency: "CNY".into(), ..Settings::default() }
    }

    fn priced(per_hour: &str, currency: Option<&str>) -> GpuCard {
        let price = CardPrice { per_hour: per_hour.into(), currency: currency.map(str::to_owned) };
        GpuCard::new("rtx4090", GpuCardSpec { price: Some(price), ..GpuCardSpec::default() })
    }

    #[test]
    fn a_price_without_currency_has_the_installations() {
        let price = |card: &GpuCard| price(card, &settings()).unwrap();
        assert_eq!(price(&priced("2.10", None)).unwrap().currency, "CNY");
        assert_eq!(price(&priced("2", Some("USD"))).unwrap().currency, "USD");
        assert_eq!(price(&GpuCard::new("rtx4090", GpuCardSpec::default())), None);
    }

    #[test]
    fn a_bad_price_names_its_field() {
        let refusal = price(&priced("1e2", None), &settings()).unwrap_err();
        assert!(
            refusal.evidence.starts_with("spec.price.perHour is \"1e2\": "),
            "{}",
            refusal.evidence
        );
    }

    #[test]
    fn a_new_card_must_be_described() {
        let bare = GpuCard::new("house-card", GpuCardSpec::default());
        let refusal = with_card(Catalog::built_in(), &bare).unwrap_err();
        assert!(refusal.evidence.contains("spec.products"), "{}", refusal.evidence);
        let described = GpuCard::new(
            "house-card",
            GpuCardSpec {
                products: vec!["NVIDIA House".into()],
                memory: Some("12Gi".into()),
                ..GpuCardSpec::default()
            },
        );
        assert!(with_card(Catalog::built_in(), &described).unwrap().card("house-card").is_some());
    }
}
