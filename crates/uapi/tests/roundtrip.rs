//! The answer to `get=1` can be read, and set again.

use culvert_aead::Suite;
use culvert_session::{PresharedKey, PrivateKey, PublicKey};
use culvert_uapi::{
    AllowedIpChange, Change, Configuration, Errno, FirewallMark, InterfaceChange,
    KeepaliveInterval, PeerChange, PeerConfiguration, Prefix, RequestParser, SetRequest,
    errno_response, parse_set, status_response,
};
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::Duration;

#[test]
fn the_answer_has_the_keys_of_the_protocol_in_order() {
    let response = Configuration {
        private_key: Some(PrivateKey::from_bytes([0x48; 32])),
        listen_port: Some(12912),
        fwmark: None,
        suite: Suite::ChaCha20Poly1305,
        peers: vec![PeerConfiguration {
            public_key: PublicKey::from_bytes([0xb8; 32]),
            preshared_key: None,
            suite: None,
            endpoint: Some("[fe80::1%3]:51820".parse().unwrap()),
            last_handshake: Some(Duration::new(1_700_000_000, 5)),
            sent_bytes: 38_333,
            received_bytes: 2_224,
            keepalive: None,
            allowed_ips: vec![Prefix::around("192.168.4.0".parse().unwrap(), 24).unwrap()],
        }],
    }
    .to_response();
    let lines: Vec<&str> = response.lines().collect();
    let (keys, zeros) = ("48".repeat(32), "0".repeat(64));
    assert_eq!(
        lines,
        [
            &format!("private_key={keys}"),
            "listen_port=12912",
            &format!("public_key={}", "b8".repeat(32)),
            &format!("preshared_key={zeros}"),
            "protocol_version=1",
            "endpoint=[fe80::1%3]:51820",
            "last_handshake_time_sec=1700000000",
            "last_handshake_time_nsec=5",
            "tx_bytes=38333",
            "rx_bytes=2224",
            "persistent_keepalive_interval=0",
            "allowed_ip=192.168.4.0/24",
            "errno=0",
            "",
        ]
    );
}

#[test]
fn a_fresh_interface_answers_only_errno() {
    assert_eq!(*Configuration::default().to_response(), "errno=0\n\n");
}

#[test]
fn errors_are_answered_as_negative_numbers() {
    assert_eq!(errno_response(Ok(())), "errno=0\n\n");
    assert_eq!(errno_response(Err(Errno::INVALID)), "errno=-22\n\n");
    assert_eq!(errno_response(Err(Errno::from_raw(98))), "errno=-98\n\n");
    assert_eq!(Errno::from_raw(0), Errno::INPUT_OUTPUT);
    assert_eq!(Errno::from_raw(-1), Errno::INPUT_OUTPUT);
}

#[test]
fn a_status_is_one_line() {
    assert_eq!(status_response("{}").unwrap(), "{}\nerrno=0\n\n");
    assert!(status_response("{\n}").is_err());
    assert!(status_response("").is_err());
}

proptest! {
    #[test]
    fn what_get_answers_can_be_set_again(configuration in configuration()) {
        let request = parse_set(as_set(&configuration.to_response()).as_bytes()).unwrap();
        prop_assert_eq!(request, wanted(&configuration));
    }

    #[test]
    fn random_bytes_never_panic_and_every_request_is_answered_once(
        text in prop::collection::vec(prop::sample::select(&b"get=1\n\nst\x00\xffpublic_key"[..]), 0..600),
    ) {
        let mut parser = RequestParser::new();
        let mut bytes = &text[..];
        let mut answers = 0;
        while !bytes.is_empty() {
            answers += usize::from(parser.handle_bytes(&mut bytes).is_some());
        }
        let lines = text.split_inclusive(|&byte| byte == b'\n');
        prop_assert_eq!(answers, lines.filter(|line| *line == b"\n").count());
    }

    #[test]
    fn a_request_with_one_byte_changed_is_parsed_or_refused(
        configuration in configuration(), place: prop::sample::Index, byte: u8,
    ) {
        let mut text = as_set(&configuration.to_response()).into_bytes();
        let place = place.index(text.len());
        text[place] = byte;
        let _ = parse_set(&text);
    }
}

/// The answer to `get=1` as a `set=1`: without what can only be read.
fn as_set(response: &str) -> String {
    let settable = |line: &&str| {
        let (key, _) = line.split_once('=').unwrap_or_default();
        let read_only = ["errno", "tx_bytes", "rx_bytes"].contains(&key);
        !read_only && !key.starts_with("last_handshake_time")
    };
    let lines: Vec<&str> = response.lines().filter(settable).collect();
    format!("set=1\n{}\n", lines.join("\n") + "\n").replace("\n\n\n", "\n\n")
}

fn wanted(configuration: &Configuration) -> SetRequest {
    let or_keep = |mark: FirewallMark| Change::Set(mark);
    SetRequest {
        interface: InterfaceChange {
            private_key: configuration
                .private_key
                .clone()
                .map_or(Change::Keep, Change::Set),
            listen_port: configuration.listen_port,
            fwmark: configuration.fwmark.map_or(Change::Keep, or_keep),
            suite: Some(configuration.suite).filter(|suite| *suite != Suite::default()),
            replace_peers: false,
        },
        peers: configuration.peers.iter().map(wanted_peer).collect(),
    }
}

fn wanted_peer(peer: &PeerConfiguration) -> PeerChange {
    PeerChange {
        preshared_key: peer
            .preshared_key
            .clone()
            .map_or(Change::Remove, Change::Set),
        endpoint: peer.endpoint.map(Into::into),
        keepalive: peer.keepalive.map_or(Change::Remove, Change::Set),
        allowed_ips: peer
            .allowed_ips
            .iter()
            .copied()
            .map(AllowedIpChange::Add)
            .collect(),
        suite: peer.suite.map_or(Change::Keep, Change::Set),
        ..PeerChange::new(peer.public_key)
    }
}

fn configuration() -> impl Strategy<Value = Configuration> {
    let key = prop::option::of(nonzero_key().prop_map(PrivateKey::from_bytes));
    let mark = any::<Option<std::num::NonZeroU32>>();
    let peers = prop::collection::vec(peer(), 0..4);
    (key, any::<Option<u16>>(), mark, suite(), peers).prop_map(
        |(private_key, listen_port, mark, suite, peers)| Configuration {
            private_key,
            listen_port,
            fwmark: mark.map(FirewallMark),
            suite,
            peers,
        },
    )
}

fn peer() -> impl Strategy<Value = PeerConfiguration> {
    let keys = (any::<[u8; 32]>(), prop::option::of(nonzero_key()));
    let addresses = (
        prop::option::of(endpoint()),
        prop::collection::vec(prefix(), 0..4),
    );
    let numbers = (any::<Option<Duration>>(), any::<u64>(), any::<u64>());
    let keepalive = any::<Option<std::num::NonZeroU16>>();
    (
        keys,
        addresses,
        numbers,
        keepalive,
        prop::option::of(suite()),
    )
        .prop_map(
            |(keys, addresses, numbers, keepalive, suite)| PeerConfiguration {
                public_key: PublicKey::from_bytes(keys.0),
                preshared_key: keys.1.map(PresharedKey::from_bytes),
                suite,
                endpoint: addresses.0,
                last_handshake: numbers.0,
                sent_bytes: numbers.1,
                received_bytes: numbers.2,
                keepalive: keepalive.map(KeepaliveInterval),
                allowed_ips: addresses.1,
            },
        )
}

fn nonzero_key() -> impl Strategy<Value = [u8; 32]> {
    any::<[u8; 32]>().prop_filter("all zeros means none", |key| *key != [0; 32])
}

fn suite() -> impl Strategy<Value = Suite> {
    prop_oneof![Just(Suite::ChaCha20Poly1305), Just(Suite::Aes256Gcm)]
}

fn endpoint() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>(), any::<u32>())
        .prop_filter("mapped addresses become IPv4", |(address, ..)| {
            *address == address.to_canonical()
        })
        .prop_map(|(address, port, scope)| match address {
            IpAddr::V4(address) => (address, port).into(),
            IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, scope).into(),
        })
}

fn prefix() -> impl Strategy<Value = Prefix> {
    (any::<IpAddr>(), 0..=128u8).prop_map(|(address, length)| {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Prefix::around(address, length.min(bits)).expect("the length fits the address")
    })
}
