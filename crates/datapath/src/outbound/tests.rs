use super::*;
use crate::allowed_ips::AllowedIps;
use crate::counters::Dropped;
use crate::event::Event;
use crate::mechanisms::Mechanisms;
use crate::peer::Peer;
use crate::peer_table::PeerTable;
use crate::testing::{self, MemoryShell, NoQueueCredit};
use culvert_base::BootTime;
use culvert_base::Prefix;
use culvert_base::frames::PRIORITY_QUEUE;
use culvert_packet::VNET_HEADER_LEN;
use culvert_session::{Clock, Handshaker, Output, PrivateKey, Tai64n, Transport};
use std::sync::Arc;

const PEER: PeerId = PeerId(0);
const MTU: u16 = 1420;
/// So many of the largest packets leave in one send.
const FULL: usize = 45;
const START: BootTime = BootTime::from_nanos(1_000_000_000_000);

/// A key that a handshake has brought.
fn sending() -> Arc<Transport> {
    let clock = Clock {
        now: START,
        wall: Tai64n::from_unix(1_800_000_000, 0),
    };
    let keys = [1, 2].map(|number| PrivateKey::from_bytes([number; 32]));
    let publics = [keys[1].public_key(), keys[0].public_key()];
    let mut ends = [1, 2].map(|seed| Handshaker::new([seed; 32]));
    for ((end, key), public) in ends.iter_mut().zip(keys).zip(publics) {
        end.set_private_key(Some(key), clock);
        end.set_up(true, clock);
        end.add_peer(public).unwrap();
    }
    ends[0].handle_wanted(PEER, clock);
    // The initiation, then the response.
    for from in [0, 1] {
        let sent =
            std::iter::from_fn(|| ends[from].poll_output()).find_map(|output| match output {
                Output::Send { datagram, .. } => Some(datagram),
                _ => None,
            });
        let address = "192.0.2.1:1".parse().unwrap();
        let to = &mut ends[1 - from];
        to.handle_datagram(&sent.unwrap(), address, false, clock)
            .unwrap();
    }
    ends[0].sending(PEER).unwrap()
}

fn peer(snapshot: &Snapshot) -> &Peer {
    snapshot.peer(PEER).unwrap()
}

fn snapshot() -> Snapshot {
    let peer = Peer::new(PEER, PublicKey::from_bytes([2; 32]), Arc::default());
    peer.set_endpoint("192.0.2.1:1".parse().unwrap());
    peer.set_keys(Some(sending()), None);
    let range = Prefix::new([10, 8, 0, 0].into(), 16).unwrap();
    let mut peers = PeerTable::default();
    peers.insert(PEER, Arc::new(peer));
    Snapshot {
        routes: AllowedIps::new(&[(range, PEER.into())].into()),
        peers,
        ..testing::snapshot(MTU)
    }
}

fn context() -> Context<MemoryShell> {
    let mut shell = MemoryShell::new(3);
    shell.now = START;
    Context::new(shell, 0, Mechanisms::ALL, Arc::default(), None)
}

/// A frame of the TUN with so many TCP segments of full size.
fn superframe(segments: usize) -> Vec<u8> {
    const HEADERS: usize = 40;
    let payload = usize::from(MTU) - HEADERS;
    let len = HEADERS + segments * payload;
    let mut frame = vec![0; VNET_HEADER_LEN + len];
    frame[..2].copy_from_slice(&[1, 1]);
    for (at, value) in [(2, HEADERS), (4, payload), (6, 20), (8, 16)] {
        frame[at..at + 2].copy_from_slice(&u16::try_from(value).unwrap().to_le_bytes());
    }
    let packet = &mut frame[VNET_HEADER_LEN..];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&u16::try_from(len).unwrap().to_be_bytes());
    packet[8..10].copy_from_slice(&[64, 6]);
    packet[12..20].copy_from_slice(&[10, 9, 0, 1, 10, 8, 0, 1]);
    packet[32..34].copy_from_slice(&[0x50, 0x10]);
    frame
}

/// A frame of the TUN with a packet that has nothing behind its IP header.
fn small_frame() -> Vec<u8> {
    const HEADER: usize = 20;
    let mut frame = vec![0; VNET_HEADER_LEN + HEADER];
    let packet = &mut frame[VNET_HEADER_LEN..];
    packet[..4].copy_from_slice(&[0x45, 0, 0, 20]);
    packet[8..10].copy_from_slice(&[64, 1]);
    packet[12..20].copy_from_slice(&[10, 9, 0, 1, 10, 8, 0, 1]);
    frame
}

/// The number of the bulk queue.
const BULK_QUEUE: usize = 2;

/// The road out between a TUN and sockets in memory.
struct RoadOut {
    outbound: Outbound,
    snapshot: Snapshot,
    context: Context<MemoryShell>,
    queues: Queues<NoQueueCredit>,
    budget: usize,
}

impl RoadOut {
    fn new() -> Self {
        Self {
            outbound: Outbound::new(0),
            snapshot: snapshot(),
            context: context(),
            queues: Queues::new(3, Vec::new(), true),
            budget: BUDGET_FRAMES,
        }
    }

    fn queue(&mut self, queue: usize, frame: Vec<u8>) {
        self.context.shell.queues[queue].push_back(Ok(frame));
        self.queues.set_ready(1 << queue);
    }

    fn turn(&mut self, scope: Scope) -> Progress {
        let (context, queues) = (&mut self.context, &mut self.queues);
        self.outbound
            .turn(&self.snapshot, context, queues, scope, &mut self.budget)
            .unwrap()
    }

    fn frames_read(&self) -> u64 {
        self.context.counters.tun_frames_received.read()
    }
}

#[test]
fn a_worker_polls_for_priority_packets_before_and_after_a_full_batch_leaves() {
    let mut road = RoadOut::new();
    for _ in 0..2 {
        road.queue(BULK_QUEUE, superframe(FULL));
    }
    for frames in [1, 2] {
        assert_eq!(road.turn(Scope::All), Progress::Pause);
        assert!(road.outbound.batch.sealed().is_some(), "before");
        assert_eq!(road.turn(Scope::All), Progress::Pause);
        assert!(road.outbound.batch.is_empty(), "after");
        assert_eq!(road.frames_read(), frames);
    }
    assert_eq!(road.turn(Scope::All), Progress::Idle);
}

#[test]
fn what_a_look_finds_leaves_with_it_after_the_batch_that_is_sealed() {
    let mut road = RoadOut::new();
    road.queue(BULK_QUEUE, superframe(FULL));
    assert_eq!(road.turn(Scope::All), Progress::Pause);
    road.queue(BULK_QUEUE, superframe(FULL));
    road.queue(PRIORITY_QUEUE, small_frame());
    assert_eq!(road.turn(Scope::Priority), Progress::Idle);
    assert!(road.outbound.batch.is_empty(), "both have left");
    assert_eq!(road.frames_read(), 2, "no further superframe");
}

#[test]
fn a_batch_with_room_waits_for_the_next_frame() {
    let mut road = RoadOut::new();
    road.queue(BULK_QUEUE, superframe(FULL - 1));
    assert_eq!(road.turn(Scope::All), Progress::Pause);
    assert!(road.outbound.batch.sealed().is_none());
    assert_eq!(road.outbound.batch.records(), FULL - 1);
}

#[test]
fn a_copy_seals_nothing() {
    let mut road = RoadOut::new();
    assert!(!road.context.begin_turn(&road.snapshot));
    let sending = peer(&road.snapshot).sending_key().unwrap();
    let reserved = || sending.transport.reserve(1, START);
    assert_eq!(reserved().unwrap().first(), 0);

    // The turn began long ago.
    road.context.shell.wall_ahead = std::time::Duration::from_secs(60);
    for _ in 0..3 {
        road.queue(BULK_QUEUE, small_frame());
    }
    assert_eq!(road.turn(Scope::All), Progress::Idle);
    let dropped = road.context.counters.dropped(Dropped::CountersExhausted);
    assert!(dropped > 0, "records that were laid out are not sealed");
    assert!(reserved().is_none(), "the key is of no use any more");
    let events = road.context.shell.events.borrow();
    let is_told = |event: &Event| matches!(event, Event::PerhapsCopied { .. });
    assert!(events.iter().any(is_told), "the control thread is told");
    drop(events);
    assert!(road.context.shell.sent.borrow().is_empty());
    assert!(road.context.begin_turn(&road.snapshot), "nor later");
}

#[test]
fn small_packets_leave_without_a_further_look() {
    let mut road = RoadOut::new();
    for _ in 0..3 {
        road.queue(BULK_QUEUE, small_frame());
    }
    assert_eq!(road.turn(Scope::All), Progress::Idle);
    assert!(road.outbound.batch.is_empty());
    assert_eq!(road.frames_read(), 3);
}

#[test]
fn a_turn_ends_once_the_last_batch_of_its_budget_has_left() {
    let mut road = RoadOut::new();
    road.budget = 2 * BUDGET_FRAMES / BUDGET_SUPERFRAMES;
    for _ in 0..3 {
        road.queue(BULK_QUEUE, superframe(FULL - 1));
    }
    while road.turn(Scope::All) == Progress::Pause {}
    assert_eq!(road.turn(Scope::All), Progress::More);
    assert!(road.outbound.batch.is_empty());
    assert_eq!(road.frames_read(), 2);
}

#[test]
fn every_packet_of_a_superframe_that_is_dropped_is_counted() {
    let dropped = |frame: Vec<u8>, change: fn(&mut RoadOut), reason: Dropped| {
        let mut road = RoadOut::new();
        change(&mut road);
        road.queue(BULK_QUEUE, frame);
        while road.turn(Scope::All) == Progress::Pause {}
        road.outbound
            .staging
            .retain(|_| false, reason, &road.context.counters);
        road.outbound.abandon(&road.context);
        road.context.counters.dropped(reason)
    };
    let other: fn(&mut RoadOut) = |road| road.snapshot.routes = AllowedIps::default();
    assert_eq!(
        dropped(superframe(FULL), other, Dropped::NoPeer),
        FULL as u64
    );
    let no_key: fn(&mut RoadOut) = |road| {
        peer(&road.snapshot).set_keys(None, None);
    };
    assert_eq!(
        dropped(superframe(FULL), no_key, Dropped::PeerGone),
        FULL as u64
    );
    // Of two batches the first waits for room, and the rest of the frame behind it.
    let full_socket: fn(&mut RoadOut) = |road| {
        let faults = [crate::shell::SendFault::WouldBlock; 8];
        road.context.shell.send_faults.borrow_mut().extend(faults);
    };
    let lost = dropped(superframe(FULL + 1), full_socket, Dropped::SendFailed);
    assert_eq!(lost, FULL as u64 + 1);
}
