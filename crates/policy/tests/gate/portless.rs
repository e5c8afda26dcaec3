//! Protocols without ports: with one address one client at a time, where the gateway masquerades.

use crate::packets::{other, udp};
use crate::setup::{CLIENT, OTHER_CLIENT, OTHER_PEER, PEER, Setup, grant};
use culvert_policy::gate::{DropReason, Gate, PeerKey, Portless, Seed};

const SERVER: &str = "10.0.0.1";
const OTHER_SERVER: &str = "10.0.0.2";
const GRE: u8 = 47;
const ESP: u8 = 50;
const SCTP: u8 = 132;
/// The kernel's memory of a silent flow of a protocol that it does not know.
const IDLE_MS: u64 = 600_000;

/// Two clients that may send anything to a network; their gate shares with others what `portless` knows.
fn setup(portless: &Portless) -> Setup {
    let all = || vec![grant(1, "10.0.0.0/8", &["any"])];
    let mut setup = Setup::new(all());
    setup.add_client(OTHER_PEER, OTHER_CLIENT, all());
    setup.gate = Gate::new(Seed::new([3; 32])).masquerading(portless.clone());
    setup
}

fn send(setup: &mut Setup, peer: PeerKey, to: &str, protocol: u8) -> Result<(), DropReason> {
    let from = if peer == PEER { CLIENT } else { OTHER_CLIENT };
    setup.send_from(peer, &other(from, to, protocol)).map(drop)
}

#[test]
fn a_second_client_is_refused_whichever_gate_it_comes_to_and_answers_go_to_the_first() {
    let portless = Portless::default();
    let mut gates = [setup(&portless), setup(&portless)];
    for protocol in [
        GRE, ESP, 253, 2, 4, 8, 41, 51, 89, 103, 108, 112, 115, 137, 254, 255,
    ] {
        assert_eq!(send(&mut gates[0], PEER, SERVER, protocol), Ok(()));
        for gate in &mut gates {
            let refused = send(gate, OTHER_PEER, SERVER, protocol);
            assert_eq!(refused, Err(DropReason::AddressTaken));
        }
        assert!(gates[0].is_answered(&other(SERVER, CLIENT, protocol)));
        assert!(!gates[0].is_answered(&other(SERVER, OTHER_CLIENT, protocol)));
        assert_eq!(send(&mut gates[0], PEER, SERVER, protocol), Ok(()));
    }
}

#[test]
fn other_addresses_other_protocols_and_those_with_ports_are_free() {
    let mut setup = setup(&Portless::default());
    assert_eq!(send(&mut setup, PEER, SERVER, GRE), Ok(()));
    assert_eq!(send(&mut setup, OTHER_PEER, OTHER_SERVER, GRE), Ok(()));
    assert_eq!(send(&mut setup, OTHER_PEER, SERVER, ESP), Ok(()));
    // The kernel tells its flows apart by their ports.
    for peer in [PEER, OTHER_PEER] {
        assert_eq!(send(&mut setup, peer, SERVER, SCTP), Ok(()));
    }
    for (peer, client) in [(PEER, CLIENT), (OTHER_PEER, OTHER_CLIENT)] {
        assert!(
            setup
                .send_from(peer, &udp((client, 1), (SERVER, 2)))
                .is_ok()
        );
    }
}

#[test]
fn an_address_is_free_when_the_first_client_has_been_silent_for_ten_minutes() {
    let mut setup = setup(&Portless::default());
    assert_eq!(send(&mut setup, PEER, SERVER, GRE), Ok(()));
    setup.now_ms += IDLE_MS - 1;
    assert!(setup.is_answered(&other(SERVER, CLIENT, GRE)));
    // An answer keeps it as well; gates are swept all the time.
    let now = setup.now();
    setup.gate.sweep(&setup.table, now, 10);
    setup.now_ms += IDLE_MS - 1;
    let refused = send(&mut setup, OTHER_PEER, SERVER, GRE);
    assert_eq!(refused, Err(DropReason::AddressTaken));
    setup.now_ms += 1;
    assert_eq!(send(&mut setup, OTHER_PEER, SERVER, GRE), Ok(()));
}

#[test]
fn a_client_that_takes_many_addresses_loses_its_own_and_keeps_nobody_out() {
    let mut setup = setup(&Portless::default());
    let address = |number: u32| format!("10.1.{}.{}", number / 256, number % 256);
    for number in 0..600 {
        setup.now_ms += 1;
        assert_eq!(send(&mut setup, PEER, &address(number), GRE), Ok(()));
    }
    assert_eq!(send(&mut setup, OTHER_PEER, &address(0), GRE), Ok(()));
    let refused = send(&mut setup, OTHER_PEER, &address(599), GRE);
    assert_eq!(refused, Err(DropReason::AddressTaken));
}

#[test]
fn clients_that_take_many_addresses_leave_some_to_others() {
    let portless = Portless::default();
    let mut setup = setup(&portless);
    // 35 clients that take 512 each are more than there is room for.
    for client in 0..35_u32 {
        let address = format!("100.65.0.{client}");
        let peer = PeerKey(1000 + client);
        setup.add_client(peer, &address, vec![grant(1, "10.0.0.0/8", &["any"])]);
        for number in 0..600 {
            let to = format!("10.{client}.{}.{}", number / 256, number % 256);
            setup.now_ms += 1;
            assert!(
                setup.send_from(peer, &other(&address, &to, GRE)).is_ok(),
                "{client}"
            );
        }
    }
    assert!(portless.evicted() > 0);
    // The last one that the first took is still its own.
    let refused = send(&mut setup, OTHER_PEER, "10.0.2.87", GRE);
    assert_eq!(refused, Err(DropReason::AddressTaken));
    assert_eq!(send(&mut setup, OTHER_PEER, "10.200.0.1", GRE), Ok(()));
}

#[test]
fn where_resources_see_each_clients_own_address_nobody_is_refused() {
    let mut setup = setup(&Portless::default());
    setup.gate = Gate::new(Seed::new([3; 32]));
    for peer in [PEER, OTHER_PEER] {
        assert_eq!(send(&mut setup, peer, SERVER, GRE), Ok(()));
    }
    for client in [CLIENT, OTHER_CLIENT] {
        assert!(setup.is_answered(&other(SERVER, client, GRE)));
    }
}
