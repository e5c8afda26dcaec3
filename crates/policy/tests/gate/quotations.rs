//! Quotations of ICMP errors: which of them reach the flow, and their translation.

use crate::packets::{echo, fragments, tcp, udp, unreachable, with_extension, with_options};
use crate::setup::{CLIENT, CLIENT_V6, NAME, NAME_V6, Setup, grant, named};
use culvert_policy::gate::DropReason;

const SERVER: &str = "10.0.0.1";
const SERVER_V6: &str = "fd01::1";
/// Client, the address that stands for a name, the server, and a router on the way.
const ENDS: [(&str, &str, &str, &str); 2] = [
    (CLIENT, NAME, SERVER, "192.0.2.1"),
    (CLIENT_V6, NAME_V6, SERVER_V6, "2001:db8::1"),
];
/// The bytes of `SERVER` read as two ports, as they would be behind a header of 16 bytes.
const CLIENT_PORT: u16 = 0x0A00;
const SERVER_PORT: u16 = 0x0001;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// A kind of quotation: its name, how it is made of the quoted packet, and whether the error reaches
/// the client.
type Row = (&'static str, fn(&[u8]) -> Vec<u8>, bool);

const ROWS_V4: &[Row] = &[
    ("all of it", |query| query.to_vec(), true),
    ("64 bits", |query| query[..28].to_vec(), true),
    ("less than 64 bits", |query| query[..27].to_vec(), false),
    ("one option", |query| with_options(query, &[1; 4]), true),
    ("ten options", |query| with_options(query, &[1; 40]), true),
    (
        "64 bits behind options",
        |query| with_options(query, &[1; 8])[..36].to_vec(),
        true,
    ),
    (
        "less than 64 bits behind options",
        |query| with_options(query, &[1; 8])[..35].to_vec(),
        false,
    ),
    (
        "options that are cut short",
        |query| with_options(query, &[1; 40])[..56].to_vec(),
        false,
    ),
    ("no fixed header", |query| query[..19].to_vec(), false),
    (
        "a header shorter than any",
        |query| patched(query, 0, &[0x44]),
        false,
    ),
    ("another version", |query| patched(query, 0, &[0x65]), false),
    (
        "a first fragment",
        |query| {
            let [first, _] = fragments(query, 16, 9);
            first
        },
        true,
    ),
    // Its first bytes look like the ports of the flow.
    (
        "a later fragment",
        |query| patched(query, 6, &[0, 1]),
        false,
    ),
    (
        "a later fragment that more follow",
        |query| patched(query, 6, &[0x20, 1]),
        false,
    ),
];

const ROWS_V6: &[Row] = &[
    ("all of it", |query| query.to_vec(), true),
    ("64 bits", |query| query[..48].to_vec(), true),
    ("less than 64 bits", |query| query[..47].to_vec(), false),
    ("no fixed header", |query| query[..39].to_vec(), false),
    ("another version", |query| patched(query, 0, &[0x40]), false),
    (
        "hop-by-hop options of 8 bytes",
        |query| behind(query, HOP_BY_HOP, 8),
        true,
    ),
    (
        "hop-by-hop options of 16 bytes",
        |query| behind(query, HOP_BY_HOP, 16),
        true,
    ),
    (
        "destination options of 8 bytes",
        |query| behind(query, DESTINATION_OPTIONS, 8),
        true,
    ),
    (
        "destination options of 16 bytes",
        |query| behind(query, DESTINATION_OPTIONS, 16),
        true,
    ),
    (
        "destination options of 2048 bytes",
        |query| behind(query, DESTINATION_OPTIONS, 2048),
        true,
    ),
    (
        "an authentication header of 16 bytes",
        |query| behind(query, AUTHENTICATION, 16),
        true,
    ),
    (
        "an authentication header of 24 bytes",
        |query| behind(query, AUTHENTICATION, 24),
        true,
    ),
    (
        "64 bits behind three headers",
        |query| three_headers(query)[..88].to_vec(),
        true,
    ),
    (
        "less than 64 bits behind three headers",
        |query| three_headers(query)[..87].to_vec(),
        false,
    ),
    (
        "options that are cut short",
        |query| behind(query, DESTINATION_OPTIONS, 64)[..100].to_vec(),
        false,
    ),
    (
        "options and no more",
        |query| behind(query, DESTINATION_OPTIONS, 64)[..104].to_vec(),
        false,
    ),
    ("eight headers", |query| behind_many(query, 8), true),
    ("nine headers", |query| behind_many(query, 9), false),
    ("a routing header", |query| behind(query, ROUTING, 8), false),
    (
        "a routing header behind options",
        |query| behind(&behind(query, ROUTING, 24), HOP_BY_HOP, 8),
        false,
    ),
    (
        "a routing header ahead of options",
        |query| behind(&behind(query, DESTINATION_OPTIONS, 8), ROUTING, 8),
        false,
    ),
    (
        "a first fragment",
        |query| {
            let [first, _] = fragments(query, 16, 9);
            first
        },
        true,
    ),
    (
        "an atomic fragment",
        |query| behind(query, FRAGMENT, 8),
        true,
    ),
    // Its first bytes look like the ports of the flow.
    (
        "a later fragment",
        |query| patched(&behind(query, FRAGMENT, 8), 42, &[0, 8]),
        false,
    ),
    (
        "a later fragment that more follow, behind options",
        |query| {
            behind(
                &patched(&behind(query, FRAGMENT, 8), 42, &[0, 9]),
                HOP_BY_HOP,
                8,
            )
        },
        false,
    ),
];

/// The packet with these bytes at `at`.
fn patched(packet: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut patched = packet.to_vec();
    patched[at..at + bytes.len()].copy_from_slice(bytes);
    patched
}

/// The IPv6 packet with an extension header of `len` bytes ahead of all others.
fn behind(packet: &[u8], kind: u8, len: usize) -> Vec<u8> {
    let mut extension = vec![0; len];
    extension[0] = packet[6];
    extension[1] = match kind {
        FRAGMENT => 0,
        // RFC 4302 §2.2: in words of 32 bits, less two.
        AUTHENTICATION => len / 4 - 2,
        // RFC 8200 §4.3: in words of 64 bits, less one.
        _ => len / 8 - 1,
    } as u8;
    with_extension(packet, kind, &extension, &packet[40..])
}

fn behind_many(packet: &[u8], headers: usize) -> Vec<u8> {
    (0..headers).fold(packet.to_vec(), |packet, _| {
        behind(&packet, DESTINATION_OPTIONS, 8)
    })
}

/// Options, an authentication header and options again, 40 bytes in all.
fn three_headers(packet: &[u8]) -> Vec<u8> {
    let packet = behind(packet, DESTINATION_OPTIONS, 8);
    behind(&behind(&packet, AUTHENTICATION, 24), HOP_BY_HOP, 8)
}

#[test]
fn an_error_reaches_the_client_if_its_quotation_tells_the_flow() {
    let plain = || {
        vec![
            grant(1, "10.0.0.0/8", &["udp 1"]),
            grant(2, "fd01::/16", &["udp 1"]),
        ]
    };
    let translated = || {
        vec![named(
            1,
            &[(NAME, SERVER), (NAME_V6, SERVER_V6)],
            &["udp 1"],
        )]
    };
    for ((client, name, server, router), rows) in ENDS.into_iter().zip([ROWS_V4, ROWS_V6]) {
        for (grants, visible) in [(plain(), server), (translated(), name)] {
            let mut setup = Setup::new(grants);
            let near = udp((client, CLIENT_PORT), (visible, SERVER_PORT));
            let far = setup.send(&near).unwrap();
            assert_eq!(far, udp((client, CLIENT_PORT), (server, SERVER_PORT)));
            for (quotation, quote, passes) in rows {
                let error = |quoted| unreachable(router, client, &quote(quoted), usize::MAX);
                let expected = match passes {
                    true => Ok(error(&near)),
                    false => Err(DropReason::NotAFlow),
                };
                assert_eq!(
                    setup.answer(&error(&far)),
                    expected,
                    "{quotation}, of a packet to {visible}"
                );
            }
        }
    }
}

#[test]
fn a_quotation_is_translated_as_far_as_it_goes() {
    for (client, name, server, router) in ENDS {
        let mut setup = Setup::new(vec![named(1, &[(name, server)], &["any"])]);
        let near = tcp((client, 5000), (name, 443));
        let far = setup.send(&near).unwrap();
        let header_len = if client == CLIENT { 20 } else { 40 };
        for transport_len in 8..=24 {
            let quoted_len = header_len + transport_len;
            let mut quoted = near.clone();
            if transport_len == 17 {
                // Half of a checksum cannot be mended.
                quoted[header_len + 16] = far[header_len + 16];
            }
            assert_eq!(
                setup.answer(&unreachable(router, client, &far, quoted_len)),
                Ok(unreachable(router, client, &quoted, quoted_len)),
                "{transport_len} bytes of TCP to {name}"
            );
        }
    }
}

/// A second name of the server, by which the gateway needs another port of the client.
fn with_another_name(client: &str) -> (Setup, &'static str) {
    let (name, other, server) = match client {
        CLIENT => (NAME, "100.96.0.2", SERVER),
        _ => (NAME_V6, "fd00:1::2", SERVER_V6),
    };
    let setup = Setup::new(vec![named(1, &[(name, server), (other, server)], &["any"])]);
    (setup, other)
}

#[test]
fn the_port_of_a_flow_with_another_one_is_translated_in_the_errors_of_both_ends() {
    for (client, name, server, router) in ENDS {
        for build in [udp, tcp] {
            let (mut setup, other) = with_another_name(client);
            assert!(setup.send(&build((client, 1), (name, 53))).is_ok());
            let near = build((client, 1), (other, 53));
            let far = setup.send(&near).unwrap();
            let at = if client == CLIENT { 20 } else { 40 };
            let port = u16::from_be_bytes([far[at], far[at + 1]]);
            assert_ne!(port, 1);
            assert_eq!(
                setup.answer(&unreachable(router, client, &far, 1000)),
                Ok(unreachable(router, client, &near, 1000))
            );
            let far = build((server, 53), (client, port));
            let near = setup.answer(&far).unwrap();
            assert_eq!(near, build((other, 53), (client, 1)));
            assert_eq!(
                setup.send(&unreachable(client, other, &near, 1000)),
                Ok(unreachable(client, server, &far, 1000))
            );
        }
    }
}

#[test]
fn the_identifier_of_a_ping_with_another_one_is_translated_in_the_errors_of_both_ends() {
    for (client, name, server, router) in ENDS {
        let (mut setup, other) = with_another_name(client);
        assert!(setup.send(&echo(client, name, 9, false)).is_ok());
        let near = echo(client, other, 9, false);
        let far = setup.send(&near).unwrap();
        let at = if client == CLIENT { 24 } else { 44 };
        let identifier = u16::from_be_bytes([far[at], far[at + 1]]);
        assert_ne!(identifier, 9);
        assert_eq!(far, echo(client, server, identifier, false));
        assert_eq!(
            setup.answer(&unreachable(router, client, &far, 1000)),
            Ok(unreachable(router, client, &near, 1000))
        );
        let far = echo(server, client, identifier, true);
        let near = setup.answer(&far).unwrap();
        assert_eq!(near, echo(other, client, 9, true));
        assert_eq!(
            setup.send(&unreachable(client, other, &near, 1000)),
            Ok(unreachable(client, server, &far, 1000))
        );
    }
}
