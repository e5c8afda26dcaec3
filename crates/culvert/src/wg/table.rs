//! The status for people, in the manner of `wg show`.

use super::status::{BATCH_KINDS, BatchKind, Peer, Status};
use culvert_wire::Timestamp;
use std::fmt::{Display, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// `status` as text. With `earlier`, an older status of the same interface, throughput is shown.
pub(crate) fn render(status: &Status, earlier: Option<&Status>, now: SystemTime) -> String {
    let mut text = Text(String::new());
    let period_ms = earlier.and_then(|earlier| {
        // Less than before: the interface was started anew in between.
        status
            .uptime_ms
            .checked_sub(earlier.uptime_ms)
            .filter(|&period| period > 0)
    });
    let rate_of = |now: fn(&Status) -> u64| {
        let (earlier, period_ms) = (earlier?, period_ms?);
        Some(rate(now(status).saturating_sub(now(earlier)), period_ms))
    };
    interface(status, &mut text);
    let received = rate_of(|status| status.peers.iter().map(|peer| peer.received_bytes).sum());
    let sent = rate_of(|status| status.peers.iter().map(|peer| peer.sent_bytes).sum());
    text.throughput(received, sent);
    batches(status, &mut text);
    drops(status, &mut text);
    for peer in &status.peers {
        let same = |other: &&Peer| other.public_key == peer.public_key;
        let before = earlier.and_then(|earlier| earlier.peers.iter().find(same));
        let period = before.zip(period_ms);
        self::peer(peer, period, &status.cipher, now, &mut text);
    }
    text.0.push('\n');
    text.0
}

fn interface(status: &Status, text: &mut Text) {
    text.heading("interface", &status.interface);
    text.field(
        "public key",
        status.public_key.as_deref().unwrap_or("(none)"),
    );
    text.field("listening port", status.listen_port);
    if status.fwmark != 0 {
        text.field("fwmark", format_args!("{:#x}", status.fwmark));
    }
    text.field("cipher", &status.cipher);
    let state = if status.is_up { "up" } else { "down" };
    let (mtu, version) = (status.mtu_bytes, &status.version);
    text.field(
        "link",
        format_args!("{state}, MTU {mtu}, culvert {version}"),
    );
    if let Some(why) = &status.down_because {
        text.field("link down", why);
    }
    if let Some(problem) = &status.loop_problem {
        text.field("loop", problem);
    }
    text.field("workers", status.workers.len());
    let on = status.offloads.iter().filter(|offload| offload.is_on);
    let on: Vec<&str> = on.map(|offload| offload.name.as_str()).collect();
    text.field(
        "offloads",
        if on.is_empty() {
            "none".to_owned()
        } else {
            on.join(", ")
        },
    );
    for offload in status.offloads.iter().filter(|offload| !offload.is_on) {
        let why = offload.off_because.as_deref().unwrap_or("not known");
        text.field("offload off", format_args!("{}: {why}", offload.name));
    }
}

fn batches(status: &Status, text: &mut Text) {
    for BatchKind { name, of } in BATCH_KINDS {
        let packets: u64 = status.workers.iter().map(|worker| of(worker).packets).sum();
        let count: u64 = status.workers.iter().map(|worker| of(worker).count()).sum();
        let Some(tenths) = packets.saturating_mul(10).checked_div(count) else {
            continue;
        };
        let mean = format!("{}.{}", tenths / 10, tenths % 10);
        text.field(
            "batch",
            format_args!("{name}: {mean} packets in {count} batches"),
        );
    }
}

fn drops(status: &Status, text: &mut Text) {
    for drop in status.drops.iter().filter(|drop| drop.count > 0) {
        text.field(
            "dropped",
            format_args!("{} {}: {}", drop.stage, drop.reason, drop.count),
        );
    }
}

/// WireGuard stamps handshakes by the machine's clock: one that was set back shuts the machine out at peers that it spoke to.
fn none_yet(now: SystemTime) -> String {
    let unix = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let clock = Timestamp::from_unix_ms(u64::try_from(unix.as_millis()).unwrap_or_default());
    format!(
        "none; handshakes carry this machine's time ({clock}), and a peer that has seen a later one refuses them"
    )
}

/// `before` is the peer at the beginning of a period of so many milliseconds.
fn peer(
    peer: &Peer,
    before: Option<(&Peer, u64)>,
    interface_cipher: &str,
    now: SystemTime,
    text: &mut Text,
) {
    text.0.push('\n');
    text.heading("peer", &peer.public_key);
    if peer.has_preshared_key {
        text.field("preshared key", "(hidden)");
    }
    if peer.cipher != interface_cipher {
        text.field("cipher", &peer.cipher);
    }
    if let Some(endpoint) = &peer.endpoint {
        text.field("endpoint", endpoint);
    }
    if let Some(source) = &peer.source {
        text.field("source address", source);
    }
    let none = peer.allowed_ips.is_empty();
    text.field(
        "allowed ips",
        if none {
            "(none)".to_owned()
        } else {
            peer.allowed_ips.join(", ")
        },
    );
    match peer.last_handshake_unix_seconds {
        Some(time) => text.field("latest handshake", ago(time, now)),
        None if peer.endpoint.is_some() => text.field("latest handshake", none_yet(now)),
        None => {}
    }
    if let Some(us) = peer.round_trip_us {
        let ms = us as f64 / 1e3;
        text.field("round trip", format_args!("{ms:.1} ms, by handshakes"));
    }
    if peer.sent_bytes > 0 || peer.received_bytes > 0 {
        let (received, sent) = (bytes(peer.received_bytes), bytes(peer.sent_bytes));
        text.field("transfer", format_args!("{received} received, {sent} sent"));
        let received = before.map(|(before, period_ms)| {
            rate(
                peer.received_bytes.saturating_sub(before.received_bytes),
                period_ms,
            )
        });
        let sent = before.map(|(before, period_ms)| {
            rate(peer.sent_bytes.saturating_sub(before.sent_bytes), period_ms)
        });
        text.throughput(received, sent);
    }
    if let Some(seconds) = peer.keepalive_seconds {
        text.field(
            "persistent keepalive",
            format_args!("every {seconds} seconds"),
        );
    }
    if peer.is_segmentation_refused {
        text.field("path", "refuses segmented sends: datagrams go one by one");
    }
    if let Some(mtu) = peer.path_mtu_bytes {
        text.field(
            "path",
            format_args!("MTU {mtu}, too small for full-size packets"),
        );
    }
}

struct Text(String);

impl Text {
    fn heading(&mut self, what: &str, which: &str) {
        self.line(format_args!("{what}: {which}"));
    }

    fn field(&mut self, name: &str, value: impl Display) {
        self.line(format_args!("  {name}: {value}"));
    }

    fn throughput(&mut self, received: Option<u64>, sent: Option<u64>) {
        if let (Some(received), Some(sent)) = (received, sent) {
            let (received, sent) = (bits(received), bits(sent));
            self.field(
                "throughput",
                format_args!("{received} received, {sent} sent"),
            );
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("writing to a string does not fail");
    }
}

/// Bits per second.
fn rate(bytes: u64, period_ms: u64) -> u64 {
    let bits = u128::from(bytes) * 8 * 1000 / u128::from(period_ms.max(1));
    u64::try_from(bits).unwrap_or(u64::MAX)
}

/// `1.50 GiB`, as `wg` writes sizes.
fn bytes(count: u64) -> String {
    scaled(
        count,
        1024,
        &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"],
    )
}

/// `1.50 Gbit/s`.
fn bits(per_second: u64) -> String {
    let units = [
        "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", "Pbit/s", "Ebit/s",
    ];
    scaled(per_second, 1000, &units)
}

/// `value` with two digits after the point in the largest unit that leaves something before it.
fn scaled(value: u64, base: u64, units: &[&str; 7]) -> String {
    let mut unit = 0;
    let mut size: u64 = 1;
    while unit + 1 < units.len() && value / size >= base {
        unit += 1;
        size *= base;
    }
    if unit == 0 {
        return format!("{value} {}", units[0]);
    }
    let hundredths = u128::from(value % size) * 100 / u128::from(size);
    format!("{}.{hundredths:02} {}", value / size, units[unit])
}

/// `2 minutes, 3 seconds ago`.
fn ago(unix_seconds: u64, now: SystemTime) -> String {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // A clock that was set back.
    let Some(mut left) = now.checked_sub(unix_seconds) else {
        return "in the future".to_owned();
    };
    if left == 0 {
        return "now".to_owned();
    }
    let mut parts = Vec::new();
    for (unit, seconds) in [
        ("day", 86_400),
        ("hour", 3600),
        ("minute", 60),
        ("second", 1),
    ] {
        let count = left / seconds;
        left %= seconds;
        if count > 0 {
            parts.push(format!(
                "{count} {unit}{}",
                if count == 1 { "" } else { "s" }
            ));
        }
    }
    format!("{} ago", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::status::{Batches, Drops, Offload, Worker};
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_status_reads_like_wg_show() {
        let text = render(&status(1_000, 0), None, at(1_700_000_063));
        let expected = "\
interface: wg0
  public key: (none)
  listening port: 51820
  fwmark: 0xca6c
  cipher: chacha20poly1305
  link: up, MTU 1420, culvert 0.1.0
  workers: 1
  offloads: tso4
  offload off: uso4: not offered by this kernel
  batch: sealed: 40.5 packets in 2 batches
  dropped: open replayed: 3

peer: AAAA
  preshared key: (hidden)
  cipher: aes256gcm
  endpoint: 192.0.2.1:51820
  allowed ips: 10.0.0.0/8, fd00::/8
  latest handshake: 1 minute, 3 seconds ago
  transfer: 0 B received, 2.00 KiB sent
  persistent keepalive: every 25 seconds

";
        assert_eq!(text, expected);
    }

    #[test]
    fn throughput_is_the_difference_of_two_samples() {
        let text = render(&status(1_500, 62_500_000), Some(&status(1_000, 0)), at(0));
        let line = "  throughput: 1.00 Gbit/s received, 0 bit/s sent\n";
        assert_eq!(text.matches(line).count(), 2, "{text}");
        let restarted = render(&status(10, 5), Some(&status(1_000, 0)), at(0));
        assert!(!restarted.contains("throughput"));
    }

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(u64::MAX), "15.99 EiB");
        assert_eq!(bits(999_999), "999.99 kbit/s");
        assert_eq!(rate(u64::MAX, 1), u64::MAX);
        assert_eq!(ago(0, at(90_061)), "1 day, 1 hour, 1 minute, 1 second ago");
        assert_eq!(ago(5, at(5)), "now");
        assert_eq!(ago(6, at(5)), "in the future");
    }

    fn at(unix_seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(unix_seconds)
    }

    fn status(uptime_ms: u64, received_bytes: u64) -> Status {
        let offload = |name: &str, off_because: Option<&str>| Offload {
            name: name.to_owned(),
            is_on: off_because.is_none(),
            off_because: off_because.map(ToOwned::to_owned),
        };
        let worker = Worker {
            sealed: Batches {
                packets: 81,
                counts_by_power_of_two: vec![1, 0, 0, 0, 0, 0, 1, 0],
            },
            ..Worker::default()
        };
        let drop = |reason: &str, count| Drops {
            stage: "open".to_owned(),
            reason: reason.to_owned(),
            count,
        };
        Status {
            version: "0.1.0".to_owned(),
            interface: "wg0".to_owned(),
            uptime_ms,
            listen_port: 51820,
            fwmark: 51820,
            is_up: true,
            down_because: None,
            loop_problem: None,
            mtu_bytes: 1420,
            cipher: "chacha20poly1305".to_owned(),
            offloads: vec![
                offload("tso4", None),
                offload("uso4", Some("not offered by this kernel")),
            ],
            workers: vec![worker],
            drops: vec![drop("replayed", 3), drop("not_authentic", 0)],
            peers: vec![Peer {
                public_key: "AAAA".to_owned(),
                endpoint: Some("192.0.2.1:51820".to_owned()),
                allowed_ips: vec!["10.0.0.0/8".to_owned(), "fd00::/8".to_owned()],
                cipher: "aes256gcm".to_owned(),
                has_preshared_key: true,
                keepalive_seconds: Some(25),
                last_handshake_unix_seconds: Some(1_700_000_000),
                sent_bytes: 2048,
                received_bytes,
                ..Peer::default()
            }],
            ..Status::default()
        }
    }
}
