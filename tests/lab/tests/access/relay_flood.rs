//! A flood at a relay's ports, from many addresses, while the relay carries tunnels.

use crate::common::SOON;
use culvert_lab::nat::NatKind;
use culvert_lab::product::BehindNats;
use culvert_lab::{Family, Link, LinkShape, Namespace, Subnet, wait_until};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

/// The attacker's own network, and its further addresses: those for tests of networks (RFC 2544).
const ATTACKER_NET: Subnet = Subnet(95);
const SOURCES: &str = "198.18.0.0/16";

/// The relay's main port, and its last gateway port, which no gateway has.
const MAIN_PORT: u16 = 3_478;
const FREE_PORT: u16 = 3_542;

const METRICS: &str = "127.0.0.1:9590";

/// Bursts of the flood: 102,400 datagrams in all. A burst needs at most 5 MB of the relay's receive buffer of 8 MiB, so each
/// datagram is looked at.
const BURSTS: u16 = 50;
const SOURCES_PER_BURST: u16 = 128;
const DATAGRAMS_PER_SOURCE: u16 = 16;

/// 100,000 strangers would need 56 MB if the relay stored them as it stores an end (docs/relay.md). Its receive buffers of
/// 1 MiB for each worker may be touched for the first time.
const GROWTH_MAX_BYTES: u64 = 16 << 20;

const ASK_LEN: usize = 64;
const ASK: u8 = 1;
const REGISTER: u8 = 3;

/// The kinds of datagrams that go to the port of the gateway, by the number of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Garbage,
    Initiation,
    Response,
    Data,
    CookieReply,
    Question,
    TruncatedQuestion,
    /// A registration with an invented cookie.
    Registration,
    /// A registration with a cookie of the relay, and an invented token.
    RegistrationWithCookie,
    TruncatedRegistration,
    SignOfLife,
    Probe,
    TruncatedProbe,
    /// A message that only a relay sends.
    AnswerOfRelay,
    Head,
    Empty,
}

impl Kind {
    const ALL: [Self; 16] = [
        Self::Garbage,
        Self::Initiation,
        Self::Response,
        Self::Data,
        Self::CookieReply,
        Self::Question,
        Self::TruncatedQuestion,
        Self::Registration,
        Self::RegistrationWithCookie,
        Self::TruncatedRegistration,
        Self::SignOfLife,
        Self::Probe,
        Self::TruncatedProbe,
        Self::AnswerOfRelay,
        Self::Head,
        Self::Empty,
    ];

    /// One datagram.
    fn datagram(self, random: &mut Random) -> Vec<u8> {
        let length = |least: u64, most: u64, random: &mut Random| {
            usize::try_from(least + random.next() % (most - least + 1)).unwrap()
        };
        match self {
            Self::Garbage => {
                let length = length(1, 1_472, random);
                random.bytes(length)
            }
            Self::Initiation => wireguard(1, 148, random),
            Self::Response => wireguard(2, 92, random),
            Self::CookieReply => wireguard(3, 64, random),
            Self::Data => {
                let length = length(32, 1_472, random);
                wireguard(4, length, random)
            }
            Self::Question => culvert(ASK, ASK_LEN, random),
            Self::TruncatedQuestion => culvert(ASK, length(4, 63, random), random),
            Self::Registration => {
                let cookie = random.bytes(16);
                registration(&cookie, random)
            }
            // The first datagram of a source that then has a cookie.
            Self::RegistrationWithCookie => culvert(ASK, ASK_LEN, random),
            Self::TruncatedRegistration => culvert(REGISTER, length(4, 52, random), random),
            Self::SignOfLife => culvert(7, 28, random),
            Self::Probe => culvert(9, 36, random),
            Self::TruncatedProbe => culvert(9, length(4, 35, random), random),
            Self::AnswerOfRelay => {
                let (kind, length) = [(2, 64), (4, 38), (5, 21), (6, 12), (8, 28)]
                    [usize::try_from(random.next() % 5).unwrap()];
                culvert(kind, length, random)
            }
            Self::Head => culvert(200, 4, random),
            Self::Empty => Vec::new(),
        }
    }
}

/// Random bytes with the head of a message of WireGuard.
fn wireguard(kind: u8, length: usize, random: &mut Random) -> Vec<u8> {
    let mut datagram = random.bytes(length);
    datagram[..4].copy_from_slice(&[kind, 0, 0, 0]);
    datagram
}

/// Random bytes with the head of a message of Culvert.
fn culvert(kind: u8, length: usize, random: &mut Random) -> Vec<u8> {
    let mut datagram = random.bytes(length);
    datagram[..4].copy_from_slice(&[b'C', b'V', b'R', kind]);
    if kind == ASK && length == ASK_LEN {
        datagram[20..].fill(0);
    }
    datagram
}

/// A registration with a token and a proof that nobody made.
fn registration(cookie: &[u8], random: &mut Random) -> Vec<u8> {
    let mut datagram = culvert(REGISTER, 52, random);
    datagram[20..36].copy_from_slice(cookie);
    datagram.extend_from_slice(b"v4.local.");
    let letters = random.bytes(400);
    datagram.extend(letters.iter().map(|byte| b'a' + byte % 26));
    datagram
}

/// Random enough for a flood, and the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next().to_le_bytes()[3]).collect()
    }
}

/// A machine with many addresses on the internet.
struct Attacker {
    namespace: Namespace,
    relay: SocketAddr,
    random: Random,
    next_source: u16,
}

/// One address and port of the attacker, and what it has sent.
struct Source {
    kind: Kind,
    socket: UdpSocket,
    to: SocketAddr,
    shortest: usize,
    sent_bytes: usize,
}

impl Attacker {
    fn new(internet: &Namespace, relay: SocketAddr) -> Self {
        let namespace = Namespace::new().unwrap();
        Link::new(internet, &namespace, ATTACKER_NET, LinkShape::default()).unwrap();
        let [router, own] = [1, 2].map(|host| ATTACKER_NET.host(Family::V4, host));
        namespace
            .shell(&format!(
                "ip route add default via {router} && ip route add local {SOURCES} dev lo && \
                 nft 'add table ip count; add counter ip count sent; add counter ip count received; \
                 add chain ip count output {{ type filter hook output priority filter; }}; \
                 add chain ip count input {{ type filter hook input priority filter; }}; \
                 add rule ip count output meta l4proto icmp drop; \
                 add rule ip count output meta l4proto udp counter name sent; \
                 add rule ip count input counter name received'"
            ))
            .unwrap();
        internet
            .run(&format!("ip route add {SOURCES} via {own}"))
            .unwrap();
        Self {
            namespace,
            relay,
            random: Random(0x9E37_79B9_7F4A_7C15),
            next_source: 0,
        }
    }

    /// Datagrams of all kinds, each kind from addresses of its own.
    fn burst(&mut self) -> Vec<Source> {
        let namespace = self.namespace.clone();
        let mut burst = || {
            let sources = (0..SOURCES_PER_BURST).map(|_| self.source());
            let mut sources: Vec<Source> = sources.collect();
            for source in &mut sources {
                source.send(&mut self.random);
            }
            Ok(sources)
        };
        namespace.inside(&mut burst).unwrap()
    }

    fn source(&mut self) -> Source {
        let number = self.next_source;
        self.next_source += 1;
        let [high, low] = number.to_be_bytes();
        let socket = UdpSocket::bind((Ipv4Addr::new(198, 18, high, low), 0)).unwrap();
        let kind = Kind::ALL[usize::from(number) % Kind::ALL.len()];
        // One in four to another port than that of the gateway. With a cookie of that port all go there.
        let port = match number / 16 % 8 {
            _ if kind == Kind::RegistrationWithCookie => self.relay.port(),
            0 => MAIN_PORT,
            1 => FREE_PORT,
            _ => self.relay.port(),
        };
        let to = SocketAddr::new(self.relay.ip(), port);
        Source {
            kind,
            socket,
            to,
            shortest: usize::MAX,
            sent_bytes: 0,
        }
    }

    /// Bytes of packets that were sent and received.
    fn bytes(&self) -> [u64; 2] {
        ["sent", "received"].map(|name| {
            let line = format!("nft -j list counter ip count {name}");
            let text = self.namespace.run(&line).unwrap();
            let list: serde_json::Value = serde_json::from_str(&text).unwrap();
            let mut entries = list["nftables"].as_array().unwrap().iter();
            entries
                .find_map(|it| it["counter"]["bytes"].as_u64())
                .unwrap()
        })
    }
}

impl Source {
    fn send(&mut self, random: &mut Random) {
        let cookie = match self.kind {
            Kind::RegistrationWithCookie => Some(self.cookie(random)),
            _ => None,
        };
        for _ in 0..DATAGRAMS_PER_SOURCE {
            let datagram = match &cookie {
                Some(cookie) => registration(cookie, random),
                None => self.kind.datagram(random),
            };
            self.socket.send_to(&datagram, self.to).unwrap();
            self.shortest = self.shortest.min(datagram.len());
            self.sent_bytes += datagram.len();
        }
    }

    /// A cookie of the relay. Behind a burst the answer may take a while.
    fn cookie(&mut self, random: &mut Random) -> Vec<u8> {
        let wait = Duration::from_secs(1);
        self.socket.set_read_timeout(Some(wait)).unwrap();
        let mut answer = [0; 2_048];
        let mut cookie = None;
        wait_until("a cookie", SOON, || {
            let question = self.kind.datagram(random);
            self.socket.send_to(&question, self.to).unwrap();
            let Ok((length, _)) = self.socket.recv_from(&mut answer) else {
                return false;
            };
            assert!(length <= question.len());
            cookie = Some(answer[20..36].to_vec());
            true
        })
        .unwrap();
        cookie.unwrap()
    }

    /// Checks what came back.
    fn check(&self) {
        self.socket.set_nonblocking(true).unwrap();
        let mut answer = [0; 65_536];
        let (mut count, mut bytes) = (0, 0);
        while let Ok((length, _)) = self.socket.recv_from(&mut answer) {
            let (kind, shortest) = (self.kind, self.shortest);
            assert!(
                length <= shortest,
                "{kind:?}: {length} for {shortest} bytes"
            );
            count += 1;
            bytes += length;
        }
        assert!(count <= DATAGRAMS_PER_SOURCE, "{:?}: {count}", self.kind);
        assert!(bytes <= self.sent_bytes, "{:?}: {bytes} bytes", self.kind);
    }
}

/// The drops of a relay, by stage and reason.
fn drops(scene: &BehindNats) -> BTreeMap<String, u64> {
    let status = scene.relays[0].status().unwrap();
    let drops = status["drops"].as_array().unwrap().iter();
    let of = |it: &serde_json::Value| {
        let text = |name: &str| it[name].as_str().unwrap().to_owned();
        (
            text("stage") + "/" + &text("reason"),
            it["count"].as_u64().unwrap(),
        )
    };
    drops.map(of).collect()
}

/// A gateway and two clients that are joined by a relay alone.
fn relayed() -> BehindNats {
    let (gateway, client) = (NatKind::PortDependent, NatKind::Symmetric);
    let mut scene = BehindNats::new(1, &[gateway], &[client, client]).unwrap();
    scene.relays[0].arguments += &format!(" --metrics {METRICS}");
    scene.start().unwrap();
    wait_until("an answer", SOON, || scene.reaches(0, 0)).unwrap();
    wait_until("the relay", SOON, || scene.path(0, 0) == "relayed").unwrap();
    scene
}

/// The relay's address with the port of the gateway.
fn port_of_gateway(scene: &BehindNats) -> SocketAddr {
    let mut found = None;
    wait_until("the gateway's port", SOON, || {
        let status = scene.relays[0].status().unwrap();
        let port = status["gateways"][0]["port"].as_u64();
        let address = status["addresses"][0].as_str().unwrap();
        let address: SocketAddr = address.parse().unwrap();
        found = port.map(|port| SocketAddr::new(address.ip(), port.try_into().unwrap()));
        found.is_some()
    })
    .unwrap();
    found.unwrap()
}

#[test]
fn a_flood_at_a_relays_ports_stores_nothing_is_answered_with_less_and_tunnels_go_on() {
    let mut scene = relayed();
    let relay = port_of_gateway(&scene);
    assert_ne!(relay.port(), FREE_PORT);
    let download = scene.download(0, 0).unwrap();
    let mut attacker = Attacker::new(&scene.internet, relay);
    let peak = |scene: &mut BehindNats| {
        let usage = scene.relays[0].process().unwrap().usage().unwrap();
        usage.peak_rss_bytes
    };
    let peak_before = peak(&mut scene);

    for number in 0..BURSTS {
        let sources = attacker.burst();
        if number == BURSTS / 2 {
            // A client registers in the middle of it.
            thread::scope(|scope| {
                let other = scope.spawn(|| wait_until("it", SOON, || scene.reaches(1, 0)));
                attacker.burst().iter().for_each(Source::check);
                other.join().unwrap().unwrap();
            });
        }
        // Bytes that arrive after a burst have passed the relay behind it.
        download
            .goes_on(SOON)
            .unwrap_or_else(|error| panic!("burst {number}: {error}"));
        sources.iter().for_each(Source::check);
    }

    let sent = u64::from(BURSTS + 1) * u64::from(SOURCES_PER_BURST * DATAGRAMS_PER_SOURCE);
    assert!(sent >= 100_000, "{sent}");
    // Questions are answered. All others have their name.
    let counted = |drops: &BTreeMap<String, u64>| {
        let unsent = drops.get("relay/refusal_limit").copied();
        drops.values().sum::<u64>() - unsent.unwrap_or_default()
    };
    let expected = sent / 16 * 15;
    let mut found = BTreeMap::new();
    wait_until("the drops to be counted", SOON, || {
        found = drops(&scene);
        counted(&found) >= expected / 10 * 9
    })
    .unwrap_or_else(|error| panic!("{error}: {sent} sent: {found:?}"));
    let metrics = scene.relays[0]
        .namespace
        .run(&format!("curl -fsS -m 5 http://{METRICS}/metrics"));
    let metrics = metrics.unwrap();
    for name in [
        "relay/malformed",
        "relay/unexpected",
        "relay/unknown_sender",
        "registration/cookie",
        "registration/token",
    ] {
        let count = found.get(name).copied().unwrap_or_default();
        assert!(count >= sent / 40, "{name} of {sent}: {found:?}");
        let (stage, reason) = name.split_once('/').unwrap();
        let metric = format!("culvert_relay_drops_total{{stage=\"{stage}\",reason=\"{reason}\"}}");
        assert!(metrics.contains(&metric), "{metric}: {metrics}");
    }

    let [out, back] = attacker.bytes();
    println!("{sent} datagrams, {out} bytes there, {back} bytes back: {found:?}");
    assert!(back > 0 && back < out, "{back} bytes for {out}");
    let grown = peak(&mut scene).saturating_sub(peak_before);
    println!("memory: {grown} bytes more than {peak_before}");
    assert!(
        grown < GROWTH_MAX_BYTES,
        "{grown} bytes more than {peak_before}"
    );
    let status = scene.relays[0].status().unwrap();
    // The ends, and nobody else.
    assert_eq!(status["gateway_count"], 1, "{status}");
    assert_eq!(status["client_count"], 2, "{status}");
    assert_eq!(status["gateways"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(status["problems"].to_string(), "[]");

    download.goes_on(SOON).unwrap();
    for client in 0..2 {
        wait_until("an answer", SOON, || scene.reaches(client, 0)).unwrap();
        assert_eq!(scene.path(client, 0), "relayed");
        let status = scene.clients[client].status().unwrap();
        assert_eq!(status["problems"].to_string(), "[]");
    }
}
