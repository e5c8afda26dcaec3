//! Real traffic of the kernel's own stack through two devices, whose frames are handed from one to the other unchanged.
//! Needs root: every test makes namespaces of its own.

mod support;

use std::collections::HashMap;
use std::io::{IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

use culvert_base::frames::{
    ACKNOWLEDGEMENT_QUEUE, PRIORITY_QUEUE, RESERVED_QUEUES, VNET_HEADER_BYTES,
};
use culvert_tun::{
    Device, FrameBatch, OffloadGroup, Offloads, Options, Queue, Steering, SteeringState,
};
use rustix::event::{PollFd, PollFlags};
use support::Namespace;

const MTU: u16 = 1420;
const STEERING: Steering = Steering {
    priority_queues: true,
    bulk_queues: 3,
};

const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
/// The flag beside the kind that says the first packet carries CWR.
const GSO_ECN: u8 = 0x80;

/// Two namespaces with a device each: 10.7.0.1 and fd07::1 here, 10.7.0.2 and fd07::2 there.
struct Pair {
    here: Namespace,
    there: Namespace,
    devices: [Device; 2],
    queues: [Vec<Queue>; 2],
}

/// A frame that came out of the near device.
#[derive(Debug)]
struct Seen {
    queue: usize,
    gso_kind: u8,
    gso_size: u16,
    packet: Vec<u8>,
}

impl Pair {
    fn new(options: &Options) -> Self {
        let [here, there] = [Namespace::new(), Namespace::new()];
        let plain = Options {
            steering: None,
            bound: false,
            offload: true,
            ..options.clone()
        };
        let mut devices = [(&here, options), (&there, &plain)].map(|(namespace, options)| {
            namespace
                .run(|| Device::create(options))
                .expect("a device is made")
        });
        for (namespace, host) in [(&here, 1), (&there, 2)] {
            namespace.ip(&format!("address add 10.7.0.{host}/24 dev cv0"));
            namespace.ip(&format!("address add fd07::{host}/64 dev cv0 nodad"));
            namespace.ip("link set cv0 up");
        }
        let queues = devices.each_mut().map(Device::take_queues);
        Self {
            here,
            there,
            devices,
            queues,
        }
    }

    /// Carries frames both ways while `work` runs, here and there; returns what came out of the near device.
    fn send_through(
        &self,
        work_here: impl FnOnce() + Send,
        work_there: impl FnOnce() + Send,
    ) -> Vec<Seen> {
        let (done, finished) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe is made");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // The write end closes with this thread, also when a side panics.
                let _finished = finished;
                std::thread::scope(|scope| {
                    scope.spawn(|| self.here.run(work_here));
                    scope.spawn(|| self.there.run(work_there));
                });
            });
            let [near, far] = &self.queues;
            let mut seen = Vec::new();
            let mut batch = FrameBatch::new(4);
            loop {
                let mut moved = 0;
                for (number, queue) in near.iter().enumerate() {
                    moved += forward(queue, &far[0], &mut batch);
                    seen.extend(batch.iter().map(|frame| Seen::new(number, frame)));
                }
                moved += forward(&far[0], &near[0], &mut batch);
                if moved == 0 {
                    let all = near
                        .iter()
                        .chain(far)
                        .map(|queue| PollFd::new(queue, PollFlags::IN));
                    let mut descriptors: Vec<_> = all
                        .chain([PollFd::new(&done, PollFlags::empty())])
                        .collect();
                    rustix::event::poll(&mut descriptors, None).expect("polled");
                    if descriptors
                        .last()
                        .is_some_and(|done| done.revents().contains(PollFlags::HUP))
                    {
                        return seen;
                    }
                }
            }
        })
    }
}

fn forward(from: &Queue, to: &Queue, batch: &mut FrameBatch) -> usize {
    let frames = from.receive_batch(batch).expect("frames are read");
    for frame in batch.iter() {
        let (header, packet) = frame.split_at(VNET_HEADER_BYTES);
        let sent = to
            .send(&[IoSlice::new(header), IoSlice::new(packet)])
            .expect("the frame is taken");
        assert_eq!(sent, frame.len());
    }
    frames
}

impl Seen {
    fn new(queue: usize, frame: &[u8]) -> Self {
        let gso_size = u16::from_ne_bytes([frame[4], frame[5]]);
        Self {
            queue,
            gso_kind: frame[1],
            gso_size,
            packet: frame[VNET_HEADER_BYTES..].to_vec(),
        }
    }

    fn transport(&self) -> &[u8] {
        if self.packet[0] >> 4 == 4 {
            &self.packet[20..]
        } else {
            &self.packet[40..]
        }
    }

    fn protocol(&self) -> u8 {
        if self.packet[0] >> 4 == 4 {
            self.packet[9]
        } else {
            self.packet[6]
        }
    }

    fn source_port(&self) -> u16 {
        u16::from_be_bytes([self.transport()[0], self.transport()[1]])
    }

    /// Bytes of TCP payload.
    fn payload(&self) -> usize {
        self.transport().len() - usize::from(self.transport()[12] >> 4) * 4
    }

    fn is_pure_acknowledgement(&self) -> bool {
        self.payload() == 0 && self.transport()[13] & 0x3f == 0x10
    }
}

fn options() -> Options {
    Options {
        name: "cv0".to_owned(),
        mtu: MTU,
        offload: true,
        steering: None,
        bound: false,
    }
}

/// Content to send, different at every place.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes as u32)
        .map(|number| (number.wrapping_mul(0x9e37_79b1) >> 24) as u8)
        .collect()
}

/// Sends `bytes` from here to `address` there, where they are compared.
fn transfer(pair: &Pair, address: &str, bytes: usize) -> Vec<Seen> {
    let listener = pair
        .there
        .run(|| TcpListener::bind(address).expect("bound"));
    let to = listener.local_addr().expect("an address");
    pair.send_through(
        || {
            TcpStream::connect(to)
                .expect("connected")
                .write_all(&content(bytes))
                .expect("sent");
        },
        || {
            let mut received = Vec::new();
            listener
                .accept()
                .expect("accepted")
                .0
                .read_to_end(&mut received)
                .expect("received");
            assert!(
                received == content(bytes),
                "the bytes arrive as they were sent"
            );
        },
    )
}

#[test]
fn tcp_arrives_in_superframes_and_is_taken_back_in_them() {
    let pair = Pair::new(&options());
    for (address, kind, headers) in [("10.7.0.2:0", GSO_TCP4, 52), ("[fd07::2]:0", GSO_TCP6, 72)] {
        let seen = transfer(&pair, address, 4_000_000);
        let greatest = seen
            .iter()
            .max_by_key(|frame| frame.packet.len())
            .expect("frames");
        assert!(
            greatest.packet.len() > 40_000,
            "{} bytes",
            greatest.packet.len()
        );
        assert_eq!(greatest.gso_kind, kind);
        assert_eq!(usize::from(greatest.gso_size), usize::from(MTU) - headers);
    }
}

#[test]
fn the_segment_limit_bounds_superframes() {
    let pair = Pair::new(&options());
    pair.devices[0]
        .set_gso_limits(20, None)
        .expect("the limit is set");
    let seen = transfer(&pair, "10.7.0.2:0", 4_000_000);
    let segments = seen.iter().filter(|frame| frame.gso_kind != GSO_NONE);
    let most = segments
        .map(|frame| frame.payload().div_ceil(usize::from(frame.gso_size)))
        .max();
    assert_eq!(most, Some(20));
}

#[test]
fn without_offload_every_packet_fits_the_mtu() {
    let pair = Pair::new(&Options {
        offload: false,
        ..options()
    });
    let seen = transfer(&pair, "10.7.0.2:0", 400_000);
    assert!(
        seen.iter()
            .all(|frame| frame.gso_kind == GSO_NONE && frame.packet.len() <= usize::from(MTU))
    );
}

#[test]
fn turning_everything_off_in_use_ends_superframes() {
    let pair = Pair::new(&options());
    pair.devices[0]
        .turn_off(OffloadGroup::All)
        .expect("they are turned off");
    let seen = transfer(&pair, "10.7.0.2:0", 400_000);
    assert!(seen.iter().all(
        |frame| frame.gso_kind & !GSO_ECN == GSO_NONE && frame.packet.len() <= usize::from(MTU)
    ));
}

#[test]
fn udp_arrives_in_superframes_until_they_are_turned_off() {
    let pair = Pair::new(&options());
    let Offloads { uso4, .. } = pair.devices[0].offloads();
    assert!(uso4.is_on(), "this test needs Linux 6.2 or later: {uso4}");
    let run = || {
        let receiver = pair
            .there
            .run(|| UdpSocket::bind("10.7.0.2:0").expect("bound"));
        let to = receiver.local_addr().expect("an address");
        let seen = pair.send_through(
            || send_segmented(to, 10, 1000),
            || {
                let mut buffer = [0; 2000];
                for number in 0..10 {
                    assert_eq!(receiver.recv(&mut buffer).expect("received"), 1000);
                    assert_eq!(buffer[..1000], [number; 1000]);
                }
            },
        );
        seen.into_iter()
            .filter(|frame| frame.protocol() == 17)
            .collect::<Vec<_>>()
    };
    let together = run();
    assert_eq!(together.len(), 1);
    assert_eq!(
        (together[0].gso_kind, together[0].gso_size),
        (GSO_UDP, 1000)
    );
    pair.devices[0]
        .turn_off(OffloadGroup::UdpSegmentation)
        .expect("it is turned off");
    let apart = run();
    assert_eq!(apart.len(), 10);
    assert!(apart.iter().all(|frame| frame.gso_kind == GSO_NONE));
}

#[test]
fn bulk_stays_in_its_queue_and_what_must_not_wait_overtakes_it() {
    let pair = Pair::new(&Options {
        steering: Some(STEERING),
        bound: false,
        ..options()
    });
    assert_eq!(
        pair.devices[0].steering(),
        SteeringState::On(STEERING),
        "steering needs CAP_BPF"
    );
    const FLOWS: usize = 12;
    const BYTES: usize = 300_000;
    let listener = pair
        .there
        .run(|| TcpListener::bind("10.7.0.2:0").expect("bound"));
    let to = listener.local_addr().expect("an address");
    let seen = pair.send_through(
        || {
            ping("10.7.0.2:0".parse().expect("an address"));
            let mut streams: Vec<_> = (0..FLOWS)
                .map(|_| TcpStream::connect(to).expect("connected"))
                .collect();
            for chunk in content(BYTES).chunks(30_000) {
                for stream in &mut streams {
                    stream.write_all(chunk).expect("sent");
                }
            }
            for mut stream in streams {
                let mut answer = Vec::new();
                stream.shutdown(std::net::Shutdown::Write).expect("ended");
                stream.read_to_end(&mut answer).expect("received");
                assert_eq!(answer.len(), BYTES);
            }
        },
        || {
            std::thread::scope(|scope| {
                for stream in listener.incoming().take(FLOWS) {
                    scope.spawn(|| {
                        let mut stream = stream.expect("accepted");
                        let mut request = Vec::new();
                        stream.read_to_end(&mut request).expect("received");
                        stream.write_all(&request).expect("sent");
                    });
                }
            });
        },
    );
    assert!(
        seen.iter()
            .filter(|frame| frame.protocol() == 1)
            .all(|frame| frame.queue == PRIORITY_QUEUE)
    );
    assert!(
        seen.iter().any(|frame| frame.protocol() == 1),
        "an echo request was sent"
    );
    let (pure, rest): (Vec<_>, Vec<_>) = seen
        .iter()
        .filter(|frame| frame.protocol() == 6)
        .partition(|frame| frame.is_pure_acknowledgement());
    assert!(pure.len() > FLOWS, "the answers are acknowledged");
    assert!(
        pure.iter()
            .all(|frame| frame.queue == ACKNOWLEDGEMENT_QUEUE)
    );
    let mut queue_of_flow = HashMap::new();
    for frame in rest
        .iter()
        .filter(|frame| frame.transport()[13] & 0x02 == 0)
    {
        assert!(frame.queue >= RESERVED_QUEUES);
        assert_eq!(
            *queue_of_flow
                .entry(frame.source_port())
                .or_insert(frame.queue),
            frame.queue
        );
    }
    assert_eq!(queue_of_flow.len(), FLOWS);
    assert!(
        rest.iter().any(|frame| frame.packet.len() > 10_000),
        "superframes are steered too"
    );
}

/// Sends `count` datagrams of `bytes` bytes each in one call, every one full of its number.
fn send_segmented(to: SocketAddr, count: u8, bytes: u16) {
    let socket = UdpSocket::bind("10.7.0.1:0").expect("bound");
    let segment = i32::from(bytes);
    // SAFETY: the kernel reads one int, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const segment).cast(),
            4,
        )
    };
    assert_eq!(result, 0);
    let datagrams: Vec<u8> = (0..count)
        .flat_map(|number| vec![number; usize::from(bytes)])
        .collect();
    socket.send_to(&datagrams, to).expect("sent");
}

/// Sends an echo request and waits for its answer.
fn ping(to: SocketAddr) {
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto};
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP))
        .expect("a raw socket");
    let request = [8, 0, 0xf7, 0xfe, 0, 1, 0, 0]; // identifier 1, number 0, and their checksum
    rustix::net::sendto(&socket, &request, SendFlags::empty(), &to).expect("sent");
    let mut answer = [0; 64];
    let (length, _) =
        rustix::net::recv(&socket, &mut answer, RecvFlags::empty()).expect("answered");
    assert_eq!(length, 28);
}
