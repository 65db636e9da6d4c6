//! Random weeks: jobs come, change and go while everything around the operator fails. Whatever
//! happened, the ledger is right in the end.
//!
//! A seed makes the same [`story`] each time. One that fails is made shorter for as long as it still
//! fails, and told. [`live`] lets it happen, [`verdict`] judges what is left.

mod live;
mod story;
mod verdict;

use std::{
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use leasehold_tests::environment::seeds;
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};
use story::Story;

#[test]
fn after_random_weeks_the_ledger_is_right() {
    let seeds = seeds(50, 2_000);
    let next = AtomicUsize::new(seeds.start);
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if !seeds.contains(&seed) {
                        break;
                    }
                    if let Err(words) = week(seed) {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(words);
                        // One story is enough to look at.
                        next.store(seeds.end, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// The same story goes the same way: what a seed finds can be found again.
#[test]
fn a_seed_repeats_exactly() {
    for seed in 0..2 {
        let story = tree(seed).1.current();
        let [first, second] = [(); 2].map(|()| live::requests_of(&story));
        let differs = first.iter().zip(&second).position(|(one, other)| one != other);
        if let Some(at) = differs {
            panic!("seed {seed}, request {at}: {} and {}", first[at], second[at]);
        }
        assert_eq!(first.len(), second.len());
    }
}

fn week(seed: usize) -> Result<(), String> {
    let (mut runner, tree) = tree(seed);
    match runner.run_one(tree, |story| live::week(&story).map_err(TestCaseError::fail)) {
        Ok(_) => Ok(()),
        Err(TestError::Fail(why, story)) => Err(format!(
            "{why}\nThe story, as short as it still fails:\n{}It came from LEASEHOLD_SEED={seed}.",
            story.told()
        )),
        Err(TestError::Abort(why)) => Err(format!("seed {seed}: {why}")),
    }
}

/// The story of a seed, and what makes it shorter.
fn tree(seed: usize) -> (TestRunner, impl ValueTree<Value = Story>) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(seed as u64).to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config { max_shrink_iters: 400, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, random);
    let tree = story::stories().new_tree(&mut runner).expect("a story");
    (runner, tree)
}
