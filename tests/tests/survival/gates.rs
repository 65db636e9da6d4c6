//! Writes that hang at the API server, so that a moment between two writes lasts until the test has
//! done what it wants to do then.

use std::net::{TcpListener, TcpStream};

use leasehold_tests::{suite::Stage, waiting::wait_for};

use crate::LIMIT;

/// A write that hangs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) operation: &'static str,
    pub(crate) group: &'static str,
    /// With its part, for example `pods/binding`.
    pub(crate) resource: &'static str,
    /// Only if this holds of it (CEL).
    pub(crate) when: &'static str,
}

/// Asks `url` before it lets the writes of a namespace through.
fn webhook(namespace: &str, name: &str, write: &Write, url: &str) -> String {
    let Write { operation, group, resource, when } = write;
    format!(
        "- name: {name}.{namespace}.test
  clientConfig: {{url: \"{url}\"}}
  rules:
  - {{apiGroups: [\"{group}\"], apiVersions: [\"*\"], operations: [{operation}], resources: [{resource}]}}
  namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}
  matchConditions: [{{name: when, expression: '{when}'}}]
  failurePolicy: Fail
  sideEffects: None
  timeoutSeconds: 30
  admissionReviewVersions: [v1]
"
    )
}

/// Refused while the gates are shut, at an address where nobody listens.
const SIGN: Write = Write {
    operation: "CREATE",
    group: "",
    resource: "configmaps",
    when: "object.metadata.name == \"sign\"",
};

/// Somebody who takes connections and never answers, for each write.
#[derive(Debug)]
pub(crate) struct Gates<'a> {
    stage: &'a Stage,
    silent: Vec<(String, TcpListener)>,
}

impl<'a> Gates<'a> {
    /// Lets none of these writes through in their namespaces, which exist.
    pub(crate) fn shut(stage: &'a Stage, writes: &[(String, Write)]) -> Self {
        let (namespace, _) = writes.first().unwrap();
        let mut webhooks = webhook(namespace, "sign", &SIGN, "https://127.0.0.1:1/");
        let silent = writes.iter().map(|(namespace, write)| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            let url = format!("https://{}/", listener.local_addr().unwrap());
            webhooks.push_str(&webhook(namespace, "gate", write, &url));
            (namespace.clone(), listener)
        });
        let gates = Self { stage, silent: silent.collect() };
        let configuration = format!(
            "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{name: gates}}
webhooks:
{webhooks}"
        );
        stage.playground.apply("default", &configuration).unwrap();
        // The API server takes them in after a moment.
        wait_for("the gates are shut", LIMIT, || match gates.sign() {
            Ok(_) => Err("they are open".to_owned()),
            Err(refused) if refused.contains("failed calling webhook") => Ok(()),
            Err(other) => Err(other),
        });
        gates
    }

    fn sign(&self) -> Result<String, String> {
        let (namespace, _) = self.silent.first().unwrap();
        let arguments = ["create", "configmap", "sign", "--dry-run=server", "-n", namespace];
        self.stage.playground.kubectl(&arguments).map_err(|error| error.to_string())
    }

    /// Waits until each of them keeps somebody waiting. Whoever waits does so while what this gives is
    /// kept.
    pub(crate) fn until_all_are_waited_at(&self) -> Vec<TcpStream> {
        let waits = |(namespace, listener): &(String, TcpListener)| {
            wait_for(&format!("the write hangs in {namespace}"), LIMIT, || {
                listener.accept().map(|(waiting, _)| waiting)
            })
        };
        self.silent.iter().map(waits).collect()
    }

    pub(crate) fn open(self) {
        let arguments = ["delete", "validatingwebhookconfiguration", "gates"];
        self.stage.playground.kubectl(&arguments).unwrap();
        wait_for("the gates are open", LIMIT, || self.sign());
    }
}
