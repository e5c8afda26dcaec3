//! Resources begin flows at clients as the grant says, or the portal since.

use crate::persisted::restart;
use crate::play::{Play, claims, filters, name_claims, resource_id, wanted};
use culvert_base::BootTime;
use culvert_policy::Prefix;
use culvert_policy::gate::{DropReason, Frame, Gate, Seed, Verdict};
use culvert_wire::GrantClaims;
use culvert_wire::messages::ToGateway;
use std::collections::BTreeSet;

const SSH: &str = r#"[{"protocol":"tcp","ports":[22]}]"#;
const MONITOR: [u8; 4] = [10, 0, 9, 1];

fn opening(grant: u8, inbound: &str) -> GrantClaims {
    GrantClaims {
        inbound: filters(inbound),
        ..claims(grant, 5, 9)
    }
}

/// The verdict on the first packet of a connection from the resource to a port of the client.
fn syn(play: &Play, port: u16) -> Result<(), DropReason> {
    let client = claims(1, 5, 9).client_ipv4.octets();
    let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0];
    packet.extend(MONITOR);
    packet.extend(client);
    packet.extend(50_000_u16.to_be_bytes());
    packet.extend(port.to_be_bytes());
    // A SYN without options; checksums are not looked at.
    packet.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 64, 0, 0, 0, 0]);
    let mut gate = Gate::with_max_flows(Seed::new([3; 32]), 64);
    let now = BootTime::from_millis(play.now_ms);
    match gate.admit_to_client(&play.table, now, Frame::packet(&mut packet)) {
        Verdict::Admit(_) | Verdict::AdmitFirst(_) => Ok(()),
        Verdict::Drop(reason) => Err(reason),
    }
}

fn ranges(texts: &[&str]) -> BTreeSet<Prefix> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn set(play: &mut Play, inbound: &str) {
    play.hear(ToGateway::FiltersChanged {
        resource: resource_id(9),
        filters: filters(r#"[{"protocol":"any"}]"#),
        inbound: filters(inbound),
    });
}

#[test]
fn a_grant_opens_what_it_says_until_it_is_revoked_or_has_expired() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    assert_eq!(syn(&play, 22), Err(DropReason::NotAFlow));
    assert_eq!(play.inbound, ranges(&[]));
    play.grant(&opening(2, SSH));
    assert_eq!(syn(&play, 22), Ok(()));
    assert_eq!(syn(&play, 23), Err(DropReason::NotOpened));
    assert_eq!(play.inbound, ranges(&["10.0.9.0/24"]));
    play.revoke(2);
    assert_eq!(syn(&play, 22), Err(DropReason::NotAFlow));
    assert_eq!(play.inbound, ranges(&[]));
    play.grant(&opening(3, SSH));
    assert_eq!(syn(&play, 22), Ok(()));
    play.pass(3_600_000);
    assert!(syn(&play, 22).is_err());
    assert_eq!(play.inbound, ranges(&[]));
}

#[test]
fn the_portal_opens_and_closes_what_grants_in_force_and_waiting_ones_open() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    set(&mut play, SSH);
    assert_eq!(syn(&play, 22), Ok(()));
    set(&mut play, "[]");
    assert_eq!(syn(&play, 22), Err(DropReason::NotAFlow));
    assert_eq!(play.inbound, ranges(&[]));
    // Services that this version does not understand open nothing.
    set(
        &mut play,
        r#"[{"protocol":"quic"},{"protocol":"tcp","ports":[22],"except":"x"}]"#,
    );
    assert!(syn(&play, 22).is_err());
    // The message overtakes a grant that waits for its turn.
    let waiting = play.grant_message(&opening(2, SSH), None, &[]);
    let changed = ToGateway::FiltersChanged {
        resource: resource_id(9),
        filters: filters(r#"[{"protocol":"any"}]"#),
        inbound: filters("[]"),
    };
    play.tell_together([waiting, changed]);
    assert!(syn(&play, 22).is_err());
}

#[test]
fn a_restarted_gateway_opens_what_was_said_last() {
    for (first, last, opens) in [(SSH, "[]", false), ("[]", SSH, true)] {
        let mut play = Play::open();
        play.grant(&opening(1, first));
        set(&mut play, last);
        play.pass(1_000);
        let restarted = restart(&play, 0);
        assert_eq!(syn(&restarted, 22).is_ok(), opens);
        let expected = if opens {
            ranges(&["10.0.9.0/24"])
        } else {
            ranges(&[])
        };
        assert_eq!(restarted.inbound, expected);
    }
}

#[test]
fn names_open_nothing() {
    let mut play = Play::open();
    let named = GrantClaims {
        inbound: filters(r#"[{"protocol":"any"}]"#),
        ..name_claims(1, 5, 9, "*.corp.example")
    };
    play.grant_with(&named, None, &[wanted("db.corp.example", 1)]);
    play.resolved("db.corp.example", crate::play::found(&["10.0.9.1"]));
    assert_eq!(syn(&play, 22), Err(DropReason::NotAFlow));
    assert_eq!(play.inbound, ranges(&[]));
}
