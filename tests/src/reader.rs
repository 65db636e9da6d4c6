//! Reads objects of a cluster. Tests look many times a second: over one connection a look costs a
//! thousandth of what a kubectl costs.

use std::{fmt, time::Duration};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
    core::{
        Request,
        params::{GetParams, ListParams},
    },
};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::{playground::Access, program::Failure};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is asked again when a connection breaks, as one does that outlived its server.
const TRIES: usize = 3;

/// A client, and what it runs on.
pub(crate) struct Reader {
    runtime: Runtime,
    client: Client,
}

impl fmt::Debug for Reader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Reader")
    }
}

/// Where objects of a kind lie; `None` for kinds that nobody has asked for yet.
fn place(namespace: &str, kind: &str) -> Option<String> {
    let ours = "/apis/leasehold.dev/v1alpha1";
    let plural = if kind.ends_with('s') { kind.to_owned() } else { format!("{kind}s") };
    Some(match plural.as_str() {
        "nodes" => "/api/v1/nodes".to_owned(),
        "clusterroles" => "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
        "roles" => format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles"),
        "pods" | "events" => format!("/api/v1/namespaces/{namespace}/{plural}"),
        "gpucards" => format!("{ours}/{plural}"),
        "gpujobs" | "gpuleases" | "gpurequests" => {
            format!("{ours}/namespaces/{namespace}/{plural}")
        }
        _ => return None,
    })
}

impl Reader {
    pub(crate) fn new(access: &Access) -> Result<Self, Failure> {
        let failed = |error: &dyn fmt::Display| Failure {
            doing: "connect to the API server".to_owned(),
            said: error.to_string(),
        };
        // Fails only when it is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let client = runtime.block_on(async {
            let mut config = match access {
                Access::Kubeconfig(file) => {
                    let file = Kubeconfig::read_from(file).map_err(|error| failed(&error))?;
                    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await
                }
                Access::Context(name) => {
                    let context = Some(name.clone());
                    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
                    Config::from_kubeconfig(&options).await
                }
            }
            .map_err(|error| failed(&error))?;
            config.read_timeout = Some(PATIENCE);
            Client::try_from(config).map_err(|error| failed(&error))
        })?;
        Ok(Self { runtime, client })
    }

    /// An object, or `None` when there is none.
    pub(crate) fn get(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<Value>, Failure> {
        self.ask(namespace, kind, &format!("read {kind} {namespace}/{name}"), |place| {
            Request::new(place).get(name, &GetParams::default())
        })
    }

    /// All objects of a kind in a namespace.
    pub(crate) fn list(&self, namespace: &str, kind: &str) -> Result<Vec<Value>, Failure> {
        let list = self.ask(namespace, kind, &format!("list {kind} of {namespace}"), |place| {
            Request::new(place).list(&ListParams::default())
        })?;
        let items = list.and_then(|list| list.get("items")?.as_array().cloned());
        Ok(items.unwrap_or_default())
    }

    fn ask(
        &self,
        namespace: &str,
        kind: &str,
        doing: &str,
        request: impl Fn(String) -> Result<hyper::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Option<Value>, Failure> {
        let failed = |said: String| Failure { doing: doing.to_owned(), said };
        let place = place(namespace, kind)
            .ok_or_else(|| failed(format!("the reader does not know where {kind} lie")))?;
        let mut last = None;
        for _ in 0..TRIES {
            let request = request(place.clone()).map_err(|error| failed(error.to_string()))?;
            match self.runtime.block_on(self.client.request::<Value>(request)) {
                Ok(answer) => return Ok(Some(answer)),
                Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(None),
                Err(error @ kube::Error::Api(_)) => return Err(failed(error.to_string())),
                Err(error) => last = Some(error),
            }
        }
        Err(failed(last.map(|error| error.to_string()).unwrap_or_default()))
    }
}
