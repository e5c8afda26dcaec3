//! A path and senders that mean harm.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use blake2::digest::{KeyInit, Mac};
use blake2::{Blake2s256, Blake2sMac, Digest};
use culvert_lab::measure::PingReport;
use culvert_lab::{Direction, Family, Link, LinkShape, Namespace, Relay, Subnet, wait_until};

use crate::support::{SOON, culvert_plan, culvert_tunnel, passes_traffic};

/// The UDP port of the relay.
const RELAY_PORT: u16 = 7000;

/// The peak memory that one end may need, whatever happens to it.
const PEAK_RSS_MAX_BYTES: u64 = 48 << 20;

/// A sequence of numbers that looks random and is the same each time (xorshift, Marsaglia 2003).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap_or(1)).unwrap_or(0)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

/// For each datagram a bit-flipped, a cut, a lengthened and a random one, then itself, twice.
fn torment(datagram: &[u8], seed: u64) -> Vec<Vec<u8>> {
    let mut noise = Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut flipped = datagram.to_vec();
    let position = noise.below(flipped.len());
    flipped[position] ^= 1 << noise.below(8);
    let cut = datagram[..noise.below(datagram.len())].to_vec();
    let lengthened = [datagram, &noise.bytes(16)].concat();
    let length = noise.below(1500);
    let random = noise.bytes(length);
    vec![
        flipped,
        cut,
        lengthened,
        random,
        datagram.to_vec(),
        datagram.to_vec(),
    ]
}

#[test]
fn flipped_cut_lengthened_random_and_replayed_datagrams_are_counted_and_harm_nothing() {
    let plan = culvert_plan();
    let (left, right) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let link = Link::new(&left, &right, Subnet(1), LinkShape::default()).unwrap();
    let host = link.subnet.host(Family::V4, 2);
    let entrance = SocketAddr::new(host, RELAY_PORT);
    let tunnel = plan.build_between(&left, &right, link, entrance).unwrap();
    let seeds = AtomicU64::new(1);
    let exit = SocketAddr::new(host, tunnel.right_port());
    let relay = Relay::start(
        &right,
        entrance,
        exit,
        move |direction, datagram| match direction {
            Direction::LeftToRight => torment(datagram, seeds.fetch_add(1, Ordering::Relaxed)),
            Direction::RightToLeft => vec![datagram.to_vec()],
        },
    )
    .unwrap();
    tunnel.wait_until_up().unwrap();
    passes_traffic(&tunnel).unwrap();

    for (stage, reason) in [
        ("open", "replayed"),
        ("open", "not_authentic"),
        ("open", "unknown_index"),
        ("udp_receive", "unknown_type"),
    ] {
        let count = tunnel.right.culvert_drops(stage, reason).unwrap();
        assert!(count > 0, "no {stage}/{reason}");
    }
    // The address of a forged datagram is never believed.
    assert_eq!(
        tunnel.left.culvert_drops("open", "not_authentic").unwrap(),
        0
    );
    drop(relay);
}

#[test]
fn random_datagrams_of_all_sizes_sprayed_at_the_port_harm_nothing() {
    let tunnel = culvert_tunnel().unwrap();
    let target = SocketAddr::new(tunnel.link.subnet.host(Family::V4, 2), tunnel.right_port());
    let socket = tunnel
        .left
        .namespace
        .inside(|| Ok(UdpSocket::bind("0.0.0.0:0")?))
        .unwrap();
    let mut noise = Noise(0x5eed);
    let mut sent = 0;
    for round in 0..20_000_usize {
        let length = match round % 10 {
            // The lengths of initiation, response, cookie reply and an empty data message.
            0 => 148,
            1 => 92,
            2 => 64,
            3 => 32,
            4 => noise.below(60_000),
            _ => noise.below(1600),
        };
        let mut datagram = noise.bytes(length);
        // Half of them look like messages: a type of 1 to 4 and three reserved bytes of zero.
        if round % 2 == 0 && length >= 4 {
            let kind = u8::try_from(1 + noise.below(4)).unwrap();
            datagram[..4].copy_from_slice(&[kind, 0, 0, 0]);
        }
        // A full socket buffer refuses some; that is no matter.
        sent += u64::from(socket.send_to(&datagram, target).is_ok());
    }
    assert!(sent > 10_000);
    let counted = |stage, reason| tunnel.right.culvert_drops(stage, reason).unwrap();
    wait_until("the drops to be counted", SOON, || {
        counted("udp_receive", "unknown_type") > 0 && counted("open", "unknown_index") > 0
    })
    .unwrap();
    // Endpoints do not follow strangers.
    let endpoint = SocketAddr::new(tunnel.link.subnet.host(Family::V4, 1), tunnel.left_port());
    assert!(
        tunnel
            .right
            .show("endpoints")
            .unwrap()
            .contains(&endpoint.to_string())
    );
    passes_traffic(&tunnel).unwrap();
}

#[test]
fn an_empty_datagram_is_counted() {
    const EMPTY: u64 = 3;
    let tunnel = culvert_tunnel().unwrap();
    let target = SocketAddr::new(tunnel.link.subnet.host(Family::V4, 2), tunnel.right_port());
    let socket = tunnel
        .left
        .namespace
        .inside(|| Ok(UdpSocket::bind("0.0.0.0:0")?))
        .unwrap();
    for _ in 0..EMPTY {
        socket.send_to(&[], target).unwrap();
    }
    let counted = || tunnel.right.culvert_drops("udp_receive", "unknown_type");
    wait_until("each to be counted", SOON, || counted().unwrap() == EMPTY).unwrap();
    tunnel.wait_until_up().unwrap();
}

/// An initiation whose mac1 is right and whose rest is random. Anyone who knows the public key can
/// make it (WireGuard paper, §5.4.4), and it costs the receiver a Diffie-Hellman operation.
fn initiation(responder: &[u8; 32], noise: &mut Noise) -> Vec<u8> {
    let mut message = noise.bytes(148);
    message[..4].copy_from_slice(&[1, 0, 0, 0]);
    let key = Blake2s256::new()
        .chain_update(b"mac1----")
        .chain_update(responder)
        .finalize();
    let mut mac = Blake2sMac::<blake2::digest::consts::U16>::new_from_slice(&key).unwrap();
    mac.update(&message[..116]);
    message[116..132].copy_from_slice(&mac.finalize().into_bytes());
    message[132..].fill(0);
    message
}

/// The 32 bytes of a key that `wg` shows in base64.
fn key_bytes(base64: &str) -> [u8; 32] {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for character in base64.trim().trim_end_matches('=').bytes() {
        let value = digits.iter().position(|&digit| digit == character).unwrap();
        bits = bits << 6 | u32::try_from(value).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff).to_le_bytes()[0]);
        }
    }
    bytes.try_into().unwrap()
}

#[test]
fn data_flows_and_memory_stays_bounded_under_a_flood_of_initiations() {
    let tunnel = culvert_tunnel().unwrap();
    let right = &tunnel.right.namespace;
    let attacker = Namespace::new().unwrap();
    let link = Link::new(&attacker, right, Subnet(3), LinkShape::default()).unwrap();
    let target = SocketAddr::new(link.subnet.host(Family::V4, 2), tunnel.right_port());
    let responder = key_bytes(&tunnel.right.keys.public_key);
    let sockets: Vec<_> = attacker
        .inside(|| {
            let bind = |_| Ok(UdpSocket::bind("0.0.0.0:0")?);
            (0..16).map(bind).collect()
        })
        .unwrap();

    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut noise = Noise(0xf100d);
            while !over.load(Ordering::Relaxed) {
                for socket in &sockets {
                    let _refused = socket.send_to(&initiation(&responder, &mut noise), target);
                }
            }
        });
        let under_attack = || {
            wait_until("the right end to ask for cookies", SOON, || {
                tunnel
                    .right
                    .culvert_drops("handshake", "cookie_required")
                    .unwrap()
                    > 0
            })?;
            passes_traffic(&tunnel)?;
            let address = tunnel.right_address(Family::V4);
            PingReport::measure(&tunnel.left.namespace, address, SOON / 150, 50)
        };
        let result = under_attack();
        // The flood must end before this thread may fail.
        over.store(true, Ordering::Relaxed);
        let ping = result.unwrap();
        assert!(ping.received * 10 >= ping.sent * 9, "{ping:?}");
    });
    let usage = tunnel.right.usage().unwrap();
    assert!(usage.peak_rss_bytes < PEAK_RSS_MAX_BYTES, "{usage:?}");
}
