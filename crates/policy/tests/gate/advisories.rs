//! Mistakes of other products, tried here: a packet must not pass because its headers hide its
//! destination.

use crate::packets::{tcp, udp, with_empty_extension, with_extension, with_options};
use crate::setup::{CLIENT, CLIENT_V6, Setup, grant};
use culvert_policy::gate::DropReason;

const SERVER: &str = "10.0.0.1";
const SERVER_V6: &str = "fd01::1";

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

fn setup(allowed: &[&str]) -> Setup {
    Setup::new(vec![
        grant(1, "10.0.0.0/8", allowed),
        grant(2, "fd01::/16", allowed),
    ])
}

#[test]
fn nebula_1840_extension_headers_do_not_hide_the_port() {
    let allowed = tcp((CLIENT_V6, 5000), (SERVER_V6, 443));
    let forbidden = tcp((CLIENT_V6, 5000), (SERVER_V6, 22));
    for kind in [HOP_BY_HOP, DESTINATION_OPTIONS] {
        let mut setup = setup(&["tcp 443"]);
        let (mut allowed, mut forbidden) = (allowed.clone(), forbidden.clone());
        for _ in 0..7 {
            allowed = with_empty_extension(&allowed, kind);
            forbidden = with_empty_extension(&forbidden, kind);
            setup.assert_sends(&allowed);
            setup.assert_refuses(&forbidden, DropReason::Port);
        }
    }
}

#[test]
fn a_chain_without_end_is_refused_even_where_everything_is_allowed() {
    let mut packet = tcp((CLIENT_V6, 5000), (SERVER_V6, 22));
    for _ in 0..9 {
        packet = with_empty_extension(&packet, DESTINATION_OPTIONS);
    }
    for allowed in [&["any"][..], &["tcp 1-65535"]] {
        setup(allowed).assert_refuses(&packet, DropReason::HeaderChain);
    }
}

#[test]
fn an_extension_header_that_is_cut_short_is_refused() {
    let packet = tcp((CLIENT_V6, 5000), (SERVER_V6, 443));
    for kind in [HOP_BY_HOP, ROUTING, 44, AUTHENTICATION, DESTINATION_OPTIONS] {
        // It claims 2048 bytes (of a fragment header, which has no length, seven are there).
        let extension: &[u8] = if kind == 44 {
            &[6, 0, 0, 0, 0, 0, 0]
        } else {
            &[6, 255, 0, 0, 0, 0, 0, 0]
        };
        let mut setup = setup(&["any"]);
        setup.assert_refuses(
            &with_extension(&packet, kind, extension, &[]),
            DropReason::HeaderChain,
        );
    }
}

#[test]
fn headers_that_nobody_knows_pass_only_where_everything_is_allowed() {
    // Mobility, HIP, Shim6, experiments, "no next header".
    for kind in [135, 139, 140, 253, 254, 59] {
        let packet = with_empty_extension(&tcp((CLIENT_V6, 5000), (SERVER_V6, 443)), kind);
        setup(&["tcp 443", "udp 1-65535", "icmp"]).assert_refuses(&packet, DropReason::Protocol);
        setup(&["any"]).assert_sends(&packet);
    }
}

#[test]
fn the_other_family_s_icmp_is_not_icmp() {
    let mut setup = setup(&["icmp"]);
    let mut packet = udp((CLIENT, 5000), (SERVER, 53));
    packet[9] = 58;
    setup.assert_refuses(&packet, DropReason::Protocol);
    let mut packet = udp((CLIENT_V6, 5000), (SERVER_V6, 53));
    packet[6] = 1;
    setup.assert_refuses(&packet, DropReason::Protocol);
}

#[test]
fn a_packet_that_names_its_own_way_is_refused() {
    for segments_left in [0, 1] {
        for kind in [0, 2, 3, 4] {
            let mut extension = [6, 2, kind, segments_left].to_vec();
            extension.resize(24, 0);
            let packet = tcp((CLIENT_V6, 5000), (SERVER_V6, 443));
            let routed = with_extension(&packet, ROUTING, &extension, &packet[40..]);
            setup(&["any"]).assert_refuses(&routed, DropReason::SourceRouted);
        }
    }
    let packet = tcp((CLIENT, 5000), (SERVER, 443));
    for option in [131, 137] {
        for options in [
            &[option, 7, 4, 192, 168, 0, 1][..],
            &[1, 1, 148, 4, 0, 0, option, 3, 4],
        ] {
            let routed = with_options(&packet, options);
            setup(&["any"]).assert_refuses(&routed, DropReason::SourceRouted);
        }
    }
    // Other options are none of our business, unless they cannot be read.
    setup(&["any"]).assert_sends(&with_options(&packet, &[148, 4, 0, 0]));
    setup(&["any"]).assert_sends(&with_options(&packet, &[1, 0, 131, 0]));
    for broken in [
        &[148, 1, 0, 0],
        &[148, 5, 0, 0],
        &[148, 0, 0, 0],
        &[1, 1, 1, 148],
    ] {
        setup(&["any"]).assert_refuses(&with_options(&packet, broken), DropReason::Malformed);
    }
}

#[test]
fn a_rule_about_the_remote_port_is_not_one_about_the_clients() {
    // The rule inverted: whoever sends from the allowed port must not reach other ones, and an
    // answer from an allowed port needs a flow.
    let mut setup = setup(&["tcp 443"]);
    setup.assert_refuses(&tcp((CLIENT, 443), (SERVER, 22)), DropReason::Port);
    setup.assert_no_answer(&tcp((SERVER, 443), (CLIENT, 22)), DropReason::NotAFlow);
    setup.assert_sends(&tcp((CLIENT, 22), (SERVER, 443)));
    setup.assert_no_answer(&tcp((SERVER, 22), (CLIENT, 443)), DropReason::NotAFlow);
}

#[test]
fn a_transport_header_that_is_cut_short_is_refused() {
    let mut setup = setup(&["any"]);
    for (packet, at) in [
        (tcp((CLIENT, 5000), (SERVER, 443)), 20),
        (udp((CLIENT, 5000), (SERVER, 53)), 20),
        (tcp((CLIENT_V6, 5000), (SERVER_V6, 443)), 40),
        (udp((CLIENT_V6, 5000), (SERVER_V6, 53)), 40),
    ] {
        let needed = if packet[9] == 6 || packet[6] == 6 {
            20
        } else {
            8
        };
        for len in 0..needed {
            let mut short = packet[..at + len].to_vec();
            match at {
                20 => short[2..4].copy_from_slice(&(20 + len as u16).to_be_bytes()),
                _ => short[4..6].copy_from_slice(&(len as u16).to_be_bytes()),
            }
            setup.assert_refuses(&short, DropReason::Malformed);
        }
    }
}

#[test]
fn lengths_that_lie_are_refused() {
    let mut setup = setup(&["any"]);
    for len in [0_u16, 19, 60_000] {
        let mut packet = tcp((CLIENT, 5000), (SERVER, 443));
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        setup.assert_refuses(&packet, DropReason::Malformed);
    }
    for (place, value) in [(0, 0x44), (0, 0x4F), (0, 0x55), (0, 0x05)] {
        let mut packet = tcp((CLIENT, 5000), (SERVER, 443));
        packet.truncate(40);
        packet[2..4].copy_from_slice(&40_u16.to_be_bytes());
        packet[place] = value;
        setup.assert_refuses(&packet, DropReason::Malformed);
    }
    setup.assert_refuses(&[], DropReason::Malformed);
}
