//! The gate of a gateway: packets of clients are judged, translated and answered, and so are those to them.

use crate::packets::{HERE, echo, frame, icmp_of, packet_of, superframe, tcp, udp, udp_between};
use crate::remotes::{Remote, inner, snapshot, snapshot_without_keys};
use crate::worker::{BULK, Setup, Worker};
use culvert_base::BootTime;
use culvert_datapath::{Dropped, Gates, Lane, Snapshot};
use culvert_packet::Accept;
use culvert_packet::ip::IpView;
use culvert_policy::Filters;
use culvert_policy::gate::{
    ClientGrants, DropReason, GateTable, Grant, MAX_FLOWS_PER_CLIENT, Mapping, PeerKey, Reach,
};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

const GRANT: &str = "grt_00000000000000000000000001";
const RESOURCE: &str = "res_00000000000000000000000002";

/// A server that the first client may reach.
const SERVER: IpAddr = HERE;

/// A server that nobody may reach.
const SECRET: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 66, 0, 1));

/// Each client has the address of its peer; the first one has a grant for [`SERVER`] until `expires`.
fn table(remotes: &[&Remote], expires: BootTime) -> Arc<GateTable> {
    let mut table = GateTable::new();
    for (place, remote) in remotes.iter().enumerate() {
        let key = PeerKey(remote.id().0);
        remote.peer.set_gate_key(key);
        let grant = Grant {
            id: GRANT.parse().unwrap(),
            resource: RESOURCE.parse().unwrap(),
            reach: Reach::Addresses("10.9.0.0/24".parse().unwrap()),
            filters: Filters::any(),
            inbound: Filters::none(),
            expires,
        };
        let grants = if place == 0 { vec![grant] } else { Vec::new() };
        let client = ClientGrants::new(key, vec![remote.inner()], grants).unwrap();
        table.set_client(client).unwrap();
    }
    Arc::new(table)
}

/// The same, but all of them have the grant.
fn table_of_all(remotes: &[&Remote]) -> GateTable {
    let mut all = GateTable::new();
    for remote in remotes {
        let alone = table(&[remote], BootTime::MAX);
        let client = alone.client(PeerKey(remote.id().0)).unwrap();
        all.set_client(client.clone()).unwrap();
    }
    all
}

fn gated(remotes: &[&Remote]) -> Snapshot {
    Snapshot {
        gate: Some(table(remotes, BootTime::MAX)),
        ..snapshot(remotes)
    }
}

fn worker(snapshot: Snapshot) -> Worker {
    worker_with(Arc::new(Gates::new([[1; 32], [2; 32]], false)), snapshot)
}

fn worker_with(gates: Arc<Gates>, snapshot: Snapshot) -> Worker {
    let setup = Setup {
        accept: Accept::NONE,
        gates: Some(gates),
        ..Setup::default()
    };
    Worker::with(setup, snapshot)
}

fn arrive(worker: &mut Worker, remote: &Remote, packet: &[u8]) -> Vec<Vec<u8>> {
    worker.arrive(Lane::V4, remote.seals(&[packet.to_vec()]));
    worker.run();
    let written = worker.written();
    written.iter().map(|it| packet_of(it).to_vec()).collect()
}

#[test]
fn a_packet_that_a_grant_allows_passes_and_its_answer_too() {
    let client = Remote::new(1);
    let mut worker = worker(gated(&[&client]));
    let question = udp(client.inner(), SERVER, b"question");
    assert_eq!(arrive(&mut worker, &client, &question), [question]);
    let answer = udp_between((SERVER, 53), (client.inner(), 40_000), b"answer");
    worker.queue(BULK, frame(&answer));
    worker.run();
    assert_eq!(client.opens(&worker.sent()), [answer]);
    assert_eq!(worker.gate_drops(), []);
    assert_eq!(worker.drops(), []);
}

#[test]
fn a_packet_that_no_grant_allows_is_counted_and_its_sender_hears_so_through_the_tunnel() {
    let client = Remote::new(1);
    let mut worker = worker(gated(&[&client]));
    let packet = udp(client.inner(), SECRET, b"let me in");
    assert_eq!(arrive(&mut worker, &client, &packet), Vec::<Vec<u8>>::new());
    assert_eq!(worker.gate_drops(), [(DropReason::NoGrant, 1)]);
    let answers = client.opens(&worker.sent());
    assert_eq!(answers.len(), 1);
    assert_eq!(icmp_of(&answers[0]), [3, 13]);
    let view = IpView::parse(&answers[0]).unwrap();
    assert_eq!(
        (view.source(), view.destination()),
        (client.inner(), client.inner())
    );
    assert!(answers[0].ends_with(&packet));
}

#[test]
fn a_client_that_floods_hears_fifty_answers_at_once_and_another_one_hears_its_own() {
    let (flooding, quiet) = (Remote::new(1), Remote::new(2));
    let mut worker = worker(gated(&[&flooding, &quiet]));
    for _ in 0..200 {
        let packet = udp(flooding.inner(), SECRET, b"");
        worker.arrive(Lane::V4, flooding.seals(&[packet]));
    }
    let packet = udp(quiet.inner(), SECRET, b"");
    worker.arrive(Lane::V4, quiet.seals(&[packet]));
    worker.run();
    assert_eq!(worker.gate_drops(), [(DropReason::NoGrant, 201)]);
    let sent = worker.sent();
    let (to_quiet, to_flooding): (Vec<_>, Vec<_>) = sent
        .into_iter()
        .partition(|sent| sent.to.address == crate::remotes::endpoint(2));
    assert_eq!(quiet.opens(&to_quiet).len(), 1);
    assert_eq!(flooding.opens(&to_flooding).len(), 50);
}

#[test]
fn the_answer_to_a_client_that_is_removed_meanwhile_is_counted() {
    let (client, other) = (Remote::new(1), Remote::new(2));
    let mut worker = worker(gated(&[&client, &other]));
    // The answer waits behind a full socket, and its client goes.
    let faults = &worker.device().sockets.send_faults;
    let full = Some(culvert_datapath::SendFault::WouldBlock);
    faults.borrow_mut().push_back(full);
    let question = udp(other.inner(), SECRET, b"");
    arrive(&mut worker, &other, &question);
    let packet = udp(client.inner(), SECRET, b"");
    arrive(&mut worker, &client, &packet);
    worker.publish(gated(&[&other]));
    worker.has_room(Lane::V4);
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::AnswerGone, 1)]);
    assert_eq!(other.opens(&worker.sent()).len(), 1);
}

#[test]
fn a_forged_source_is_counted_and_not_answered() {
    let (client, victim) = (Remote::new(1), Remote::new(2));
    let mut both = gated(&[&client, &victim]);
    // The routes have the address with the wrong peer: the gate has the last word.
    let range = culvert_base::Prefix::around(inner(0), 8).unwrap();
    both.routes = culvert_datapath::AllowedIps::new(&[(range, client.id().into())].into());
    let mut worker = worker(both);
    let packet = udp(victim.inner(), SERVER, b"");
    assert_eq!(arrive(&mut worker, &client, &packet), Vec::<Vec<u8>>::new());
    assert_eq!(worker.gate_drops(), [(DropReason::ForgedSource, 1)]);
    assert_eq!(worker.sent(), []);
}

#[test]
fn a_grant_that_has_expired_lets_nothing_pass() {
    let client = Remote::new(1);
    let expires = crate::device::START.saturating_add(Duration::from_secs(1));
    let snapshot = Snapshot {
        gate: Some(table(&[&client], expires)),
        ..snapshot(&[&client])
    };
    let mut worker = worker(snapshot);
    let packet = udp(client.inner(), SERVER, b"");
    assert_eq!(arrive(&mut worker, &client, &packet).len(), 1);
    worker.advance(Duration::from_secs(2));
    assert_eq!(arrive(&mut worker, &client, &packet).len(), 0);
    assert_eq!(worker.gate_drops(), [(DropReason::Expired, 1)]);
}

#[test]
fn a_device_with_gates_and_no_table_lets_nothing_pass_in_either_direction() {
    let client = Remote::new(1);
    let mut worker = worker(snapshot(&[&client]));
    let packet = udp(client.inner(), SERVER, b"");
    assert_eq!(arrive(&mut worker, &client, &packet).len(), 0);
    let answers = client.opens(&worker.sent());
    assert_eq!(icmp_of(&answers[0]), [3, 13]);
    worker.queue(BULK, superframe(SERVER, client.inner(), 6));
    worker.run();
    assert_eq!(worker.sent(), []);
    assert_eq!(worker.gate_drops(), [(DropReason::NoGrant, 7)]);
}

#[test]
fn a_packet_to_a_client_that_answers_nothing_is_counted_with_each_of_its_segments() {
    let client = Remote::new(1);
    let mut worker = worker(gated(&[&client]));
    worker.queue(BULK, superframe(SERVER, client.inner(), 6));
    worker.queue(BULK, frame(&echo(SERVER, client.inner())));
    worker.run();
    assert_eq!(worker.sent(), []);
    let dropped: u64 = worker.gate_drops().iter().map(|(_, count)| count).sum();
    assert_eq!(dropped, 7);
}

/// The address that stands for [`SERVER`] in the grant by name.
const NAME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(100, 96, 0, 1));

/// A client that reaches [`SERVER`] by name alone, so that the gate translates its packets.
fn table_by_name(client: &Remote) -> Arc<GateTable> {
    let key = PeerKey(client.id().0);
    client.peer.set_gate_key(key);
    let grant = Grant {
        id: GRANT.parse().unwrap(),
        resource: RESOURCE.parse().unwrap(),
        reach: Reach::Names(vec![Mapping::new(NAME, SERVER).unwrap()]),
        filters: Filters::any(),
        inbound: Filters::none(),
        expires: BootTime::MAX,
    };
    let mut table = GateTable::new();
    let grants = ClientGrants::new(key, vec![client.inner()], vec![grant]);
    table.set_client(grants.unwrap()).unwrap();
    Arc::new(table)
}

#[test]
fn a_frame_that_waits_for_a_key_passes_the_gate_again_as_it_came() {
    let client = Remote::new(1);
    let gate = Some(table_by_name(&client));
    let with_key = || Snapshot {
        gate: gate.clone(),
        ..snapshot(&[&client])
    };
    let mut worker = worker(with_key());
    let question = udp(client.inner(), NAME, b"question");
    let arrived = arrive(&mut worker, &client, &question);
    assert_eq!(arrived, [udp(client.inner(), SERVER, b"question")]);
    let keyless = Snapshot {
        gate: gate.clone(),
        ..snapshot_without_keys(&[&client])
    };
    worker.publish(keyless);
    let answer = udp_between((SERVER, 53), (client.inner(), 40_000), b"answer");
    worker.queue(BULK, frame(&answer));
    worker.run();
    assert_eq!(worker.sent(), []);
    worker.publish(with_key());
    worker.run();
    let translated = udp_between((NAME, 53), (client.inner(), 40_000), b"answer");
    assert_eq!(client.opens(&worker.sent()), [translated]);
    assert_eq!(worker.gate_drops(), []);
}

#[test]
fn a_superframe_of_a_client_is_judged_by_its_first_packet_and_counted_by_all() {
    let client = Remote::new(1);
    let gates = Gates::new([[1; 32]], false);
    let setup = Setup {
        gates: Some(Arc::new(gates)),
        ..Setup::default()
    };
    let mut worker = Worker::with(setup, gated(&[&client]));
    let segments: Vec<_> = (0..8)
        .map(|number| tcp(client.inner(), SECRET, 1_000 * number, &[7; 1_000]))
        .collect();
    worker.arrive(Lane::V4, client.seals(&segments));
    worker.run();
    let dropped: u64 = worker.gate_drops().iter().map(|(_, count)| count).sum();
    assert_eq!(dropped, 8);
    assert_eq!(worker.written(), Vec::<Vec<u8>>::new());
}

/// One client begins 100,000 flows, three times its share, while another one has a flow and pings under way.
#[test]
fn a_port_scan_of_one_client_leaves_the_flows_of_another_alone() {
    const BATCH: usize = 50;
    const ROUNDS: u32 = 100;
    let (quiet, scanning) = (Remote::new(1), Remote::new(2));
    let snapshot = Snapshot {
        gate: Some(Arc::new(table_of_all(&[&quiet, &scanning]))),
        ..snapshot(&[&quiet, &scanning])
    };
    // Both are in one gate.
    let gates = Arc::new(Gates::new([[1; 32]], false));
    let mut worker = worker_with(Arc::clone(&gates), snapshot);
    let question = udp(quiet.inner(), SERVER, b"question");
    assert_eq!(arrive(&mut worker, &quiet, &question), [question]);
    let answer = udp_between((SERVER, 53), (quiet.inner(), 40_000), b"answer");
    let ping = echo(quiet.inner(), SERVER);
    let mut begun = 0_u32;
    for round in 0..ROUNDS {
        // As fast as a client may begin flows: 1,000 in 62 ms are 16,129 a second.
        worker.advance(Duration::from_millis(62));
        for _ in 0..1_000 / BATCH {
            let scan: Vec<Vec<u8>> = (0..BATCH)
                .map(|_| {
                    begun += 1;
                    let [_, high, middle, low] = begun.to_be_bytes();
                    let to = IpAddr::from([10, 9, 0, high]);
                    let ports = (
                        u16::from_be_bytes([1, middle]),
                        u16::from_be_bytes([2, low]),
                    );
                    udp_between((scanning.inner(), ports.0), (to, ports.1), b"")
                })
                .collect();
            worker.arrive(Lane::V4, scanning.seals(&scan));
        }
        worker.run();
        worker.written();
        worker.queue(BULK, frame(&answer));
        worker.run();
        assert_eq!(
            quiet.opens(&worker.sent()),
            std::slice::from_ref(&answer),
            "round {round}"
        );
        assert_eq!(
            arrive(&mut worker, &quiet, &ping),
            std::slice::from_ref(&ping),
            "round {round}"
        );
    }
    assert_eq!(worker.gate_drops(), []);
    assert_eq!(worker.drops(), []);
    // Beside what the quiet one has.
    assert_eq!(gates.flow_count(), MAX_FLOWS_PER_CLIENT + 2);
    let evicted = u64::from(begun) - MAX_FLOWS_PER_CLIENT as u64;
    assert_eq!(gates.evicted().own_share, evicted);
}
