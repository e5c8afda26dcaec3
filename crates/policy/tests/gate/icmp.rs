//! ICMP: queries are flows, errors belong to the flow that they are about.

use crate::packets::{echo, icmp, tcp, udp, unreachable};
use crate::setup::{CLIENT, CLIENT_V6, NAME, NAME_V6, OTHER_PEER, Setup, grant, named};
use culvert_policy::gate::DropReason;

const SERVER: &str = "10.0.0.1";
const SERVER_V6: &str = "fd01::1";
const ENDS: [(&str, &str); 2] = [(CLIENT, SERVER), (CLIENT_V6, SERVER_V6)];

fn setup() -> Setup {
    Setup::new(vec![
        grant(1, "10.0.0.0/8", &["udp 53"]),
        grant(2, "fd01::/16", &["udp 53"]),
    ])
}

#[test]
fn pings_pass_where_icmp_is_allowed_and_are_answered_once_asked() {
    for (client, server) in ENDS {
        let grants = vec![
            grant(1, "10.0.0.0/8", &["icmp"]),
            grant(2, "fd01::/16", &["icmp"]),
        ];
        let mut setup = Setup::new(grants);
        setup.assert_no_answer(&echo(server, client, 7, true), DropReason::NotAFlow);
        setup.assert_sends(&echo(client, server, 7, false));
        setup.assert_answers(&echo(server, client, 7, true));
        setup.assert_no_answer(&echo(server, client, 8, true), DropReason::NotAFlow);
        // The resource cannot ping the client by the same identifier.
        setup.assert_no_answer(&echo(server, client, 7, false), DropReason::NotAFlow);
        // Nor can the client answer what nobody asked.
        setup.assert_refuses(&echo(client, server, 7, true), DropReason::NotAFlow);
        setup.assert_refuses(&tcp((client, 1), (server, 53)), DropReason::Protocol);
    }
}

#[test]
fn messages_that_concern_a_link_are_refused() {
    let mut setup = Setup::new(vec![
        grant(1, "0.0.0.0/0", &["any"]),
        grant(2, "::/0", &["any"]),
    ]);
    // Source quench, redirect, router advertisement and solicitation, address mask.
    for kind in [4, 5, 9, 10, 17, 18, 255] {
        let packet = icmp(CLIENT, SERVER, kind, 0, [0; 4], b"");
        setup.assert_refuses(&packet, DropReason::IcmpType);
        setup.assert_no_answer(
            &icmp(SERVER, CLIENT, kind, 0, [0; 4], b""),
            DropReason::IcmpType,
        );
    }
    // Multicast listeners, router and neighbour discovery, redirect, node information.
    for kind in [130, 133, 134, 135, 136, 137, 139, 255] {
        let packet = icmp(CLIENT_V6, SERVER_V6, kind, 0, [0; 4], b"");
        setup.assert_refuses(&packet, DropReason::IcmpType);
    }
}

#[test]
fn errors_about_a_flow_pass_to_the_client_whatever_the_filters() {
    for (client, server) in ENDS {
        let mut setup = setup();
        let query = udp((client, 1), (server, 53));
        let router = if client == CLIENT {
            "192.0.2.1"
        } else {
            "2001:db8::1"
        };
        for from in [server, router] {
            let error = unreachable(from, client, &query, 1000);
            setup.assert_no_answer(&error, DropReason::NotAFlow);
        }
        setup.assert_sends(&query);
        let header_len = if client == CLIENT { 20 } else { 40 };
        for from in [server, router] {
            for quoted in [header_len + 8, 1000] {
                setup.assert_answers(&unreachable(from, client, &query, quoted));
            }
            // Too little is quoted to tell the flow.
            let error = unreachable(from, client, &query, header_len + 7);
            setup.assert_no_answer(&error, DropReason::NotAFlow);
        }
        // About something else, or to somebody else.
        let stranger = udp((client, 2), (server, 53));
        setup.assert_no_answer(
            &unreachable(server, client, &stranger, 1000),
            DropReason::NotAFlow,
        );
        let other = if client == CLIENT {
            "100.64.0.2"
        } else {
            "fd00::2"
        };
        setup.assert_no_answer(
            &unreachable(server, other, &query, 1000),
            DropReason::NotAFlow,
        );
        // About what the resource sent itself.
        let answer = udp((server, 53), (client, 1));
        setup.assert_no_answer(
            &unreachable(server, client, &answer, 1000),
            DropReason::NotAFlow,
        );
    }
}

#[test]
fn errors_of_the_client_go_where_the_flow_goes() {
    for (client, server) in ENDS {
        let mut setup = setup();
        let answer = udp((server, 53), (client, 1));
        let error = unreachable(client, server, &answer, 1000);
        setup.assert_refuses(&error, DropReason::NotAFlow);
        setup.assert_sends(&udp((client, 1), (server, 53)));
        setup.assert_answers(&answer);
        setup.assert_sends(&error);
        assert_eq!(
            setup.send_from(OTHER_PEER, &error),
            Err(DropReason::ForgedSource)
        );
        // Another host is none of this flow's business.
        let other = if client == CLIENT {
            "10.0.0.2"
        } else {
            "fd01::2"
        };
        setup.assert_refuses(
            &unreachable(client, other, &answer, 1000),
            DropReason::NotAFlow,
        );
        let query = udp((client, 1), (server, 53));
        setup.assert_refuses(
            &unreachable(client, server, &query, 1000),
            DropReason::NotAFlow,
        );
    }
}

#[test]
fn errors_do_not_keep_a_flow_alive_nor_outlive_its_grant() {
    let mut setup = setup();
    let query = udp((CLIENT, 1), (SERVER, 53));
    let error = unreachable(SERVER, CLIENT, &query, 1000);
    setup.assert_sends(&query);
    setup.now_ms += 299_000;
    setup.assert_answers(&error);
    setup.now_ms += 1000;
    setup.assert_no_answer(&error, DropReason::NotAFlow);
    setup.assert_sends(&query);
    setup.set(vec![]);
    setup.assert_no_answer(&error, DropReason::NoGrant);
}

#[test]
fn an_error_about_an_error_is_refused() {
    for (client, server) in ENDS {
        let grants = vec![
            grant(1, "10.0.0.0/8", &["icmp"]),
            grant(2, "fd01::/16", &["icmp"]),
        ];
        let mut setup = Setup::new(grants);
        // An error has no identifier: read as a query or an answer, it would belong to the flow with identifier 0.
        let ping = echo(client, server, 0, false);
        let pong = echo(server, client, 0, true);
        setup.assert_sends(&ping);
        setup.assert_answers(&pong);
        let about_ping = unreachable(server, client, &ping, 1000);
        let about_pong = unreachable(client, server, &pong, 1000);
        setup.assert_answers(&about_ping);
        setup.assert_sends(&about_pong);
        setup.assert_no_answer(
            &unreachable(server, client, &about_pong, 1000),
            DropReason::NotAFlow,
        );
        setup.assert_refuses(
            &unreachable(client, server, &about_ping, 1000),
            DropReason::NotAFlow,
        );
    }
}

#[test]
fn errors_and_what_they_quote_are_translated() {
    let mappings = [(NAME, "10.9.9.9"), (NAME_V6, "fd09::9")];
    for (client, name, resolved, router) in [
        (CLIENT, NAME, "10.9.9.9", "192.0.2.1"),
        (CLIENT_V6, NAME_V6, "fd09::9", "2001:db8::1"),
    ] {
        let mut setup = Setup::new(vec![named(1, &mappings, &["any"])]);
        for build in [udp, tcp] {
            let far = setup.send(&build((client, 1), (name, 53))).unwrap();
            let near = build((client, 1), (name, 53));
            for quoted in [48, 60, 1000] {
                // The resource is known by its name, a router by its own address.
                for (from, shown) in [(resolved, name), (router, router)] {
                    let error = setup
                        .answer(&unreachable(from, client, &far, quoted))
                        .unwrap();
                    assert_eq!(
                        error,
                        unreachable(shown, client, &near, quoted),
                        "{from} {quoted}"
                    );
                }
                let (far, near) = (
                    build((resolved, 53), (client, 1)),
                    build((name, 53), (client, 1)),
                );
                assert!(setup.answer(&far).is_ok());
                let error = setup
                    .send(&unreachable(client, name, &near, quoted))
                    .unwrap();
                assert_eq!(
                    error,
                    unreachable(client, resolved, &far, quoted),
                    "{quoted}"
                );
            }
        }
        assert!(setup.send(&echo(client, name, 3, false)).is_ok());
        let (far, near) = (
            echo(client, resolved, 3, false),
            echo(client, name, 3, false),
        );
        let error = setup
            .answer(&unreachable(router, client, &far, 1000))
            .unwrap();
        assert_eq!(error, unreachable(router, client, &near, 1000));
    }
}
