//! The kinds of objects that are made, watched and deleted, and how they are found.

use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PartialObjectMeta,
    },
};
use serde_json::Value;

use crate::Failure;

/// A kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    group: &'static str,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
}

const fn kind(
    group: &'static str,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
) -> Kind {
    Kind { group, version, name, plural }
}

pub(crate) const POD: Kind = kind("", "v1", "Pod", "pods");
pub(crate) const JOB: Kind = kind("batch", "v1", "Job", "jobs");
pub(crate) const GPU_JOB: Kind = kind("leasehold.dev", "v1alpha1", "GpuJob", "gpujobs");
pub(crate) const GPU_LEASE: Kind = kind("leasehold.dev", "v1alpha1", "GpuLease", "gpuleases");
pub(crate) const WORKLOAD: Kind = kind("kueue.x-k8s.io", "v1beta2", "Workload", "workloads");

impl Kind {
    /// Objects of this kind in a namespace.
    pub(crate) fn within(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &self.resource())
    }

    /// The same, without what is in them.
    pub(crate) fn names_within(
        self,
        client: &Client,
        namespace: &str,
    ) -> Api<PartialObjectMeta<DynamicObject>> {
        Api::namespaced_with(client.clone(), namespace, &self.resource())
    }

    /// How many there are in a namespace.
    pub(crate) async fn count(self, client: &Client, namespace: &str) -> Result<usize, Failure> {
        let api = self.names_within(client, namespace);
        Ok(api.list(&ListParams::default()).await?.items.len())
    }

    /// Asks for the end of all in a namespace.
    pub(crate) async fn delete_all(self, client: &Client, namespace: &str) -> Result<(), Failure> {
        let api: Api<DynamicObject> = self.within(client, namespace);
        api.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        Ok(())
    }

    /// An object of this kind from its JSON.
    pub(crate) fn object(self, content: Value) -> Result<DynamicObject, Failure> {
        let mut object: DynamicObject = serde_json::from_value(content)?;
        let resource = self.resource();
        object.types =
            Some(kube::core::TypeMeta { api_version: resource.api_version, kind: resource.kind });
        Ok(object)
    }

    fn resource(self) -> ApiResource {
        let kind = GroupVersionKind::gvk(self.group, self.version, self.name);
        ApiResource::from_gvk_with_plural(&kind, self.plural)
    }
}
