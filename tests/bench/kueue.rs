//! Kueue on the control plane that is measured: installed once, running only when it has its turn.
//!
//! Its webhook for Jobs is called for its own namespace only, so that Jobs of the Job controller's
//! turns do not pay for it. It is the administrator and has no limits of its own on requests.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use kube::{Client, Config};
use leasehold_tests::{playground::Playground, program::answer};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    Failure,
    contender::{Contender, QUEUE},
    ground::until_ready,
};

/// Webhooks of these groups are kept: of Jobs, and of Kueue's own kinds.
const GROUPS: [&str; 2] = ["batch", "kueue.x-k8s.io"];
/// The webhooks answer a moment after it says that it is ready.
const TRIES: u32 = 30;

/// Where Kueue looks for the certificate of its metrics, whatever its settings say.
const METRICS_CERTIFICATES: &str = "/etc/kueue/metrics/certs";

/// Kueue, installed.
pub(crate) struct Kueue {
    program: PathBuf,
    directory: PathBuf,
    health: u16,
}

/// A running Kueue; killed when dropped, and at the latest with its playground.
pub(crate) struct Running(Child);

impl Kueue {
    /// Definitions, certificate, webhooks, settings.
    pub(crate) fn install(playground: &Playground, built: &Path) -> Result<Self, Failure> {
        let definitions = built.join("crds");
        let definitions = definitions.to_string_lossy();
        playground.kubectl(&["apply", "--server-side", "-f", &definitions])?;
        let established = ["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"];
        playground.kubectl(&established)?;
        let directory = playground.directory().join("kueue");
        std::fs::create_dir(&directory)?;
        let authority = certificate(&directory)?;
        let (webhook, health) = (free_port()?, free_port()?);
        let hooks = built.join("webhooks.yaml");
        let hooks = hooks.to_string_lossy();
        let hooks = playground.kubectl(&["create", "--dry-run=client", "-o=json", "-f", &hooks])?;
        for configuration in serde_json::Deserializer::from_str(&hooks).into_iter::<Value>() {
            let configuration = adapted(configuration?, webhook, &authority).to_string();
            playground.kubectl_with(&["create", "-f", "-"], &configuration)?;
        }
        std::fs::write(
            directory.join("config.yaml"),
            settings(&directory, webhook, health).to_string(),
        )?;
        Ok(Self { program: built.join("kueue"), directory, health })
    }

    /// Starts it and waits until it is ready.
    pub(crate) async fn start(&self, playground: &Playground) -> Result<Running, Failure> {
        let kubeconfig = playground.kubeconfig().ok_or("the playground has no kubeconfig")?;
        let log = self.directory.join("kueue.log");
        let log = std::fs::File::options().create(true).append(true).open(log)?;
        let (variable, mark) = playground.mark()?;
        // A folder of /etc that only it sees.
        let script = "mount -t tmpfs tmpfs /etc && mkdir -p \"$1\" && cp \"$2\"/tls.* \"$1\" && shift 2 && exec \"$@\"";
        let child = Command::new("unshare")
            .args(["--mount", "sh", "-c", script, "sh", METRICS_CERTIFICATES])
            .arg(&self.directory)
            .arg(&self.program)
            .arg("--config")
            .arg(self.directory.join("config.yaml"))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--zap-log-level=error")
            .env(variable, mark)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let running = Running(child);
        let pages = Config::new(format!("http://127.0.0.1:{}", self.health).parse()?);
        until_ready(&Client::try_from(pages)?).await?;
        Ok(running)
    }

    /// A queue with more cards than are ever asked for.
    pub(crate) async fn make_queue(&self, playground: &Playground) -> Result<(), Failure> {
        let queue = queue();
        for _ in 0..TRIES {
            if playground.kubectl_with(&["apply", "-f", "-"], &queue).is_ok() {
                return Ok(());
            }
            sleep(Duration::from_secs(1)).await;
        }
        playground.kubectl_with(&["apply", "-f", "-"], &queue)?;
        Ok(())
    }
}

impl Running {
    /// The number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A certificate for loopback, in base64 as an API object wants it.
fn certificate(directory: &Path) -> Result<String, Failure> {
    let (key, certificate) = (directory.join("tls.key"), directory.join("tls.crt"));
    let mut make = Command::new("openssl");
    make.args([
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=kueue",
    ])
    .args(["-addext", "subjectAltName=IP:127.0.0.1", "-keyout"])
    .arg(key)
    .arg("-out")
    .arg(&certificate);
    answer(&mut make, "", "make a certificate for Kueue")?;
    let mut encode = Command::new("openssl");
    encode.args(["base64", "-A", "-in"]).arg(certificate);
    Ok(answer(&mut encode, "", "encode Kueue's certificate")?.trim().to_owned())
}

/// A port that is free now.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Webhooks that are served here and not in a cluster.
fn adapted(mut configuration: Value, port: u16, authority: &str) -> Value {
    let hooks = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
    let Some(hooks) = hooks else { return configuration };
    let group = |hook: &Value| hook.pointer("/rules/0/apiGroups/0")?.as_str().map(str::to_owned);
    hooks.retain(|hook| group(hook).is_some_and(|group| GROUPS.contains(&group.as_str())));
    for hook in hooks {
        let path = hook.pointer("/clientConfig/service/path").and_then(Value::as_str);
        let url = format!("https://127.0.0.1:{port}{}", path.unwrap_or_default());
        let is_of_jobs = group(hook).as_deref() == Some("batch");
        let Some(hook) = hook.as_object_mut() else { continue };
        hook.insert("clientConfig".into(), json!({"url": url, "caBundle": authority}));
        if is_of_jobs {
            let own = json!({"kubernetes.io/metadata.name": Contender::Kueue.namespace()});
            hook.insert("namespaceSelector".into(), json!({"matchLabels": own}));
        }
    }
    configuration
}

fn settings(directory: &Path, webhook: u16, health: u16) -> Value {
    json!({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": format!("127.0.0.1:{health}")},
        "metrics": {"bindAddress": "127.0.0.1:0"},
        "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": directory},
        "leaderElection": {"leaderElect": false},
        "internalCertManagement": {"enable": false},
        "clientConnection": {"qps": 5000, "burst": 5000},
        // More than its defaults, like the Job controller's here.
        "controller": {"groupKindConcurrency": {
            "Job.batch": 16, "Workload.kueue.x-k8s.io": 16, "LocalQueue.kueue.x-k8s.io": 1,
            "ClusterQueue.kueue.x-k8s.io": 1, "ResourceFlavor.kueue.x-k8s.io": 1,
        }},
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": false},
    })
}

fn queue() -> String {
    let version = "kueue.x-k8s.io/v1beta2";
    let cards = json!({"name": "nvidia.com/gpu", "nominalQuota": 100_000});
    let group = json!({
        "coveredResources": ["nvidia.com/gpu"],
        "flavors": [{"name": QUEUE, "resources": [cards]}],
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": QUEUE}, "spec": {}},
        {
            "apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": QUEUE},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            "apiVersion": version, "kind": "LocalQueue",
            "metadata": {"name": QUEUE, "namespace": Contender::Kueue.namespace()},
            "spec": {"clusterQueue": QUEUE},
        },
    ]})
    .to_string()
}
