//! The status as Prometheus metrics, in the text format 0.0.4 or as OpenMetrics 1.0.

use super::status::{BATCH_KINDS, BatchKind, Status, Worker};
use crate::exposition::{self, Exposition, Format};
use crate::http::{Request, Response};

/// Answers a collector. `status` may have nothing to show when the interface is ending.
pub(crate) fn answer(request: Request<'_>, status: impl Fn() -> Option<Status>) -> Response {
    match request.path {
        "/metrics" => exposition::answer(request, |format| {
            status().map(|status| render(&status, format))
        }),
        _ => Response::not_found("metrics are at /metrics\n"),
    }
}

/// All metrics of an interface.
pub(crate) fn render(status: &Status, format: Format) -> String {
    let labels = vec![("interface", status.interface.as_str())];
    let mut text = Exposition::new("culvert_wg", labels, format);
    interface(status, &mut text);
    drops(status, &mut text);
    handshakes(status, &mut text);
    peers(status, &mut text);
    for counter in WORKER_COUNTERS {
        counter.render(&status.workers, &mut text);
    }
    batches(&status.workers, &mut text);
    text.finish()
}

fn interface(status: &Status, text: &mut Exposition<'_>) {
    text.gauge("info", "Version, cipher and key of the interface.");
    let public_key = status.public_key.as_deref().unwrap_or_default();
    let labels = [
        ("version", status.version.as_str()),
        ("cipher", &status.cipher),
        ("public_key", public_key),
    ];
    text.sample("info", &labels, 1);
    text.gauge("up", "Whether the link is up.");
    text.sample("up", &[], u8::from(status.is_up));
    text.gauge("uptime_seconds", "Time since the start.");
    text.seconds("uptime_seconds", &[], status.uptime_ms);
    text.gauge("mtu_bytes", "MTU of the interface.");
    text.sample("mtu_bytes", &[], status.mtu_bytes);
    text.gauge("workers", "Packet workers.");
    text.sample("workers", &[], status.workers.len());
    text.gauge("offload_enabled", "Whether an offload is in use.");
    for offload in &status.offloads {
        let labels = [("offload", offload.name.as_str())];
        text.sample("offload_enabled", &labels, u8::from(offload.is_on));
    }
}

fn drops(status: &Status, text: &mut Exposition<'_>) {
    text.counter(
        "drops",
        "Packets, records and datagrams that were not passed on.",
    );
    for drop in &status.drops {
        let labels = [("stage", drop.stage.as_str()), ("reason", &drop.reason)];
        text.sample("drops_total", &labels, drop.count);
    }
}

fn handshakes(status: &Status, text: &mut Exposition<'_>) {
    text.counter(
        "handshake_messages",
        "Handshake messages by what became of them.",
    );
    for (outcome, count) in [
        ("sent", status.handshakes.sent),
        ("received", status.handshakes.received),
        ("send_failed", status.handshakes.send_failures),
    ] {
        text.sample("handshake_messages_total", &[("outcome", outcome)], count);
    }
    text.counter(
        "generation_changes",
        "Times all sessions began anew because this machine may be a copy.",
    );
    text.sample("generation_changes_total", &[], status.generation_changes);
}

fn peers(status: &Status, text: &mut Exposition<'_>) {
    text.counter(
        "peer_sent_bytes",
        "Bytes sent to the peer, headers included.",
    );
    for peer in &status.peers {
        let labels = [("peer", peer.public_key.as_str())];
        text.sample("peer_sent_bytes_total", &labels, peer.sent_bytes);
    }
    text.counter(
        "peer_received_bytes",
        "Bytes received from the peer, headers included.",
    );
    for peer in &status.peers {
        let labels = [("peer", peer.public_key.as_str())];
        text.sample("peer_received_bytes_total", &labels, peer.received_bytes);
    }
    let name = "peer_last_handshake_timestamp_seconds";
    text.gauge(
        name,
        "Unix time of the latest handshake, 0 where there was none.",
    );
    for peer in &status.peers {
        let time = peer.last_handshake_unix_seconds.unwrap_or(0);
        text.sample(name, &[("peer", peer.public_key.as_str())], time);
    }
}

/// A counter that each worker keeps.
struct WorkerCounter {
    name: &'static str,
    help: &'static str,
    read: fn(&Worker) -> u64,
}

impl WorkerCounter {
    const fn new(name: &'static str, help: &'static str, read: fn(&Worker) -> u64) -> Self {
        Self { name, help, read }
    }

    fn render(&self, workers: &[Worker], text: &mut Exposition<'_>) {
        let family = format!("worker_{}", self.name);
        text.counter(&family, self.help);
        for (number, worker) in workers.iter().enumerate() {
            let labels = [("worker", &*number.to_string())];
            text.sample(&format!("{family}_total"), &labels, (self.read)(worker));
        }
    }
}

const BUSY_POLLS: WorkerCounter = WorkerCounter::new(
    "busy_polls",
    "Polls for the answer to a priority packet, without sleep.",
    |w| w.busy_polls,
);
const BUSY_POLLS_ANSWERED: WorkerCounter = WorkerCounter::new(
    "busy_polls_answered",
    "Busy polls that brought something.",
    |w| w.busy_polls_answered,
);
const MID_TURN: WorkerCounter =
    WorkerCounter::new("mid_turn", "Priority datagrams carried in mid-turn.", |w| {
        w.mid_turn
    });
const PINNED: WorkerCounter =
    WorkerCounter::new("pinned", "Times it pinned itself to its processor.", |w| {
        w.pinned
    });

const WORKER_COUNTERS: [WorkerCounter; 24] = [
    WorkerCounter::new("turns", "Turns of the loop.", |w| w.turns),
    WorkerCounter::new("sleeps", "Times without work.", |w| w.sleeps),
    WorkerCounter::new("pauses", "Pauses under a stream of UDP packets.", |w| {
        w.pauses
    }),
    BUSY_POLLS,
    BUSY_POLLS_ANSWERED,
    MID_TURN,
    PINNED,
    // Earlier names of the same, for one version.
    WorkerCounter {
        name: "looks",
        ..BUSY_POLLS
    },
    WorkerCounter {
        name: "looks_answered",
        ..BUSY_POLLS_ANSWERED
    },
    WorkerCounter {
        name: "attended",
        ..MID_TURN
    },
    WorkerCounter {
        name: "stays",
        ..PINNED
    },
    WorkerCounter::new("tun_frames_received", "Frames read from the TUN.", |w| {
        w.tun_frames_received
    }),
    WorkerCounter::new("tun_frames_sent", "Frames written to the TUN.", |w| {
        w.tun_frames_sent
    }),
    WorkerCounter::new("udp_sends", "UDP send calls.", |w| w.udp_sends),
    WorkerCounter::new("udp_receives", "UDP receive calls.", |w| w.udp_receives),
    WorkerCounter::new(
        "frames_joined",
        "Frames that left in the batch of one before them.",
        |w| w.frames_joined,
    ),
    WorkerCounter::new(
        "udp_receive_failures",
        "UDP receive calls that failed.",
        |w| w.udp_receive_failures,
    ),
    WorkerCounter::new("udp_blocked", "Times the UDP socket was full.", |w| {
        w.udp_blocked
    }),
    WorkerCounter::new("turn_waits", "Waits for another worker's batch.", |w| {
        w.turn_waits
    }),
    WorkerCounter::new("segmentation_refused", "Sends repeated one by one.", |w| {
        w.segmentation_refused
    }),
    WorkerCounter::new("superframe_refused", "Superframes written again.", |w| {
        w.superframe_refused
    }),
    WorkerCounter::new("icmp_sent", "ICMP messages to the inside.", |w| w.icmp_sent),
    WorkerCounter::new(
        "queue_marked",
        "Packets marked because their queue stood for too long (RFC 8289).",
        |w| w.queue_marked,
    ),
    WorkerCounter::new("congestion_marked", "Marks taken from outside.", |w| {
        w.congestion_marked
    }),
];

fn batches(workers: &[Worker], text: &mut Exposition<'_>) {
    text.family(
        "batch_packets",
        "histogram",
        "How many packets travelled together: cut from one TUN frame, sealed and sent, received, \
         coalesced into one TUN frame.",
    );
    for BatchKind { name: kind, of } in BATCH_KINDS {
        let buckets = workers
            .iter()
            .map(|worker| of(worker).counts_by_power_of_two.len());
        let buckets = buckets.max().unwrap_or(0);
        let in_bucket = |bucket: usize| -> u64 {
            let counts = workers
                .iter()
                .map(|worker| &of(worker).counts_by_power_of_two);
            counts.filter_map(|counts| counts.get(bucket)).sum()
        };
        let mut count = 0;
        for bucket in 0..buckets {
            count += in_bucket(bucket);
            // The last bucket has no upper bound.
            if bucket + 1 < buckets {
                let most = format!("{}.0", (2u64 << bucket) - 1);
                let labels = [("kind", kind), ("le", most.as_str())];
                text.sample("batch_packets_bucket", &labels, count);
            }
        }
        text.sample(
            "batch_packets_bucket",
            &[("kind", kind), ("le", "+Inf")],
            count,
        );
        let packets: u64 = workers.iter().map(|worker| of(worker).packets).sum();
        text.sample("batch_packets_sum", &[("kind", kind)], packets);
        text.sample("batch_packets_count", &[("kind", kind)], count);
    }
}

#[cfg(test)]
mod tests {
    use super::super::status::{Batches, Drops, Peer};
    use super::*;
    use crate::exposition::tests::assert_well_formed;
    use crate::http::tests::ask;

    #[test]
    fn drops_carry_stage_and_reason() {
        let text = render(&status(), Format::Prometheus);
        let line = r#"culvert_wg_drops_total{interface="wg\"0",stage="open",reason="replayed"} 7"#;
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn batch_sizes_are_a_cumulative_histogram_over_all_workers() {
        let text = render(&status(), Format::OpenMetrics);
        let samples: Vec<&str> = text
            .lines()
            .filter(|line| line.contains(r#"kind="sealed""#))
            .filter_map(|line| line.split_once(r#"kind="sealed""#)?.1.strip_prefix(','))
            .collect();
        assert_eq!(
            samples,
            [r#"le="1.0"} 2"#, r#"le="3.0"} 2"#, r#"le="+Inf"} 8"#]
        );
        assert!(text.contains(r#"_sum{interface="wg\"0",kind="sealed"} 27"#));
        assert!(text.contains(r#"_count{interface="wg\"0",kind="sealed"} 8"#));
    }

    #[test]
    fn only_open_metrics_names_counter_families_without_total() {
        let prometheus = render(&status(), Format::Prometheus);
        assert!(prometheus.contains("# TYPE culvert_wg_drops_total counter"));
        let open = render(&status(), Format::OpenMetrics);
        assert!(open.contains("# TYPE culvert_wg_drops counter"));
    }

    #[test]
    fn the_text_is_well_formed() {
        let text = render(&status(), Format::OpenMetrics);
        assert!(assert_well_formed(&text) > 30);
    }

    #[test]
    fn metrics_are_served_in_the_format_the_collector_accepts() {
        let plain = asked("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Some(&status()));
        assert!(plain.starts_with("HTTP/1.1 200 OK\r\n"), "{plain}");
        assert!(plain.contains("Content-Type: text/plain; version=0.0.4"));
        assert!(!plain.contains("# EOF"));
        let open = asked(
            "GET /metrics?a=b HTTP/1.1\r\nACCEPT: application/openmetrics-text; version=1.0.0\r\n\r\n",
            Some(&status()),
        );
        assert!(open.contains("Content-Type: application/openmetrics-text; version=1.0.0"));
        assert!(open.ends_with("# EOF\n"));
    }

    #[test]
    fn nothing_else_is_served_and_an_ending_interface_is_unavailable() {
        let other = asked("GET /metricsx HTTP/1.1\r\n\r\n", Some(&status()));
        assert!(other.starts_with("HTTP/1.1 404 "));
        let ending = asked("GET /metrics HTTP/1.1\r\n\r\n", None);
        assert!(ending.starts_with("HTTP/1.1 503 "));
    }

    fn asked(request: &str, status: Option<&Status>) -> String {
        ask(request, &|request| answer(request, || status.cloned()))
    }

    fn status() -> Status {
        let batches = |counts: [u64; 3], packets| Batches {
            packets,
            counts_by_power_of_two: counts.to_vec(),
        };
        let worker = |sealed| Worker {
            sealed,
            ..Worker::default()
        };
        Status {
            interface: "wg\"0".to_owned(),
            workers: vec![
                worker(batches([2, 0, 1], 7)),
                worker(batches([0, 0, 5], 20)),
            ],
            drops: vec![
                Drops {
                    stage: "open".to_owned(),
                    reason: "replayed".to_owned(),
                    count: 7,
                },
                Drops::default(),
            ],
            peers: vec![Peer::default()],
            ..Status::default()
        }
    }
}
