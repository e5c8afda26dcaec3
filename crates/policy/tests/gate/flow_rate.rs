//! A client begins 16,384 flows a second, and 2,048 at once; as many resources begin at it.

use crate::packets::{SYN, tcp_with, udp};
use crate::setup::{CLIENT, OTHER_CLIENT, OTHER_PEER, PEER, Setup, filters, grant};
use culvert_policy::gate::{DropReason, Grant, MAX_FLOWS};

const AT_ONCE: usize = 2_048;
const PER_S: usize = 16_384;
const SECOND_MS: u64 = 1_000;

/// A grant of everything, in both directions.
fn open() -> Vec<Grant> {
    vec![Grant {
        inbound: filters(&["any"]),
        ..grant(1, "10.0.0.0/8", &["any"])
    }]
}

fn setup() -> Setup {
    let mut setup = Setup::with_max_flows(open(), MAX_FLOWS);
    setup.add_client(OTHER_PEER, OTHER_CLIENT, open());
    // A client without a flow begins anew, as does its rate.
    setup.assert_sends(&udp((CLIENT, 1), ("10.255.0.1", 53)));
    setup.now_ms += SECOND_MS;
    setup
}

/// The address and the port of flow `number`.
fn target(number: usize) -> (String, u16) {
    let (host, port) = (number / 50_000, number % 50_000);
    (format!("10.0.0.{host}"), 1 + port as u16)
}

/// Sends a SYN for each of these flows, and returns how many were let pass; the others were dropped for the rate.
fn scan(setup: &mut Setup, numbers: std::ops::Range<usize>) -> usize {
    let mut passed = 0;
    for number in numbers {
        let (host, port) = target(number);
        let syn = tcp_with((CLIENT, 40_000), (&host, port), SYN, b"");
        match setup.send_from(PEER, &syn) {
            Ok(_) => passed += 1,
            Err(reason) => assert_eq!(reason, DropReason::FlowRate),
        }
    }
    passed
}

#[test]
fn a_client_that_scans_begins_so_many_flows_at_once_and_so_many_a_second() {
    let mut setup = setup();
    assert_eq!(scan(&mut setup, 0..10_000), AT_ONCE);
    let mut passed = 0;
    for tenth in 0..10 {
        setup.now_ms += SECOND_MS / 10;
        passed += scan(&mut setup, tenth * 10_000 + 10_000..tenth * 10_000 + 20_000);
    }
    assert!(passed.abs_diff(PER_S) <= 10, "{passed}");
}

#[test]
fn a_flow_that_began_goes_on_while_its_client_may_begin_none() {
    let mut setup = setup();
    assert_eq!(scan(&mut setup, 0..AT_ONCE + 1), AT_ONCE);
    let (host, port) = target(0);
    setup.assert_sends(&tcp_with((CLIENT, 40_000), (&host, port), SYN, b""));
    setup.assert_answers(&udp(("10.255.0.1", 53), (CLIENT, 1)));
}

#[test]
fn another_client_begins_flows_beside_one_that_scans() {
    let mut setup = setup();
    assert_eq!(scan(&mut setup, 0..AT_ONCE + 1), AT_ONCE);
    for port in 1..=100 {
        let query = udp((OTHER_CLIENT, port), ("10.0.0.1", 53));
        assert!(setup.send_from(OTHER_PEER, &query).is_ok());
    }
}

#[test]
fn resources_that_begin_too_many_flows_at_a_client_take_none_of_its_own() {
    let mut setup = setup();
    let mut passed = 0;
    for number in 0..AT_ONCE + 10 {
        let syn = tcp_with(("10.1.0.1", 1 + number as u16), (CLIENT, 22), SYN, b"");
        passed += usize::from(setup.is_answered(&syn));
    }
    assert_eq!(passed, AT_ONCE);
    let late = tcp_with(("10.1.0.2", 1), (CLIENT, 22), SYN, b"");
    setup.assert_no_answer(&late, DropReason::FlowRate);
    assert_eq!(scan(&mut setup, 0..AT_ONCE + 1), AT_ONCE);
}
