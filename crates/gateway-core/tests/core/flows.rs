//! Flows that have ended: told where the portal wants to know, and each once.

use crate::play::{Play, claims, client_ipv4, grant_id, resource_id};
use culvert_gateway_core::MAX_WAITING_FLOWS;
use culvert_packet::ip::Protocol;
use culvert_policy::gate::{DropReason, End, FlowRecord, PeerKey, SiteDns, Tally};
use culvert_wire::messages::{
    FlowEnd, FlowReport, FromGateway, GatewayFeature, MAX_FLOWS_PER_REPORT, ToGateway,
};
use std::net::IpAddr;
use std::time::Duration;

/// A flow of client 5 that began ten seconds ago and ended now.
fn record(play: &Play, port: u16, ended: Option<End>) -> FlowRecord {
    let peer = play.peers[&crate::play::key(5)].gate_key;
    let tally = |packets, bytes| Tally { packets, bytes };
    FlowRecord {
        peer,
        grant: grant_id(1),
        resource: resource_id(9),
        client: client_ipv4(5).into(),
        visible: [10, 0, 9, 1].into(),
        remote: [10, 0, 9, 2].into(),
        protocol: Protocol::TCP,
        client_port: 40_000,
        is_inbound: false,
        remote_port: port,
        started: play.now().saturating_sub(Duration::from_secs(10)),
        last: play.now(),
        to_remote: tally(1, 100),
        to_client: tally(2, 2_000),
        ended,
    }
}

/// A gateway with a grant of client 5, whose portal wants to know of flows.
fn watched() -> Play {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.hear(ToGateway::FlowLog { on: true });
    play.said.clear();
    play
}

fn end(play: &mut Play, ports: impl IntoIterator<Item = u16>) {
    let records = ports.into_iter();
    let records = records.map(|port| record(play, port, Some(End::Idle)));
    let records = records.collect();
    play.gateway.handle_flows(records, 0, play.now());
    play.execute();
}

fn reports(play: &mut Play) -> Vec<FlowReport> {
    let said = play.said.drain(..);
    said.filter_map(|message| match message {
        FromGateway::Flows(report) => Some(report),
        _ => None,
    })
    .collect()
}

fn ports(report: &FlowReport) -> Vec<u16> {
    report.flows.iter().map(|flow| flow.port).collect()
}

fn take(play: &mut Play, report: &FlowReport) {
    let (run, batch) = (report.run, report.batch);
    play.hear(ToGateway::FlowsTaken { run, batch });
}

#[test]
fn hello_says_that_it_can_tell_and_nothing_is_told_unasked() {
    let mut play = Play::begin();
    play.connect();
    let Some(FromGateway::Hello { features, .. }) = play.said.first() else {
        panic!("{:?}", play.said);
    };
    assert!(features.contains(&GatewayFeature::Flows));
    play.welcome(&[]);
    play.grant(&claims(1, 5, 9));
    end(&mut play, [443]);
    assert_eq!(reports(&mut play), []);
    // Flows that ended before the portal asked are not reported afterwards.
    play.hear(ToGateway::FlowLog { on: true });
    assert_eq!(reports(&mut play), []);
}

#[test]
fn a_report_says_who_reached_what_when_how_much_and_why_it_ended() {
    let mut play = watched();
    let why = [
        (Some(End::Closed), FlowEnd::Closed),
        (Some(End::Idle), FlowEnd::Idle),
        (Some(End::Denied(DropReason::Expired)), FlowEnd::Policy),
        (Some(End::Replaced), FlowEnd::Replaced),
        (Some(End::Evicted), FlowEnd::Evicted),
        (None, FlowEnd::Stopped),
    ];
    let records = why.map(|(end, _)| record(&play, 443, end)).to_vec();
    play.gateway.handle_flows(records, 3, play.now());
    play.execute();
    let [report] = &reports(&mut play)[..] else {
        panic!("one report");
    };
    assert_eq!((report.batch, report.lost), (1, 3));
    let ends: Vec<FlowEnd> = report.flows.iter().map(|flow| flow.end).collect();
    assert_eq!(ends, why.map(|(_, end)| end));
    let flow = &report.flows[0];
    assert_eq!(flow.client, claims(1, 5, 9).client);
    assert_eq!((flow.resource, flow.grant), (resource_id(9), grant_id(1)));
    assert_eq!((flow.protocol, flow.port), (6, 443));
    assert_eq!(flow.address.to_string(), "10.0.9.2");
    assert_eq!(flow.ended.unix_ms(), play.unix_ms());
    assert_eq!(flow.started.unix_ms(), play.unix_ms() - 10_000);
    assert_eq!((flow.sent_bytes, flow.sent_packets), (100, 1));
    assert_eq!((flow.received_bytes, flow.received_packets), (2_000, 2));
}

#[test]
fn questions_of_a_device_without_a_grant_are_not_told() {
    let mut play = watched();
    let question = FlowRecord {
        grant: SiteDns::NO_GRANT,
        ..record(&play, 53, Some(End::Idle))
    };
    play.gateway.handle_flows(vec![question], 0, play.now());
    play.execute();
    assert_eq!(reports(&mut play), []);
}

#[test]
fn the_next_report_waits_until_the_last_was_taken() {
    let mut play = watched();
    end(&mut play, [1]);
    let first = reports(&mut play).remove(0);
    end(&mut play, [2]);
    end(&mut play, [3]);
    assert_eq!(reports(&mut play), []);
    // Of another run or number, nothing follows.
    play.hear(ToGateway::FlowsTaken {
        run: first.run,
        batch: 9,
    });
    play.hear(ToGateway::FlowsTaken {
        run: !first.run >> 1,
        batch: 1,
    });
    assert_eq!(reports(&mut play), []);
    take(&mut play, &first);
    let second = reports(&mut play).remove(0);
    assert_eq!((second.batch, ports(&second)), (2, vec![2, 3]));
    assert!(!play.gateway.flows_are_told());
    take(&mut play, &second);
    assert!(play.gateway.flows_are_told());
}

#[test]
fn over_a_new_connection_the_same_report_comes_by_the_same_number() {
    let mut play = watched();
    end(&mut play, [1]);
    let first = reports(&mut play).remove(0);
    play.disconnect();
    // They wait for the portal meanwhile.
    end(&mut play, [2]);
    play.reconnect(&[grant_id(1)]);
    assert_eq!(reports(&mut play), [], "it is yet to ask");
    play.hear(ToGateway::FlowLog { on: true });
    assert_eq!(reports(&mut play), std::slice::from_ref(&first));
    take(&mut play, &first);
    assert_eq!(ports(&reports(&mut play)[0]), [2]);
}

#[test]
fn what_the_portal_does_not_take_it_hears_again() {
    let mut play = watched();
    end(&mut play, [1]);
    let first = reports(&mut play).remove(0);
    play.pass(29_000);
    assert_eq!(reports(&mut play), []);
    play.pass(2_000);
    assert_eq!(reports(&mut play), [first]);
}

#[test]
fn a_portal_that_no_longer_wants_to_know_has_everything_forgotten() {
    let mut play = watched();
    end(&mut play, [1]);
    end(&mut play, [2]);
    play.hear(ToGateway::FlowLog { on: false });
    end(&mut play, [3]);
    play.said.clear();
    play.hear(ToGateway::FlowLog { on: true });
    play.pass(60_000);
    assert_eq!(reports(&mut play), []);
}

#[test]
fn flows_end_after_their_client_is_gone_and_are_still_its_own() {
    let mut play = watched();
    let late = record(&play, 1, Some(End::Denied(DropReason::NoGrant)));
    play.revoke(1);
    assert!(play.peers.is_empty());
    play.gateway.handle_flows(vec![late], 0, play.now());
    play.execute();
    let report = reports(&mut play).remove(0);
    assert_eq!(report.flows[0].client, claims(1, 5, 9).client);
    take(&mut play, &report);
    // Of a number that was never given nobody knows whose it is.
    let strange = FlowRecord {
        peer: PeerKey(77),
        ..late
    };
    play.gateway.handle_flows(vec![strange], 0, play.now());
    play.execute();
    let report = reports(&mut play).remove(0);
    assert_eq!((report.flows.len(), report.lost), (0, 1));
}

#[test]
fn what_does_not_fit_is_lost_and_counted_and_reports_are_bounded() {
    let mut play = watched();
    let extra = 10;
    let one = record(&play, 1, Some(End::Closed));
    let records = vec![one; MAX_WAITING_FLOWS + extra];
    play.gateway.handle_flows(records, 0, play.now());
    play.execute();
    let (mut told, mut lost) = (0, 0);
    while let Some(report) = reports(&mut play).pop() {
        assert!(report.flows.len() <= MAX_FLOWS_PER_REPORT);
        told += report.flows.len();
        lost += report.lost;
        take(&mut play, &report);
    }
    assert_eq!((told, lost), (MAX_WAITING_FLOWS, extra as u64));
}

#[test]
fn questions_about_names_are_no_flows_of_a_resource() {
    let mut play = watched();
    let question = FlowRecord {
        remote: [100, 64, 0, 1].into(),
        remote_port: 20_053,
        ..record(&play, 1, Some(End::Idle))
    };
    let same_port_of_another = record(&play, 20_053, Some(End::Idle));
    let records = vec![question, same_port_of_another];
    play.gateway.handle_flows(records, 0, play.now());
    play.execute();
    let reports = reports(&mut play);
    assert_eq!(reports.iter().flat_map(ports).collect::<Vec<_>>(), [20_053]);
    assert_eq!(reports[0].flows[0].address, IpAddr::from([10, 0, 9, 2]));
}
