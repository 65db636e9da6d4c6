//! Objects, their versions, and what changed when.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    delete::{self, Left},
    kinds::Kind,
    refusal::Refusal,
    write::{self, Part},
};

/// Where an object lies; the namespace of those that have none is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The kind, by its path.
    pub plural: &'static str,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// Of an object of this kind.
    #[must_use]
    pub fn of(kind: &'static Kind, namespace: &str, name: &str) -> Self {
        Self { plural: kind.plural, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// A change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The version that it made.
    pub version: u64,
    /// Of what.
    pub key: Key,
    /// As it was.
    pub before: Option<Arc<Value>>,
    /// As it is.
    pub after: Option<Arc<Value>>,
}

/// All objects.
#[derive(Debug, Default)]
pub struct Store {
    version: u64,
    made: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    history: VecDeque<Change>,
    /// Changes up to here are forgotten.
    forgotten: u64,
}

impl Store {
    /// The newest version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.objects.get(key).cloned()
    }

    /// All of a kind, by namespace and name.
    pub fn of(&self, kind: &'static Kind) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        let first = Key::of(kind, "", "");
        self.objects.range(first..).take_while(|(key, _)| key.plural == kind.plural)
    }

    /// What changed after a version.
    pub fn since(&self, version: u64) -> Result<impl Iterator<Item = &Change>, Refusal> {
        if version < self.forgotten {
            return Err(Refusal::expired());
        }
        let from = self.history.partition_point(|change| change.version <= version);
        Ok(self.history.range(from..))
    }

    /// Forgets what changed so far, as a server does after some minutes.
    pub fn forget_history(&mut self) {
        self.history.clear();
        self.forgotten = self.version;
    }

    /// Stores a new object.
    pub fn create(
        &mut self,
        kind: &'static Kind,
        key: &Key,
        object: Value,
        now: Timestamp,
    ) -> Result<Arc<Value>, Refusal> {
        if self.objects.contains_key(key) {
            return Err(Refusal::already_exists(&spoken(key)));
        }
        self.made += 1;
        let uid = format!("00000000-0000-4000-8000-{:012}", self.made);
        let object = write::created(kind, object, &uid, &stamp(now))?;
        Ok(self.put(key, object))
    }

    /// Stores an object as it is, as a backup of the store puts it back.
    pub fn restore(&mut self, kind: &'static Kind, object: Value) {
        let text = |path| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let key = Key::of(kind, text("/metadata/namespace"), text("/metadata/name"));
        self.put(&key, object);
    }

    /// Changes an object, by a function of what it was.
    pub fn change(
        &mut self,
        key: &Key,
        change: impl FnOnce(&Value) -> Result<Value, Refusal>,
    ) -> Result<Arc<Value>, Refusal> {
        let old = self.get(key).ok_or_else(|| Refusal::not_found(&spoken(key)))?;
        let new = change(&old)?;
        if new == *old {
            return Ok(old);
        }
        if delete::is_done(&new) {
            return Ok(self.remove(key, old));
        }
        Ok(self.put(key, new))
    }

    /// Replaces an object or its status.
    pub fn replace(
        &mut self,
        kind: &Kind,
        key: &Key,
        new: Value,
        part: Part,
    ) -> Result<Arc<Value>, Refusal> {
        self.change(key, |old| write::replaced(kind, old, new, part))
    }

    /// Changes an object or its status by a merge patch.
    pub fn patch(
        &mut self,
        kind: &Kind,
        key: &Key,
        patch: &Value,
        part: Part,
    ) -> Result<Arc<Value>, Refusal> {
        self.change(key, |old| write::patched(kind, old, patch, part))
    }

    /// Deletes an object or marks it. Tells what is left of it.
    pub fn delete(
        &mut self,
        kind: &Kind,
        key: &Key,
        options: &Value,
        now: Timestamp,
    ) -> Result<Option<Arc<Value>>, Refusal> {
        let old = self.get(key).ok_or_else(|| Refusal::not_found(&spoken(key)))?;
        Ok(match delete::deleted(kind, &old, options, second(now))? {
            Left::Nothing => {
                self.remove(key, old);
                None
            }
            Left::Marked(new) => Some(self.put(key, new)),
            Left::Unchanged => Some(old),
        })
    }

    fn put(&mut self, key: &Key, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let after = Arc::new(object);
        let before = self.objects.insert(key.clone(), after.clone());
        self.note(key, before, Some(after.clone()));
        after
    }

    fn remove(&mut self, key: &Key, old: Arc<Value>) -> Arc<Value> {
        self.version += 1;
        self.objects.remove(key);
        self.note(key, Some(old.clone()), None);
        old
    }

    fn note(&mut self, key: &Key, before: Option<Arc<Value>>, after: Option<Arc<Value>>) {
        let version = self.version;
        self.history.push_back(Change { version, key: key.clone(), before, after });
    }
}

/// As the server writes times: whole seconds.
#[must_use]
pub fn stamp(now: Timestamp) -> String {
    second(now).to_string()
}

fn second(now: Timestamp) -> Timestamp {
    // Cutting to seconds stays within the range.
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

fn spoken(key: &Key) -> String {
    format!("{} {:?}", key.plural, key.name)
}
