//! The device as `ip` and other processes see it. Needs root: every test makes namespaces of its own.

mod support;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use culvert_base::frames::{MAX_FRAME_BYTES, VNET_HEADER_BYTES};
use culvert_tun::{
    Device, Feature, FrameBatch, MAX_FRAMES_PER_BATCH, OffReason, OffloadGroup, Options,
    ProgramOff, Steering, SteeringState, TunError,
};
use rustix::thread::CapabilitySet;
use support::Namespace;

const STEERING: Steering = Steering {
    priority_queues: true,
    bulk_queues: 3,
};

fn options(name: &str) -> Options {
    Options {
        name: name.to_owned(),
        mtu: 1420,
        offload: true,
        steering: None,
        bound: false,
    }
}

fn steered(name: &str) -> Options {
    Options {
        steering: Some(STEERING),
        bound: false,
        ..options(name)
    }
}

fn create(namespace: &Namespace, options: &Options) -> Device {
    namespace
        .run(|| Device::create(options))
        .expect("a device is made; run the tests as root")
}

#[test]
fn a_device_has_the_name_mtu_and_index_it_says() {
    let namespace = Namespace::new();
    let device = create(&namespace, &options("cv%d"));
    assert_eq!(device.name(), "cv0");
    let shown = namespace.ip("link show cv0");
    assert!(
        shown.starts_with(&format!("{}: cv0:", device.index())),
        "{shown}"
    );
    assert!(shown.contains("mtu 1420"), "{shown}");
    assert_eq!(device.mtu().expect("the MTU is read"), 1420);
    assert_eq!(create(&namespace, &options("cv%d")).name(), "cv1");
}

#[test]
fn the_state_follows_what_others_change() {
    let namespace = Namespace::new();
    let device = create(&namespace, &options("cv0"));
    assert!(!device.is_up().expect("the state is read"));
    namespace.ip("link set cv0 up mtu 1300");
    assert!(device.is_up().expect("the state is read"));
    assert_eq!(device.mtu().expect("the MTU is read"), 1300);
    namespace.ip("link set cv0 name renamed");
    device.set_mtu(1280).expect("the MTU is set");
    assert!(namespace.ip("link show renamed").contains("mtu 1280"));
    assert_eq!(
        device.current_name().expect("the name is read").as_deref(),
        Some("renamed")
    );
}

#[test]
fn a_deleted_device_is_told_from_one_that_moved_away() {
    let [namespace, other] = [Namespace::new(), Namespace::new()];
    let moved = create(&namespace, &options("cv0"));
    let holder = create(&other, &options("holder"));
    let pid = std::process::id();
    // `ip link set … netns` takes a process; a thread's own id names its namespace.
    other.run(|| {
        let thread = rustix::thread::gettid().as_raw_nonzero();
        assert_ne!(u32::try_from(thread.get()), Ok(pid));
        namespace.ip(&format!("link set cv0 netns {thread}"));
    });
    assert_eq!(
        moved.current_name().expect("the name is read").as_deref(),
        Some("cv0")
    );
    assert_eq!(
        moved.mtu().expect_err("it is not here").raw_os_error(),
        Some(libc::ENODEV)
    );
    other.ip("link delete holder");
    assert_eq!(holder.current_name().expect("the name is read"), None);
}

#[test]
fn the_interface_goes_with_its_last_descriptor() {
    let namespace = Namespace::new();
    let mut device = create(&namespace, &steered("cv0"));
    let queues = device.take_queues();
    assert_eq!(queues.len(), STEERING.queues());
    assert!(device.take_queues().is_empty());
    drop(device);
    assert!(namespace.ip("link show").contains("cv0"));
    drop(queues);
    // A child of another test, between its fork and its exec, may still hold the closed descriptors.
    let deadline = Instant::now() + Duration::from_secs(10);
    while namespace.ip("link show").contains("cv0") {
        assert!(Instant::now() < deadline, "the interface stays");
    }
}

#[test]
fn a_name_that_is_in_use_is_refused() {
    let namespace = Namespace::new();
    namespace.ip("link add veth0 type veth peer name veth1");
    namespace.ip("tuntap add dev left mode tun");
    namespace.ip("tuntap add dev leftmq mode tun multi_queue");
    let _single = create(&namespace, &options("cv0"));
    let _multiple = create(&namespace, &steered("cvmq"));
    for name in ["veth0", "left", "leftmq", "cv0", "cvmq"] {
        for options in [options(name), steered(name)] {
            let error = namespace
                .run(|| Device::create(&options))
                .expect_err("the name is taken");
            assert!(
                matches!(&error, TunError::InUse { name: taken } if taken == name),
                "{error}"
            );
            assert!(error.to_string().starts_with(&format!("{name} is in use")));
        }
    }
}

#[test]
fn another_user_cannot_attach_a_queue_to_our_device() {
    let namespace = Namespace::new();
    let _device = create(&namespace, &steered("cv0"));
    let error = namespace.run(|| {
        let tun = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/net/tun")
            .expect("anyone may open it");
        // SAFETY: setresuid takes numbers; by the raw system call it changes this thread alone, which ends here.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        assert_eq!(result, 0);
        // SAFETY: all zeroes is a value of `ifreq`, a C structure of bytes and numbers.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (slot, byte) in request.ifr_name.iter_mut().zip(*b"cv0") {
            *slot = byte.cast_signed();
        }
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_MULTI_QUEUE) as i16;
        // SAFETY: TUNSETIFF reads and writes one `ifreq`, which outlives the call.
        let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        assert_eq!(result, -1);
        io::Error::last_os_error()
    });
    assert_eq!(error.raw_os_error(), Some(libc::EPERM));
}

#[test]
fn a_name_no_interface_can_have_is_refused_with_the_rule_it_breaks() {
    for name in [
        "",
        ".",
        "..",
        "a b",
        "a/b",
        "a:b",
        "sixteen-bytes-xx",
        "cv%s",
        "cv%d%d",
        "a\0b",
    ] {
        let error = Device::create(&options(name)).expect_err("no such name");
        assert!(
            matches!(error, TunError::InvalidName { .. }),
            "{name:?}: {error}"
        );
    }
}

#[test]
fn an_impossible_mtu_is_refused() {
    let error = Device::create(&Options {
        mtu: 67,
        ..options("cv0")
    })
    .expect_err("too small");
    assert!(matches!(error, TunError::InvalidMtu { mtu: 67 }), "{error}");
}

#[test]
fn missing_net_admin_is_told_with_its_remedy() {
    let namespace = Namespace::new();
    for options in [options("cv0"), steered("cv0")] {
        let error = namespace.run(|| {
            without(CapabilitySet::NET_ADMIN);
            Device::create(&options).expect_err("not permitted")
        });
        assert!(matches!(error, TunError::NeedsNetAdmin), "{error}");
        assert!(error.to_string().contains("CAP_NET_ADMIN: run as root"));
    }
}

#[test]
fn without_bpf_the_device_has_one_queue_and_says_why() {
    let namespace = Namespace::new();
    let mut device = namespace.run(|| {
        without(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN);
        Device::create(&steered("cv0")).expect("steering is not a condition")
    });
    assert_eq!(
        device.steering(),
        SteeringState::Off(ProgramOff::NotPermitted)
    );
    assert_eq!(device.steering().to_string(), "off: needs CAP_BPF");
    assert_eq!(device.take_queues().len(), 1);
}

#[test]
fn a_missing_device_node_is_told_with_its_remedy() {
    let error = Namespace::new().run(|| {
        // SAFETY: only this thread gets a mount namespace of its own, and it ends here.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNS) };
        assert_eq!(result, 0, "needs CAP_SYS_ADMIN: run the tests as root");
        let mount = |source: &std::ffi::CStr, target: &std::ffi::CStr, flags| {
            // SAFETY: the strings end with a zero and outlive the call; the last argument may be null.
            unsafe {
                libc::mount(
                    source.as_ptr(),
                    target.as_ptr(),
                    source.as_ptr(),
                    flags,
                    std::ptr::null(),
                )
            }
        };
        assert_eq!(mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE), 0);
        assert_eq!(mount(c"tmpfs", c"/dev/net", 0), 0);
        Device::create(&options("cv0")).expect_err("there is no device node")
    });
    assert!(matches!(error, TunError::NoTunDevice), "{error}");
    assert!(error.to_string().contains("modprobe tun"));
}

#[test]
fn superframe_limits_are_visible_to_ip() {
    let namespace = Namespace::new();
    let device = create(&namespace, &options("cv0"));
    device.set_gso_limits(45, None).expect("the limit is set");
    assert!(namespace.ip("-d link show cv0").contains("gso_max_segs 45"));
    device
        .set_gso_limits(44, Some(60_000))
        .expect("the limits are set");
    let shown = namespace.ip("-d link show cv0");
    for expected in ["gso_max_segs 44", "gso_max_size 60000"] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
}

#[test]
fn offloads_are_on_unless_configured_off_and_say_why_they_are_off() {
    let namespace = Namespace::new();
    let device = create(&namespace, &options("cv0"));
    let offloads = device.offloads();
    for feature in [
        offloads.checksum,
        offloads.tso4,
        offloads.tso6,
        offloads.tso_ecn,
    ] {
        assert_eq!(feature, Feature::On);
    }
    assert_eq!(offloads.uso4, offloads.uso6);
    let fewer = device
        .turn_off(OffloadGroup::UdpSegmentation)
        .expect("it is turned off");
    assert_eq!(fewer.tso4, Feature::On);
    assert_eq!(fewer, device.offloads());
    assert!(!fewer.uso4.is_on());
    let none = device
        .turn_off(OffloadGroup::All)
        .expect("they are turned off");
    assert_eq!(none.tso6, Feature::Off(OffReason::FailedInUse));

    let plain = create(
        &namespace,
        &Options {
            offload: false,
            ..options("cv1")
        },
    )
    .offloads();
    assert_eq!(
        plain.checksum.to_string(),
        "off: turned off by configuration"
    );
    assert_eq!(plain.uso6, Feature::Off(OffReason::ByConfiguration));
}

#[test]
fn a_frame_for_an_interface_that_is_down_or_gone_is_an_error() {
    let namespace = Namespace::new();
    let mut device = create(&namespace, &options("cv0"));
    let queue = device.take_queues().remove(0);
    let mut frame = [0; VNET_HEADER_BYTES + 28];
    frame[VNET_HEADER_BYTES] = 0x45;
    let send = |frame: &[u8]| queue.send(&[IoSlice::new(&frame[..10]), IoSlice::new(&frame[10..])]);
    assert_eq!(
        send(&frame).expect_err("down").raw_os_error(),
        Some(libc::EIO)
    );
    namespace.ip("link set cv0 up");
    assert_eq!(send(&frame).expect("taken"), frame.len());
    assert!(queue.is_writable().expect("polled"));
    let mut unknown = frame;
    unknown[1] = 0x77; // a kind of superframe that does not exist
    assert_eq!(
        send(&unknown).expect_err("refused").raw_os_error(),
        Some(libc::EINVAL)
    );
    namespace.ip("link delete cv0");
    assert_eq!(
        send(&frame).expect_err("gone").raw_os_error(),
        Some(libc::EBADFD)
    );
    let mut batch = FrameBatch::new(1);
    assert_eq!(
        queue
            .receive_batch(&mut batch)
            .expect_err("gone")
            .raw_os_error(),
        Some(libc::EBADFD)
    );
}

#[test]
fn a_batch_holds_what_waits_up_to_its_bounds_in_order() {
    let namespace = Namespace::new();
    let mut device = create(&namespace, &options("cv0"));
    let queue = device.take_queues().remove(0);
    // IPv6 announces its multicast groups unasked.
    namespace.run(|| {
        std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1")
            .expect("IPv6 is turned off");
    });
    namespace.ip("link set cv0 up");
    namespace.ip("address add 10.7.0.1/24 dev cv0");
    let mut batch = FrameBatch::new(4);
    assert_eq!(
        queue
            .receive_batch(&mut batch)
            .expect("an empty queue is no error"),
        0
    );
    let error = queue
        .receive(&mut vec![0; MAX_FRAME_BYTES])
        .expect_err("empty");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);

    let packets = MAX_FRAMES_PER_BATCH + 30;
    namespace.run(|| {
        let socket = std::net::UdpSocket::bind("10.7.0.1:0").expect("bound");
        for number in 0..packets {
            socket
                .send_to(&[number as u8; 33], "10.7.0.2:9")
                .expect("sent");
        }
    });
    let mut numbers = Vec::new();
    for expected in [MAX_FRAMES_PER_BATCH, 30, 0] {
        assert_eq!(queue.receive_batch(&mut batch).expect("read"), expected);
        assert_eq!(batch.len(), expected);
        for frame in batch.iter() {
            assert_eq!(frame.len(), VNET_HEADER_BYTES + 20 + 8 + 33);
            assert_eq!(
                frame[VNET_HEADER_BYTES..].as_ptr().addr() % 16,
                batch.get(0).expect("a frame")[10..].as_ptr().addr() % 16
            );
            numbers.push(*frame.last().expect("a payload"));
        }
    }
    assert_eq!(
        numbers,
        (0..packets).map(|number| number as u8).collect::<Vec<_>>()
    );
}

/// Takes `capabilities` from this thread.
fn without(capabilities: CapabilitySet) {
    let mut sets = rustix::thread::capabilities(None).expect("capabilities are read");
    sets.effective.remove(capabilities);
    rustix::thread::set_capabilities(None, sets).expect("capabilities are dropped");
}

/// The queues as somebody keeps them who knows nothing of the device.
fn stored(device: &Device) -> Vec<OwnedFd> {
    let queues = device.queues().iter();
    queues
        .map(|queue| queue.as_fd().try_clone_to_owned().expect("a queue is kept"))
        .collect()
}

fn take_over(
    namespace: &Namespace,
    options: &Options,
    queues: Vec<OwnedFd>,
) -> Result<Device, TunError> {
    namespace.run(|| Device::take_over(options, queues))
}

#[test]
fn a_device_whose_queues_are_kept_outlives_its_maker_and_is_taken_over_as_it_was() {
    for options in [options("cv0"), steered("cv0")] {
        let namespace = Namespace::new();
        let made = create(&namespace, &options);
        namespace.ip("address add 10.9.0.1/24 dev cv0");
        namespace.ip("link set cv0 up");
        let (index, state) = (made.index(), made.steering());
        let queues = stored(&made);
        drop(made);
        let taken = take_over(&namespace, &options, queues).expect("it is taken over");
        assert_eq!(taken.index(), index);
        assert_eq!(taken.steering(), state);
        assert!(taken.is_up().expect("the state is read"));
        assert!(taken.offloads().checksum.is_on());
        // The interface still has its address.
        let shown = namespace.ip("-o address show dev cv0");
        assert!(shown.contains("10.9.0.1/24"), "{shown}");
        taken
            .delete()
            .expect("it is deleted although others hold it");
        assert_eq!(taken.current_name().expect("the name is read"), None);
    }
}

#[test]
fn what_is_not_the_whole_device_that_is_wanted_is_refused_and_does_not_stand_in_its_way() {
    let one = options("cv0");
    let several = steered("cv0");
    let mut fewer = stored_of(&several);
    fewer.1.pop();
    let two_of_one = {
        let (namespace, queues) = stored_of(&one);
        let again = queues[0].try_clone().expect("a queue is kept");
        (
            namespace,
            vec![again, queues.into_iter().next().expect("a queue")],
        )
    };
    let cases = [
        ("a queue is missing", fewer, &several),
        ("one queue for several", stored_of(&one), &several),
        ("several queues for one", stored_of(&several), &one),
        ("one queue twice", two_of_one, &one),
        ("nothing", (Namespace::new(), Vec::new()), &one),
        ("a file", (Namespace::new(), vec![null()]), &one),
        ("another's interface", stored_of(&options("other")), &one),
    ];
    for (case, (namespace, queues), wanted) in cases {
        let refused = take_over(&namespace, wanted, queues).expect_err(case);
        assert!(
            matches!(refused, TunError::NotItsQueues { .. }),
            "{case}: {refused}"
        );
        create(&namespace, wanted);
    }
}

#[test]
fn a_device_of_another_namespace_or_that_is_gone_is_not_taken_over() {
    let (namespace, queues) = stored_of(&options("cv0"));
    let foreign = Namespace::new();
    take_over(&foreign, &options("cv0"), queues).expect_err("it is elsewhere");
    // A process that another test starts at this moment has a copy until it executes its program.
    let deadline = Instant::now() + Duration::from_secs(10);
    while namespace.ip("link show").contains("cv0") {
        assert!(Instant::now() < deadline, "its last descriptor is closed");
        thread::sleep(Duration::from_millis(10));
    }

    let (namespace, queues) = stored_of(&options("cv0"));
    namespace.ip("link delete cv0");
    take_over(&namespace, &options("cv0"), queues).expect_err("it is gone");
}

/// A device whose maker has ended.
fn stored_of(options: &Options) -> (Namespace, Vec<OwnedFd>) {
    let namespace = Namespace::new();
    let made = create(&namespace, options);
    let queues = stored(&made);
    drop(made);
    (namespace, queues)
}

fn null() -> OwnedFd {
    std::fs::File::open("/dev/null")
        .expect("it is there")
        .into()
}
