//! What is served, without a cluster.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use leasehold_crds::Settings;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::{backlog::STUCK_AFTER, clock::Clock, health::Watched, leadership::Leadership};

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(12)
    }

    fn uptime(&self) -> Duration {
        Duration::ZERO
    }
}

/// An operator whose API server never answers.
fn context() -> Arc<Context> {
    led_by(Leadership::alone(Arc::new(Noon)))
}

fn led_by(leadership: Leadership) -> Arc<Context> {
    let silent = tower::service_fn(|_| {
        std::future::pending::<Result<Response<kube::client::Body>, std::io::Error>>()
    });
    let client = Client::new(silent, "default");
    let settings = Settings::default();
    let (clock, agent) = (Arc::new(Noon), "agent".to_owned());
    Arc::new(Context::new(client, clock, leadership, settings, agent, <_>::default()))
}

fn get(pages: &Pages, path: &str, query: Option<&str>) -> (u16, String) {
    let answer = pages.answer(&Method::GET, path, query).unwrap();
    (answer.status().as_u16(), answer.into_body())
}

#[tokio::test(start_paused = true)]
async fn liveness_is_about_the_loop_and_not_about_the_api_server() {
    let pages = Pages::of(context());
    assert_eq!(get(&pages, "/livez", None).0, 200);
    pages.context.backlog.turns();
    assert_eq!(get(&pages, "/livez", None).0, 200);
    tokio::time::advance(STUCK_AFTER + Duration::from_secs(5)).await;
    let (status, words) = get(&pages, "/livez", None);
    assert_eq!(status, 500);
    assert!(words.contains("has not turned for 65s"), "{words}");
}

#[tokio::test]
async fn readiness_names_what_is_missing_until_nothing_is() {
    let pages = Pages::of(context());
    let (status, words) = get(&pages, "/readyz", None);
    assert_eq!(status, 503);
    assert!(words.contains("[-] API server") && words.contains("[-] watch of GpuJob"), "{words}");
    let health = &pages.context.health;
    health.api_server(Noon.now(), Ok(()));
    for watched in Watched::ALL {
        health.watch_is_complete(*watched);
    }
    assert_eq!(get(&pages, "/readyz", None), (200, "ready\n".to_owned()));
    let (status, words) = get(&pages, "/readyz", Some("verbose"));
    assert_eq!(status, 200);
    assert!(words.contains("[+] watch of GpuJob: ok"), "{words}");
    health.ending();
    assert_eq!(get(&pages, "/readyz", None).0, 503);
}

#[tokio::test]
async fn metrics_have_names_helps_and_what_the_indexes_hold() {
    let context = context();
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "a", "labels": {
            "nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090", "nvidia.com/gpu.memory": "24564",
        }},
        "status": {
            "allocatable": {"nvidia.com/gpu": "4", "cpu": "8", "memory": "64Gi"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }))
    .unwrap();
    context.supply.node("a", Some(&node));
    context.metrics.pass("Done", Duration::from_millis(3));
    let (status, text) = get(&Pages::of(context), "/metrics", None);
    assert_eq!(status, 200);
    for line in [
        "# TYPE leasehold_build info",
        concat!("leasehold_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        "# HELP leasehold_passes Passes over a holder, by result.",
        "leasehold_passes_total{result=\"Done\"} 1",
        "leasehold_pass_duration_seconds_bucket{le=\"0.005\"} 1",
        "leasehold_watch_restarts_total{watch=\"jobs\",kind=\"GpuJob\"} 0",
        "leasehold_ready 0",
        "leasehold_leader 1",
        "leasehold_queue_depth 0",
        "leasehold_queue_oldest_seconds 0.0",
        "leasehold_leases{state=\"Held\"} 0",
        "leasehold_cards{card=\"rtx4090\"} 4",
        "leasehold_cards_held{card=\"rtx4090\"} 0",
        "leasehold_cards_free{card=\"rtx4090\"} 4",
    ] {
        assert!(text.lines().any(|had| had == line), "{line}\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn who_waits_for_its_turn_tells_of_itself_and_not_of_the_cluster() {
    let context = led_by(Leadership::elected(Arc::new(Noon)));
    let (_, text) = get(&Pages::of(context), "/metrics", None);
    for line in ["leasehold_leader 0", "leasehold_ready 0", "leasehold_queue_depth 0"] {
        assert!(text.lines().any(|had| had == line), "{line}\n{text}");
    }
    assert!(!text.contains("leasehold_leases{"), "{text}");
}

#[tokio::test]
async fn it_is_served_over_http_and_a_taken_address_is_refused_with_words() {
    let context = context();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let service = Service::listen(any, context.clone()).await.unwrap();
    let address = service.listener.local_addr().unwrap();
    tokio::spawn(service.run());
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: operator\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
    assert!(answer.contains("[-] API server"), "{answer}");
    let words = Service::listen(address, context).await.err().unwrap().to_string();
    assert!(words.contains(&address.to_string()) && words.contains("--listen none"), "{words}");
}

#[test]
fn an_address_is_an_ip_with_a_port_or_none() {
    assert_eq!("none".parse::<Listen>().unwrap(), Listen::Off);
    assert!(matches!("[::]:8080".parse::<Listen>().unwrap(), Listen::At(_)));
    for text in ["8080", "localhost:8080", ""] {
        assert!(text.parse::<Listen>().is_err(), "{text}");
    }
}
