//! Bytes are counted by destination, in both directions.

use crate::packets::{HERE, frame, superframe, udp, udp_between};
use crate::remotes::{Remote, inner, snapshot};
use crate::worker::{BULK, Setup, Worker};
use culvert_base::{Prefix, Traffic, TrafficSlot};
use culvert_datapath::{AllowedIps, Lane, Route, Snapshot};
use culvert_packet::Accept;
use std::net::IpAddr;

const FIRST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, 1));
const SECOND: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 2, 1));
const UNCOUNTED: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 3, 1));

fn slot(index: usize) -> TrafficSlot {
    TrafficSlot::new(index).unwrap()
}

/// Three ranges of one peer; the first is counted at the first place, and the second at the last one.
fn counted(remote: &Remote) -> Snapshot {
    let ranges = [
        (FIRST, Some(slot(0))),
        (SECOND, Some(slot(TrafficSlot::COUNT - 1))),
        (UNCOUNTED, None),
    ];
    let ranges = ranges.map(|(address, counted)| {
        let route = Route {
            peer: remote.id(),
            counted,
        };
        (Prefix::around(address, 24).unwrap(), route)
    });
    Snapshot {
        routes: AllowedIps::new(&ranges.into()),
        ..snapshot(&[remote])
    }
}

fn worker(remote: &Remote) -> Worker {
    let setup = Setup {
        accept: Accept::NONE,
        counts_traffic: true,
        ..Setup::default()
    };
    Worker::with(setup, counted(remote))
}

/// The sums of both counted ranges.
fn sums(worker: &Worker) -> [(u64, u64); 2] {
    [slot(0), slot(TrafficSlot::COUNT - 1)].map(|slot| {
        let Traffic {
            sent_bytes,
            received_bytes,
        } = worker.counters.traffic.read(slot);
        (sent_bytes, received_bytes)
    })
}

fn len(packets: &[Vec<u8>]) -> u64 {
    packets.iter().map(|packet| packet.len() as u64).sum()
}

#[test]
fn each_destination_has_the_bytes_of_its_packets_in_both_directions() {
    let remote = Remote::new(1);
    let mut worker = worker(&remote);
    let out = [
        udp(HERE, FIRST, &[1; 100]),
        udp(HERE, SECOND, &[2; 7]),
        udp(HERE, FIRST, &[3; 1]),
        udp(HERE, UNCOUNTED, &[4; 500]),
    ];
    for packet in &out {
        worker.queue(BULK, frame(packet));
    }
    worker.run();
    assert_eq!(sums(&worker), [(28 + 100 + 28 + 1, 0), (28 + 7, 0)]);
    // Of one length, so that they arrive together.
    let into: Vec<_> = [FIRST, FIRST, SECOND, UNCOUNTED, FIRST]
        .map(|from| udp_between((from, 53), (HERE, 40_000), &[5; 60]))
        .into();
    worker.arrive(Lane::V4, remote.seals(&into));
    worker.run();
    assert_eq!(worker.drops(), []);
    assert_eq!(sums(&worker), [(157, 3 * 88), (35, 88)]);
}

#[test]
fn every_packet_of_a_superframe_counts_with_its_own_headers() {
    let remote = Remote::new(1);
    let mut worker = worker(&remote);
    worker.queue(BULK, superframe(HERE, FIRST, 5));
    worker.run();
    let sent = worker.sent();
    let opened = remote.opens(&sent);
    assert_eq!(opened.len(), 5);
    assert_eq!(sums(&worker)[0], (len(&opened), 0));
}

#[test]
fn nothing_counts_that_did_not_come_from_the_peer_that_has_the_destination() {
    let (remote, other) = (Remote::new(1), Remote::new(2));
    let mut both = counted(&remote);
    both.peers.insert(other.id(), other.peer.clone());
    both.keys.insert(culvert_datapath::Receiving {
        transport: other.receiving.clone(),
        peer: other.peer.clone(),
    });
    let setup = Setup {
        counts_traffic: true,
        ..Setup::default()
    };
    let mut worker = Worker::with(setup, both);
    let forged = udp(inner(2), HERE, b"forged");
    let of_another = udp(FIRST, HERE, b"forged");
    worker.arrive(Lane::V4, remote.seals(&[forged]));
    worker.arrive(Lane::V4, other.seals(&[of_another]));
    worker.run();
    assert_eq!(sums(&worker), [(0, 0), (0, 0)]);
}

#[test]
fn a_device_that_is_not_asked_for_them_counts_no_bytes_by_destination() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(counted(&remote));
    worker.queue(BULK, frame(&udp(HERE, FIRST, b"uncounted")));
    worker.run();
    assert_eq!(worker.sent().len(), 1);
    assert_eq!(sums(&worker), [(0, 0), (0, 0)]);
}
