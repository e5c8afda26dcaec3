//! The bytes that wait in the queues, and their limit. Needs root: every test makes a namespace of its
//! own.

mod support;

use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};

use culvert_base::frames::{
    MAX_BOUND_BYTES, MAX_FRAME_BYTES, MIN_BOUND_BYTES, MIN_PACKET_BYTES, VNET_HEADER_BYTES,
};
use culvert_tun::{
    BoundState, Device, MIN_SINGLES_BOUND_BYTES, Options, ProgramOff, Queue, QueueCredit, Steering,
};
use rustix::thread::CapabilitySet;
use support::Namespace;

fn options() -> Options {
    Options {
        name: "cv0".to_owned(),
        mtu: 1420,
        offload: true,
        steering: None,
        bound: true,
    }
}

/// A device whose single packets may be as good as superframes.
fn jumbo() -> Options {
    Options {
        mtu: 9000,
        ..options()
    }
}

/// A device that packets to 10.7.0.2 go to, and no others.
fn up(options: &Options) -> (Namespace, Device) {
    let namespace = Namespace::new();
    let device = namespace
        .run(|| Device::create(options))
        .expect("a device is made; run the tests as root");
    namespace.run(|| {
        std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1")
            .expect("IPv6 is turned off");
    });
    namespace.ip("link set cv0 up");
    namespace.ip("address add 10.7.0.1/24 dev cv0");
    (namespace, device)
}

/// Sends `packets` of `bytes` each, their headers included.
fn send(namespace: &Namespace, packets: usize, bytes: usize) {
    const HEADERS: usize = 20 + 8;
    namespace.run(|| {
        let socket = UdpSocket::bind("10.7.0.1:0").expect("bound");
        for _ in 0..packets {
            socket
                .send_to(&vec![7; bytes - HEADERS], "10.7.0.2:9")
                .expect("sent");
        }
    });
}

/// Reads what waits. Returns the number of frames, told to `credit` where there is one.
fn read_all(queue: &Queue, mut credit: Option<&mut QueueCredit>) -> usize {
    let mut buffer = vec![0; MAX_FRAME_BYTES];
    let mut frames = 0;
    while let Ok(len) = queue.receive(&mut buffer) {
        frames += 1;
        if let Some(credit) = &mut credit {
            credit.take(len);
        }
    }
    frames
}

#[test]
fn what_waits_is_known_to_the_byte_and_a_small_packet_counts_as_two_kilobytes() {
    let (namespace, mut device) = up(&jumbo());
    assert_eq!(device.bound(), BoundState::On, "the bound needs CAP_BPF");
    let queue = device.take_queues().remove(0);
    let mut credit = device.take_credits().remove(0);
    assert_eq!(credit.publish(), 0);
    send(&namespace, 3, 5000);
    send(&namespace, 1, 100);
    assert_eq!(credit.publish(), 3 * 5000 + MIN_PACKET_BYTES);
    let mut buffer = vec![0; MAX_FRAME_BYTES];
    let len = queue.receive(&mut buffer).expect("a frame");
    assert_eq!(len, VNET_HEADER_BYTES + 5000);
    assert!(!credit.take(len), "it is early to settle");
    assert_eq!(credit.publish(), 2 * 5000 + MIN_PACKET_BYTES);
    assert_eq!(read_all(&queue, Some(&mut credit)), 3);
    assert_eq!(credit.publish(), 0);
    assert_eq!(credit.taken(), 3 * 5000 + MIN_PACKET_BYTES);
}

#[test]
fn packets_wait_in_the_bounded_queues_alone() {
    let (namespace, _device) = up(&options());
    let shown = namespace.ip("link show cv0");
    assert!(shown.contains("qdisc noqueue"), "{shown}");
}

#[test]
fn no_more_bytes_wait_than_the_bound_whatever_the_size_of_packets() {
    for (bytes, least) in [
        (40, MIN_SINGLES_BOUND_BYTES),
        (1400, MIN_SINGLES_BOUND_BYTES),
        // As good as a superframe.
        (8000, MIN_BOUND_BYTES),
    ] {
        let (namespace, mut device) = up(&jumbo());
        let queue = device.take_queues().remove(0);
        let mut credit = device.take_credits().remove(0);
        let cost = (bytes as u64).max(MIN_PACKET_BYTES);
        for (asked, bound) in [(0, least), (9 << 20, 9 << 20), (u64::MAX, MAX_BOUND_BYTES)] {
            credit.set_bound(asked);
            let fit = usize::try_from(bound / cost).expect("it is small");
            send(&namespace, fit + 100, bytes);
            assert_eq!(
                credit.publish(),
                fit as u64 * cost,
                "{bytes} bytes, {bound}"
            );
            assert_eq!(read_all(&queue, Some(&mut credit)), fit);
            credit.publish();
            send(&namespace, 1, bytes);
            let again = read_all(&queue, Some(&mut credit));
            assert_eq!(again, 1, "there is room again");
            credit.publish();
        }
    }
}

#[test]
fn a_bound_that_is_lowered_loses_nothing_of_what_waits() {
    let (namespace, mut device) = up(&options());
    let queue = device.take_queues().remove(0);
    let mut credit = device.take_credits().remove(0);
    credit.set_bound(MAX_BOUND_BYTES);
    send(&namespace, 6_000, 1400);
    credit.set_bound(MIN_BOUND_BYTES);
    send(&namespace, 10, 1400);
    assert_eq!(read_all(&queue, Some(&mut credit)), 6_000);
}

#[test]
fn a_queue_that_was_found_empty_holds_nothing_whatever_was_counted() {
    let (namespace, mut device) = up(&options());
    let queue = device.take_queues().remove(0);
    let mut credit = device.take_credits().remove(0);
    send(&namespace, 20_000, 1000);
    assert!(read_all(&queue, None) > 1_000);
    assert!(credit.publish() > 1 << 20, "nobody has told the credit");
    credit.found_empty();
    assert_eq!(credit.publish(), 0);
    send(&namespace, 2, 1000);
    assert_eq!(credit.publish(), 2 * MIN_PACKET_BYTES);
}

#[test]
fn a_queue_that_is_full_of_what_never_came_is_mended_by_looking() {
    let (namespace, mut device) = up(&options());
    let queue = device.take_queues().remove(0);
    let mut credit = device.take_credits().remove(0);
    // An administrator's mistake: everything is counted, and nothing has room.
    namespace.ip("link set cv0 txqueuelen 0");
    send(&namespace, 5_000, 1000);
    namespace.ip("link set cv0 txqueuelen 500");
    send(&namespace, 10, 1000);
    let mut buffer = vec![0; MAX_FRAME_BYTES];
    while let Ok(len) = queue.receive(&mut buffer) {
        credit.take(len);
    }
    credit.found_empty();
    send(&namespace, 10, 1000);
    assert_eq!(read_all(&queue, Some(&mut credit)), 10);
}

#[test]
fn each_queue_has_an_account_of_its_own() {
    let steering = Steering {
        priority_queues: true,
        bulk_queues: 3,
    };
    let (namespace, mut device) = up(&Options {
        steering: Some(steering),
        ..options()
    });
    let queues = device.take_queues();
    let mut credits = device.take_credits();
    assert_eq!(credits.len(), queues.len());
    for _ in 0..20 {
        // Each from a port of its own, so that flows spread.
        send(&namespace, 1, 500);
    }
    let waiting: Vec<u64> = credits.iter_mut().map(QueueCredit::publish).collect();
    assert_eq!(waiting.iter().sum::<u64>(), 20 * MIN_PACKET_BYTES);
    assert_eq!(waiting[0], 0, "none of them has priority");
    for ((queue, credit), waiting) in queues.iter().zip(&mut credits).zip(waiting) {
        let frames = read_all(queue, Some(credit)) as u64;
        assert_eq!(frames * MIN_PACKET_BYTES, waiting);
    }
}

#[test]
fn without_bpf_the_kernel_bounds_the_queues_and_the_device_says_why() {
    let namespace = Namespace::new();
    let mut device = namespace.run(|| {
        let mut sets = rustix::thread::capabilities(None).expect("capabilities are read");
        let lost = CapabilitySet::BPF | CapabilitySet::SYS_ADMIN;
        sets.effective.remove(lost);
        rustix::thread::set_capabilities(None, sets).expect("capabilities are dropped");
        Device::create(&options()).expect("the bound is not a condition")
    });
    assert_eq!(device.bound(), BoundState::Off(ProgramOff::NotPermitted));
    assert_eq!(device.bound().to_string(), "off: needs CAP_BPF");
    assert!(device.take_credits().is_empty());
    assert!(namespace.ip("link show cv0").contains("qlen 500"));
}

#[test]
fn whoever_takes_a_device_over_starts_a_new_account_or_ends_the_bound() {
    let (namespace, device) = up(&options());
    send(&namespace, 20_000, 1000);
    let stored = || -> Vec<OwnedFd> {
        let queues = device.queues().iter();
        queues
            .map(|queue| queue.as_fd().try_clone_to_owned().expect("a queue is kept"))
            .collect()
    };
    let take_over = |options: &Options| {
        let queues = stored();
        namespace
            .run(|| Device::take_over(options, queues))
            .expect("it is taken over")
    };
    let mut bounded = take_over(&options());
    let queue = bounded.take_queues().remove(0);
    let mut credit = bounded.take_credits().remove(0);
    assert!(
        read_all(&queue, Some(&mut credit)) > 1_000,
        "what waited is there"
    );
    credit.found_empty();
    send(&namespace, 1, 1000);
    assert_eq!(credit.publish(), MIN_PACKET_BYTES);

    let mut unbounded = take_over(&Options {
        bound: false,
        ..options()
    });
    assert_eq!(unbounded.bound(), BoundState::NotAsked);
    let queue = unbounded.take_queues().remove(0);
    for _ in 0..100 {
        // Many more than would fit if all were still counted and none taken.
        send(&namespace, 300, 1000);
        assert!(read_all(&queue, None) >= 300);
    }
}
