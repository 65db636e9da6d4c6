//! The files that users copy are usable as they are.

use std::{collections::BTreeMap, fs, path::Path};

use kube::ResourceExt;

use leasehold_core::catalog::Catalog;
use leasehold_crds::{GpuCard, GpuJob, Settings, desire, market};
use serde_json::Value;

fn documents() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut found = Vec::new();
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).unwrap();
        let parsed: Vec<Value> = serde_yaml::from_multiple(&text).unwrap();
        found.extend(parsed.into_iter().map(|document| (name.clone(), document)));
    }
    found
}

#[test]
fn every_example_is_usable_as_it_is() {
    let settings = Settings::default();
    let catalog = Catalog::built_in();
    let mut jobs = 0;
    for (file, document) in documents() {
        match document["kind"].as_str().unwrap() {
            "GpuJob" => {
                jobs += 1;
                let job: GpuJob = serde_json::from_value(document.clone()).unwrap();
                let desired =
                    desire(&job, &settings).unwrap_or_else(|refusal| panic!("{file}: {refusal:?}"));
                for card in &desired.cards {
                    assert!(catalog.resolve(card).is_ok(), "{file}: {card}");
                }
                // Nothing is dropped silently: each field of the file is a field of the kind.
                assert_eq!(serde_json::to_value(&job.spec).unwrap(), document["spec"], "{file}");
            }
            "GpuCard" => {
                let card: GpuCard = serde_json::from_value(document.clone()).unwrap();
                assert!(market::price(&card, &settings).unwrap().is_some(), "{file}");
                market::with_card(Catalog::built_in(), &card).unwrap();
                assert_eq!(serde_json::to_value(&card.spec).unwrap(), document["spec"], "{file}");
            }
            other => panic!("{file}: unexpected kind {other}"),
        }
    }
    assert!(jobs >= 4);
}

#[test]
fn every_card_of_an_example_has_a_price_in_the_currency_of_its_budget() {
    let settings = Settings::default();
    let catalog = Catalog::built_in();
    let documents = documents();
    let prices: BTreeMap<String, String> = documents
        .iter()
        .filter(|(_, document)| document["kind"] == "GpuCard")
        .map(|(_, document)| {
            let card: GpuCard = serde_json::from_value(document.clone()).unwrap();
            let price = market::price(&card, &settings).unwrap().unwrap();
            (card.name_any(), price.currency)
        })
        .collect();
    for (file, document) in documents.iter().filter(|(_, document)| document["kind"] == "GpuJob") {
        let job: GpuJob = serde_json::from_value(document.clone()).unwrap();
        let desired = desire(&job, &settings).unwrap();
        for card in desired.cards.iter().flat_map(|name| catalog.resolve(name).unwrap()) {
            assert_eq!(prices.get(&card.id), Some(&desired.currency), "{file}: {}", card.id);
        }
    }
}
