//! Objects of one kind, grouped by the holder that they belong to. No I/O; fed by a watch.
//!
//! A kube store finds objects by name only; a pass needs all pods and leases of one holder, also
//! after the holder is gone.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kube::{ResourceExt, runtime::watcher::Event};
use leasehold_core::observed::Holder;

/// All objects of one kind that are known, by holder and name.
pub struct Index<K> {
    holder_of: fn(&K) -> Option<Holder>,
    inner: Mutex<Inner<K>>,
}

struct Inner<K> {
    groups: HashMap<Holder, BTreeMap<String, Arc<K>>>,
    /// What a list that is under way has named so far.
    listed: BTreeSet<(Holder, String)>,
}

impl<K: ResourceExt> Index<K> {
    /// An empty index; `holder_of` says whose an object is.
    pub fn new(holder_of: fn(&K) -> Option<Holder>) -> Self {
        Self {
            holder_of,
            inner: Mutex::new(Inner { groups: HashMap::new(), listed: BTreeSet::new() }),
        }
    }

    /// The objects of a holder, by name.
    pub fn of(&self, holder: &Holder) -> Vec<Arc<K>> {
        self.lock()
            .groups
            .get(holder)
            .map(|group| group.values().cloned().collect())
            .unwrap_or_default()
    }

    /// All holders that have an object.
    pub fn holders(&self) -> Vec<Holder> {
        self.lock().groups.keys().cloned().collect()
    }

    /// Takes in a watch event and tells whose objects changed.
    pub fn apply(&self, event: Event<K>) -> Vec<Holder> {
        let mut inner = self.lock();
        match event {
            Event::Apply(object) => self.put(&mut inner, object).into_iter().collect(),
            Event::Delete(object) => self.remove(&mut inner, &object).into_iter().collect(),
            Event::Init => {
                inner.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                let name = object.name_any();
                let holder = self.put(&mut inner, object);
                if let Some(holder) = &holder {
                    inner.listed.insert((holder.clone(), name));
                }
                holder.into_iter().collect()
            }
            Event::InitDone => drop_unlisted(&mut inner),
        }
    }

    fn put(&self, inner: &mut Inner<K>, mut object: K) -> Option<Holder> {
        let holder = (self.holder_of)(&object)?;
        object.managed_fields_mut().clear();
        let name = object.name_any();
        inner.groups.entry(holder.clone()).or_default().insert(name, Arc::new(object));
        Some(holder)
    }

    fn remove(&self, inner: &mut Inner<K>, object: &K) -> Option<Holder> {
        let holder = (self.holder_of)(object)?;
        if let Some(group) = inner.groups.get_mut(&holder) {
            group.remove(&object.name_any());
            if group.is_empty() {
                inner.groups.remove(&holder);
            }
        }
        Some(holder)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a finished list did not name is gone.
fn drop_unlisted<K>(inner: &mut Inner<K>) -> Vec<Holder> {
    let listed = std::mem::take(&mut inner.listed);
    let mut touched = Vec::new();
    for (holder, group) in &mut inner.groups {
        let before = group.len();
        group.retain(|name, _| listed.contains(&(holder.clone(), name.clone())));
        if group.len() != before {
            touched.push(holder.clone());
        }
    }
    inner.groups.retain(|_, group| !group.is_empty());
    touched
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn object(holder: &str, name: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.into());
        object.metadata.namespace = Some("ml".into());
        object.metadata.labels = Some([("holder".to_owned(), holder.to_owned())].into());
        object
    }

    fn index() -> Index<ConfigMap> {
        Index::new(|object| {
            let name = object.labels().get("holder")?.clone();
            Some(Holder { namespace: "ml".into(), name })
        })
    }

    fn names(index: &Index<ConfigMap>, holder: &str) -> Vec<String> {
        let holder = Holder { namespace: "ml".into(), name: holder.into() };
        index.of(&holder).iter().map(|object| object.name_any()).collect()
    }

    #[test]
    fn objects_come_and_go_with_their_holder() {
        let index = index();
        assert_eq!(index.apply(Event::Apply(object("train", "a"))).len(), 1);
        index.apply(Event::Apply(object("train", "b")));
        index.apply(Event::Apply(object("eval", "c")));
        assert_eq!(names(&index, "train"), ["a", "b"]);
        index.apply(Event::Delete(object("train", "a")));
        assert_eq!(names(&index, "train"), ["b"]);
    }

    #[test]
    fn a_new_list_drops_what_it_does_not_name() {
        let index = index();
        index.apply(Event::Apply(object("train", "a")));
        index.apply(Event::Apply(object("eval", "b")));
        index.apply(Event::Init);
        index.apply(Event::InitApply(object("train", "a")));
        let touched = index.apply(Event::InitDone);
        assert_eq!((names(&index, "train").len(), names(&index, "eval").len()), (1, 0));
        assert_eq!(touched.len(), 1);
    }

    #[test]
    fn a_list_that_breaks_off_drops_nothing() {
        let index = index();
        index.apply(Event::Apply(object("train", "a")));
        index.apply(Event::Init);
        index.apply(Event::Init);
        assert_eq!(names(&index, "train"), ["a"]);
    }
}
