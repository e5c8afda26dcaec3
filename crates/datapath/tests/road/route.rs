//! The way of a frame of the TUN to its peer, and the answers to frames that have none.

use crate::device::START;
use crate::packets::{HERE, HERE_V6, echo, frame, icmp_of, packet_of, superframe, udp};
use crate::remotes::{MTU, Remote, endpoint, inner, inner_v6, snapshot};
use crate::worker::{BULK, Worker};
use culvert_base::Prefix;
use culvert_base::frames::QueueFault;
use culvert_datapath::{AllowedIps, Dropped, Event, Inside};
use culvert_packet::ip::IpView;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));

#[test]
fn each_packet_goes_to_the_endpoint_of_the_peer_that_owns_its_destination() {
    let remotes = [Remote::new(1), Remote::new(2)];
    let mut worker = Worker::new(snapshot(&[&remotes[0], &remotes[1]]));
    for remote in &remotes {
        let packets = [
            udp(HERE, remote.inner(), b"over IPv4"),
            udp(HERE_V6, inner_v6(remote.id().0), b"over IPv6"),
        ];
        for packet in &packets {
            worker.queue(BULK, frame(packet));
        }
        worker.run();
        let sent = worker.sent();
        assert!(
            sent.iter()
                .all(|it| it.to.address == endpoint(remote.id().0))
        );
        assert_eq!(remote.opens(&sent), packets);
    }
    assert_eq!(worker.drops(), []);
}

#[test]
fn of_two_ranges_around_a_destination_the_longer_one_decides() {
    let remotes = [Remote::new(1), Remote::new(2)];
    let mut snapshot = snapshot(&[&remotes[0], &remotes[1]]);
    let range = |len| Prefix::around(inner(1), len).unwrap();
    let ranges = [
        (range(8), remotes[0].id().into()),
        (range(32), remotes[1].id().into()),
    ];
    snapshot.routes = AllowedIps::new(&ranges.into());
    let mut worker = Worker::new(snapshot);
    worker.queue(BULK, frame(&udp(HERE, inner(1), b"")));
    worker.queue(BULK, frame(&udp(HERE, inner(9), b"")));
    worker.run();
    let to: Vec<_> = worker.sent().iter().map(|sent| sent.to.address).collect();
    assert_eq!(to, [endpoint(2), endpoint(1)]);
}

#[test]
fn a_packet_that_no_peer_owns_is_counted_and_its_sender_hears_that_the_host_is_unreachable() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let packet = udp(HERE, NOBODY, b"to nobody");
    worker.queue(BULK, frame(&packet));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::NoPeer, 1)]);
    let written = worker.written();
    let answer = packet_of(&written[0]);
    assert_eq!(icmp_of(answer), [3, 1]);
    assert!(answer.ends_with(&packet), "it quotes the packet");
    assert_eq!(IpView::parse(answer).unwrap().destination(), HERE);
    assert_eq!(worker.counters.icmp_sent.read(), 1);
    assert_eq!(worker.sent(), []);
}

#[test]
fn every_segment_of_a_superframe_without_a_route_is_counted_and_one_answer_is_written() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    worker.queue(BULK, superframe(HERE, NOBODY, 30));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::NoPeer, 30)]);
    assert!(worker.counters.icmp_sent.read() <= 1);
}

#[test]
fn fifty_answers_are_written_at_once_and_then_one_a_millisecond() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let flood = |worker: &mut Worker| {
        for _ in 0..100 {
            worker.queue(BULK, frame(&udp(HERE, NOBODY, b"")));
        }
        worker.run();
        worker.written().len()
    };
    assert_eq!(flood(&mut worker), 50);
    assert_eq!(flood(&mut worker), 0);
    worker.advance(Duration::from_millis(7));
    assert_eq!(flood(&mut worker), 7);
    assert_eq!(worker.counters.icmp_sent.read(), 57);
    assert_eq!(worker.drops(), [(Dropped::NoPeer, 300)]);
}

#[test]
fn an_answer_that_the_tun_does_not_take_is_not_counted_as_sent() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let faults = &worker.device().tun.write_faults;
    faults.borrow_mut().push_back(QueueFault::Passing);
    worker.queue(BULK, frame(&udp(HERE, NOBODY, b"")));
    worker.run();
    assert_eq!(worker.counters.icmp_sent.read(), 0);
}

#[test]
fn an_error_of_icmp_is_not_answered_with_another() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let original = udp(NOBODY, HERE, b"");
    let mut error = [0; 576];
    let kind = culvert_packet::icmp::Unreachable::Host;
    let len = culvert_packet::icmp::unreachable(&original, kind, &mut error).unwrap();
    // From here to the sender of that packet, whom no peer owns.
    worker.queue(BULK, frame(&error[..len]));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::NoPeer, 1)]);
    assert_eq!(worker.written(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_packet_to_a_peer_without_an_endpoint_is_counted_and_answered() {
    let remote = Remote::new(1);
    let mut snapshot = snapshot(&[&remote]);
    let key = remote.peer.public_key;
    let peer = culvert_datapath::Peer::new(remote.id(), key, Arc::default());
    snapshot.peers.insert(peer.id, Arc::new(peer));
    let mut worker = Worker::new(snapshot);
    worker.queue(BULK, frame(&udp(HERE, remote.inner(), b"")));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::NoEndpoint, 1)]);
    assert_eq!(icmp_of(packet_of(&worker.written()[0])), [3, 1]);
}

#[test]
fn frames_that_hold_no_packet_are_counted_as_malformed() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let whole = frame(&udp(HERE, remote.inner(), b"whole"));
    let mut lying = whole.clone();
    // A superframe of a kind that was never offered.
    lying[1] = 3;
    for len in [0, 1, 9, 10, 11, 29] {
        worker.queue(BULK, whole[..len].to_vec());
    }
    worker.queue(BULK, lying);
    worker.queue(BULK, frame(&[0x55; 40]));
    worker.queue(BULK, whole.clone());
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::TunMalformed, 8)]);
    assert_eq!(remote.opens(&worker.sent()), [&whole[10..]]);
}

#[test]
fn a_packet_from_another_address_than_this_ends_does_not_leave_and_its_sender_hears_that_it_is_prohibited()
 {
    let remote = Remote::new(1);
    let mut snapshot = snapshot(&[&remote]);
    let (IpAddr::V4(v4), IpAddr::V6(v6)) = (HERE, HERE_V6) else {
        panic!("one of each");
    };
    snapshot.inside = Some(Inside { v4, v6 });
    let mut worker = Worker::new(snapshot);
    let container = IpAddr::from([172, 17, 0, 2]);
    worker.queue(BULK, frame(&udp(container, remote.inner(), b"")));
    worker.queue(BULK, superframe(container, remote.inner(), 3));
    worker.queue(BULK, frame(&udp(HERE, remote.inner(), b"")));
    worker.queue(BULK, frame(&udp(HERE_V6, inner_v6(1), b"")));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::SourceForeign, 4)]);
    assert_eq!(remote.opens(&worker.sent()).len(), 2);
    assert_eq!(icmp_of(packet_of(&worker.written()[0])), [3, 13]);
}

/// The foreign sources that the control thread hears of while a packet comes from each of `sources`, `apart` one after
/// the other.
fn foreign_sources_told(sources: &[&str], apart: Duration) -> Vec<IpAddr> {
    let remote = Remote::new(1);
    let mut snapshot = snapshot(&[&remote]);
    let (IpAddr::V4(v4), IpAddr::V6(v6)) = (HERE, HERE_V6) else {
        panic!("one of each");
    };
    snapshot.inside = Some(Inside { v4, v6 });
    let mut worker = Worker::new(snapshot);
    for source in sources {
        let source: IpAddr = source.parse().unwrap();
        let to = match source.is_ipv4() {
            true => remote.inner(),
            false => inner_v6(1),
        };
        worker.queue(BULK, frame(&udp(source, to, b"")));
        worker.run();
        worker.advance(apart);
    }
    let count = worker.counters.dropped(Dropped::SourceForeign);
    assert_eq!(count, sources.len() as u64, "each is counted");
    let told = worker.events().into_iter().map(|event| match event {
        Event::ForeignSource(source) => source,
        other => panic!("{other:?}"),
    });
    told.collect()
}

#[test]
fn the_control_thread_hears_of_a_foreign_source_ten_times_a_second() {
    let told = foreign_sources_told(&["172.17.0.2"; 21], Duration::from_millis(10));
    assert_eq!(told.len(), 3);
}

#[test]
fn the_control_thread_hears_of_another_foreign_source_within_five_milliseconds() {
    let two = ["172.17.0.2", "172.17.0.3"];
    assert_eq!(
        foreign_sources_told(&two, Duration::from_millis(5)).len(),
        2
    );
    assert_eq!(
        foreign_sources_told(&two, Duration::from_millis(4)).len(),
        1
    );
}

#[test]
fn the_control_thread_does_not_hear_of_link_local_sources() {
    let local = ["169.254.1.1", "fe80::1", "::", "0.0.0.0"];
    assert_eq!(
        foreign_sources_told(&local, Duration::from_secs(1)),
        [] as [IpAddr; 0]
    );
}

#[test]
fn a_control_thread_that_is_busy_hears_of_the_next_foreign_packet() {
    let remote = Remote::new(1);
    let mut snapshot = snapshot(&[&remote]);
    let (IpAddr::V4(v4), IpAddr::V6(v6)) = (HERE, HERE_V6) else {
        panic!("one of each");
    };
    snapshot.inside = Some(Inside { v4, v6 });
    let mut worker = Worker::new(snapshot);
    for is_full in [true, false] {
        worker.device().control.is_full.set(is_full);
        let packet = udp([172, 17, 0, 2].into(), remote.inner(), b"");
        worker.queue(BULK, frame(&packet));
        worker.run();
    }
    assert_eq!(worker.events().len(), 1);
}

#[test]
fn a_datagram_of_this_device_that_comes_back_is_dropped_and_told_ten_times_a_second() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let own = IpAddr::from([198, 51, 100, 7]);
    worker.device().sockets.own = Some(own);
    let mut data = [0; 64];
    data[0] = 4;
    let looped =
        crate::packets::udp_between((own, 51_820), (endpoint(1).ip(), endpoint(1).port()), &data);
    for _ in 0..25 {
        worker.queue(BULK, frame(&looped));
        worker.run();
        worker.advance(Duration::from_millis(10));
    }
    assert_eq!(worker.drops(), [(Dropped::OwnDatagram, 25)]);
    let events = worker.events();
    assert_eq!(events.len(), 3);
    assert!(matches!(events[0], Event::Looped(to) if to == endpoint(1)));
    // It is another host's where the address is not this one's.
    worker.device().sockets.own = None;
    worker.queue(BULK, frame(&looped));
    worker.run();
    assert_eq!(worker.counters.dropped(Dropped::OwnDatagram), 25);
}

#[test]
fn the_first_packet_of_full_size_is_told_once_so_that_the_path_is_measured() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    // 1,280 bytes less the longest headers and the record's own: 1,200 pass everywhere.
    for (payload, told) in [(1200 - 28, 0), (1201 - 28, 1), (1392, 0)] {
        let packet = udp(HERE, remote.inner(), &vec![0; payload]);
        worker.queue(BULK, frame(&packet));
        worker.run();
        let events = worker.events();
        assert_eq!(events.len(), told, "{payload}");
        assert!(
            events
                .iter()
                .all(|it| matches!(it, Event::FullSizeLeft(id) if *id == remote.id()))
        );
    }
    remote.peer.forget_mtu();
    worker.queue(BULK, superframe(HERE, remote.inner(), 2));
    worker.run();
    assert_eq!(worker.events().len(), 1);
}

#[test]
fn a_packet_with_no_room_for_news_of_it_is_told_of_by_the_next_one() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    for (is_full, told) in [(true, 0), (false, 1), (false, 0)] {
        worker.device().control.is_full.set(is_full);
        worker.queue(BULK, superframe(HERE, remote.inner(), 2));
        worker.run();
        assert_eq!(worker.events().len(), told);
    }
}

#[test]
fn what_is_sent_is_noted_for_the_timers_and_counted_for_the_peer() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    assert_eq!(remote.peer.activity.last_sent(), None);
    worker.queue(BULK, frame(&echo(HERE, remote.inner())));
    worker.run();
    assert_eq!(remote.peer.activity.last_sent(), Some(START));
    let bytes: usize = worker.sent().iter().map(|sent| sent.bytes.len()).sum();
    let counted = remote
        .peer
        .tx_bytes
        .load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(counted, bytes as u64);
}

#[test]
fn a_packet_longer_than_the_interface_leaves_without_padding() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    // The MTU shrank while it was queued.
    let packet = udp(HERE, remote.inner(), &vec![7; usize::from(MTU)]);
    worker.queue(BULK, frame(&packet));
    worker.run();
    let sent = worker.sent();
    assert_eq!(sent[0].bytes.len(), packet.len() + 32);
    assert_eq!(remote.opens(&sent), [packet]);
}

#[test]
fn a_packet_too_long_for_any_datagram_is_counted_and_the_next_one_leaves() {
    let remote = Remote::new(1);
    let mut worker = Worker::new(snapshot(&[&remote]));
    let whole = udp(HERE, remote.inner(), b"after it");
    worker.queue(
        BULK,
        frame(&udp(HERE, remote.inner(), &vec![0; 65_535 - 28])),
    );
    worker.queue(BULK, frame(&whole));
    worker.run();
    assert_eq!(worker.drops(), [(Dropped::SendTooBig, 1)]);
    assert_eq!(remote.opens(&worker.sent()), [whole]);
}
