//! Known cards, by the names that people type and that tools print. Pure; parsing embedded data
//! cannot fail at run time because a test reads all of it.
//!
//! The built-in cards are `data/cards.csv`; `GpuCard` objects add to them or override them.
//! [`crate::placement`] resolves names with it, the controller identifies nodes with it; when two
//! names are the same one is in [`name`].

mod name;

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

use name::is_same;
pub use name::{normalize, product_label};

/// The table of built-in cards: NVIDIA's supported-GPU lists, `nvidia-smi` logs and public card
/// databases; the columns are described in `data/README.md`.
const TABLE: &str = include_str!("../data/cards.csv");

/// How far two memory sizes of one card may differ: ECC on a GDDR card costs 6.25 %, a T4 on an
/// old driver reads 8.0 % low.
pub const MEMORY_TOLERANCE_PERCENT: i64 = 8;

/// A card model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its id, for example `rtx4090` or `a800-sxm4-80`.
    pub id: String,
    /// The names that `nvidia-smi --query-gpu=name` prints.
    pub products: Vec<String>,
    /// Names that people type for it; a family name belongs to several cards.
    pub aliases: Vec<String>,
    /// Nominal memory in GiB.
    pub memory_gib: i64,
    /// Memory in MiB as `nvidia-smi` prints it, where known.
    pub memory_mib: Option<i64>,
}

impl Card {
    /// The values of the node label `nvidia.com/gpu.product` that mean this card, with and
    /// without the prefix that drivers before R495 leave out.
    #[must_use]
    pub fn product_labels(&self) -> Vec<String> {
        let mut labels = Vec::new();
        for product in &self.products {
            let label = product_label(product);
            let short = label.strip_prefix("NVIDIA-").map(str::to_owned);
            labels.push(label);
            labels.extend(short);
        }
        labels.dedup();
        labels
    }

    /// Memory in MiB: as printed where known, else nominal.
    #[must_use]
    pub fn expected_mib(&self) -> i64 {
        self.memory_mib.unwrap_or(self.memory_gib.saturating_mul(1_024))
    }

    /// Whether this much memory is that of this card.
    #[must_use]
    pub fn has_memory(&self, mib: i64) -> bool {
        is_same_memory(mib, self.expected_mib())
    }
}

/// Whether two memory sizes are those of one card, by the tolerance above.
#[must_use]
pub fn is_same_memory(seen_mib: i64, expected_mib: i64) -> bool {
    let (seen, expected) = (i128::from(seen_mib), i128::from(expected_mib));
    (seen - expected).abs() * 100 <= expected * i128::from(MEMORY_TOLERANCE_PERCENT)
}

/// A name that no card has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCard {
    /// The name as typed.
    pub typed: String,
    /// Ids and aliases that look like it, best first, at most five.
    pub near: Vec<String>,
}

/// What a `GpuCard` object adds to the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Override {
    /// The card's id.
    pub id: String,
    /// Further names that people type.
    pub aliases: Vec<String>,
    /// Names that `nvidia-smi` prints; replace the built-in ones unless empty.
    pub products: Vec<String>,
    /// Nominal memory in GiB; replaces the built-in one.
    pub memory_gib: Option<i64>,
}

/// Why an override cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{id} is not a built-in card: give spec.products (names as nvidia-smi prints them) and spec.memory"
)]
pub struct IncompleteCard {
    /// The card's id.
    pub id: String,
}

/// All known cards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    cards: Vec<Card>,
}

#[derive(Deserialize)]
struct Row {
    id: String,
    nvidia_smi_name: String,
    aliases: String,
    memory_gib_nominal: i64,
    memory_mib_nvidia_smi: Option<i64>,
    uncertain_fields: String,
}

impl Row {
    fn card(self) -> Card {
        let is_guessed =
            self.uncertain_fields.split(';').any(|field| field == "memory_mib_nvidia_smi");
        Card {
            id: self.id,
            products: vec![self.nvidia_smi_name],
            aliases: self.aliases.split(';').map(str::to_owned).collect(),
            memory_gib: self.memory_gib_nominal,
            memory_mib: self.memory_mib_nvidia_smi.filter(|_| !is_guessed),
        }
    }
}

impl Catalog {
    /// The built-in cards, in the order of the table, which is the order of preference within a
    /// family.
    #[must_use]
    pub fn built_in() -> Self {
        // Read once: it is asked for again and again.
        static BUILT_IN: LazyLock<Catalog> = LazyLock::new(|| {
            let rows = csv::Reader::from_reader(TABLE.as_bytes()).into_deserialize();
            Catalog { cards: rows.filter_map(Result::ok).map(Row::card).collect() }
        });
        BUILT_IN.clone()
    }

    /// The catalog with one more card, or with more names for a known one.
    pub fn with(mut self, change: Override) -> Result<Self, IncompleteCard> {
        if let Some(card) = self.cards.iter_mut().find(|card| card.id == change.id) {
            card.aliases.extend(change.aliases);
            if !change.products.is_empty() {
                card.products = change.products;
            }
            if let Some(memory) = change.memory_gib {
                card.memory_gib = memory;
                card.memory_mib = None;
            }
        } else {
            let (false, Some(memory_gib)) = (change.products.is_empty(), change.memory_gib) else {
                return Err(IncompleteCard { id: change.id });
            };
            self.cards.push(Card {
                id: change.id,
                products: change.products,
                aliases: change.aliases,
                memory_gib,
                memory_mib: None,
            });
        }
        Ok(self)
    }

    /// The card with this id.
    #[must_use]
    pub fn card(&self, id: &str) -> Option<&Card> {
        self.cards.iter().find(|card| card.id == id)
    }

    /// All cards.
    pub fn iter(&self) -> impl Iterator<Item = &Card> {
        self.cards.iter()
    }

    /// The cards that a typed name stands for: the card with that id, else all cards with that
    /// alias or printed name (a family name means any board of it).
    pub fn resolve(&self, typed: &str) -> Result<Vec<&Card>, UnknownCard> {
        let wanted = normalize(typed);
        let by_id: Vec<_> = self.cards.iter().filter(|card| is_same(&card.id, &wanted)).collect();
        if !by_id.is_empty() {
            return Ok(by_id);
        }
        let named: Vec<_> = self
            .cards
            .iter()
            .filter(|card| {
                card.aliases.iter().chain(&card.products).any(|name| is_same(name, &wanted))
            })
            .collect();
        if named.is_empty() { Err(self.unknown(typed)) } else { Ok(named) }
    }

    /// The card that a node's labels or `nvidia-smi` speak of. Memory only tells apart cards of
    /// one name; it never identifies a card by itself.
    #[must_use]
    pub fn identify(&self, product: &str, memory_mib: Option<i64>) -> Option<&Card> {
        let wanted = normalize(product);
        let mut named = self
            .cards
            .iter()
            .filter(|card| card.products.iter().any(|name| is_same(name, &wanted)));
        let first = named.next()?;
        let mut candidates: Vec<_> = std::iter::once(first).chain(named).collect();
        if candidates.len() > 1 {
            candidates.retain(|card| memory_mib.is_none_or(|mib| card.has_memory(mib)));
        }
        candidates.into_iter().next()
    }

    /// The memory range that tells a card from others of the same printed name, in MiB,
    /// exclusive; `None` when its name is its own.
    #[must_use]
    pub fn memory_bounds_mib(&self, card: &Card) -> Option<(i64, i64)> {
        let labels = card.product_labels();
        let twins = self.cards.iter().any(|other| {
            other.id != card.id && other.product_labels().iter().any(|label| labels.contains(label))
        });
        let expected = card.expected_mib();
        let tolerance = expected * MEMORY_TOLERANCE_PERCENT / 100;
        twins.then_some((expected - tolerance - 1, expected + tolerance + 1))
    }

    fn unknown(&self, typed: &str) -> UnknownCard {
        let wanted = normalize(typed);
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for card in &self.cards {
            for name in std::iter::once(&card.id).chain(&card.aliases) {
                let folded = normalize(name);
                let distance = strsim::damerau_levenshtein(&wanted, &folded);
                let contained =
                    wanted.len() >= 2 && (folded.contains(&wanted) || wanted.contains(&folded));
                if distance <= 2 || contained {
                    let best = names.entry(name.to_lowercase()).or_insert(distance);
                    *best = distance.min(*best);
                }
            }
        }
        let mut near: Vec<_> = names.into_iter().collect();
        near.sort_by(|left, right| left.1.cmp(&right.1).then_with(|| left.0.cmp(&right.0)));
        UnknownCard {
            typed: typed.to_owned(),
            near: near.into_iter().take(5).map(|(name, _)| name).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(typed: &str) -> Vec<String> {
        Catalog::built_in()
            .resolve(typed)
            .unwrap()
            .into_iter()
            .map(|card| card.id.clone())
            .collect()
    }

    #[test]
    fn the_whole_table_is_read() {
        let lines = TABLE.lines().count() - 1;
        assert_eq!(Catalog::built_in().iter().count(), lines);
    }

    #[test]
    fn names_that_people_type_mean_the_right_cards() {
        assert_eq!(ids("4090"), ["rtx4090"]);
        assert_eq!(ids("RTX 4090"), ["rtx4090"]);
        assert_eq!(ids("NVIDIA GeForce RTX 4090 D"), ["rtx4090d"]);
        assert_eq!(ids("h20"), ["h20-96"]);
        assert_eq!(ids("H20-3e"), ["h20-141"]);
        assert_eq!(ids("l4"), ["l4"]);
        assert_eq!(ids("a100"), ["a100-pcie-40", "a100-sxm4-40", "a100-pcie-80", "a100-sxm4-80"]);
        assert_eq!(ids("a100-80g"), ["a100-pcie-80", "a100-sxm4-80"]);
        assert_eq!(ids("a800-sxm4-80"), ["a800-sxm4-80"]);
    }

    #[test]
    fn no_card_is_found_by_a_part_of_its_name() {
        let catalog = Catalog::built_in();
        for (product, id) in [
            ("NVIDIA H20", "h20-96"),
            ("NVIDIA H200", "h200-sxm"),
            ("NVIDIA H20-3e", "h20-141"),
            ("NVIDIA L4", "l4"),
            ("NVIDIA L40S", "l40s"),
            ("NVIDIA A10", "a10"),
            ("NVIDIA A10G", "a10g"),
            ("NVIDIA GeForce RTX 5090 D v2", "rtx5090dv2"),
            ("GeForce RTX 3090", "rtx3090"),
            ("NVIDIA-GeForce-RTX-3090-Ti", "rtx3090ti"),
            ("Tesla-T4", "t4"),
        ] {
            assert_eq!(catalog.identify(product, None).unwrap().id, id, "{product}");
        }
        for product in [
            "NVIDIA H20 NVL16",
            "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
            "NVIDIA H",
            "NVIDIA-GeForce-RTX-4090-SHARED",
        ] {
            assert_eq!(catalog.identify(product, None), None, "{product}");
        }
    }

    #[test]
    fn memory_tells_the_boards_of_one_name_apart() {
        let catalog = Catalog::built_in();
        let name = "NVIDIA GeForce RTX 4090";
        assert_eq!(catalog.identify(name, Some(24_564)).unwrap().id, "rtx4090");
        assert_eq!(catalog.identify(name, Some(49_140)).unwrap().id, "rtx4090-48g-mod");
        assert_eq!(catalog.memory_bounds_mib(catalog.card("l4").unwrap()), None);
        let (low, high) = catalog.memory_bounds_mib(catalog.card("rtx4090").unwrap()).unwrap();
        assert!(low < 24_564 && 24_564 < high && high < 49_140);
    }

    #[test]
    fn an_unknown_name_lists_its_neighbours() {
        let catalog = Catalog::built_in();
        let near = |typed: &str| catalog.resolve(typed).unwrap_err().near;
        assert!(near("rtx4900").contains(&"rtx4090".to_owned()));
        assert!(near("h21").iter().any(|name| name.starts_with("h20")));
        assert!(near("a101").contains(&"a100".to_owned()));
        assert!(near("quantum9000").is_empty());
    }

    #[test]
    fn labels_are_those_of_feature_discovery() {
        let catalog = Catalog::built_in();
        assert_eq!(
            catalog.card("rtx4090d").unwrap().product_labels(),
            ["NVIDIA-GeForce-RTX-4090-D", "GeForce-RTX-4090-D"]
        );
        let from_table: Vec<(String, String)> = csv::Reader::from_reader(TABLE.as_bytes())
            .into_records()
            .map(|row| row.map(|row| (row[1].to_owned(), row[2].to_owned())).unwrap())
            .collect();
        for (product, label) in from_table {
            assert_eq!(product_label(&product), label);
        }
    }

    #[test]
    fn objects_add_cards_and_names() {
        let house = Override {
            id: "house-card".into(),
            aliases: vec!["hc".into()],
            products: vec!["NVIDIA House".into()],
            memory_gib: Some(12),
        };
        let alias =
            Override { id: "l4".into(), aliases: vec!["small".into()], ..Override::default() };
        let catalog = Catalog::built_in().with(house).unwrap().with(alias).unwrap();
        assert_eq!(catalog.resolve("HC").unwrap()[0].id, "house-card");
        assert_eq!(catalog.resolve("small").unwrap()[0].id, "l4");
        let bare = Override { id: "nothing".into(), ..Override::default() };
        assert!(Catalog::built_in().with(bare).is_err());
    }
}
