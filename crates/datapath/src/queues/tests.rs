use super::*;
use crate::testing::{MemoryShell, NoQueueCredit};
use culvert_base::frames::{ACKNOWLEDGEMENT_QUEUE, MAX_FRAME_BYTES};
use proptest::prelude::*;
use std::collections::VecDeque;

/// The first bulk queues of a device with priority queues.
const BULK: usize = RESERVED_QUEUES;
const OTHER_BULK: usize = RESERVED_QUEUES + 1;

/// Bytes of a small frame.
const SMALL: usize = 100;

/// The most bytes by which two queues that always have a frame may differ: the rest of a round of the one, and a round
/// with one frame too many of the other.
const UNFAIR_BYTES: u64 = 2 * QUANTUM_BYTES as u64 + MAX_FRAME_BYTES as u64;

/// TUN queues in memory.
struct Tun {
    shell: MemoryShell,
    queues: Queues<NoQueueCredit>,
    counters: WorkerCounters,
    buffer: Vec<u8>,
    /// The number of the next frame of each queue.
    next: Vec<u32>,
}

/// A frame that was read: its queue, its number there and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    queue: usize,
    number: u32,
    len: usize,
}

impl Tun {
    fn new(queues: usize, has_priority: bool) -> Self {
        let mut tun = Self {
            shell: MemoryShell::new(queues),
            queues: Queues::new(queues, Vec::new(), has_priority),
            counters: WorkerCounters::default(),
            buffer: vec![0; MAX_FRAME_BYTES],
            next: vec![0; queues],
        };
        // A new device has every queue read once.
        assert_eq!(tun.read(), None);
        tun
    }

    /// Puts a frame of `len` bytes, at least 8, into a queue, which becomes ready.
    fn queue(&mut self, queue: usize, len: usize) {
        let mut frame = vec![0; len];
        frame[0] = u8::try_from(queue).unwrap();
        frame[4..8].copy_from_slice(&self.next[queue].to_le_bytes());
        self.next[queue] += 1;
        self.shell.queues[queue].push_back(Ok(frame));
        self.queues.set_ready(1 << queue);
    }

    fn fail(&mut self, queue: usize, fault: QueueFault) {
        self.shell.queues[queue].push_back(Err(fault));
        self.queues.set_ready(1 << queue);
    }

    fn read(&mut self) -> Option<Frame> {
        self.read_in(false)
    }

    fn read_in(&mut self, only_priority: bool) -> Option<Frame> {
        let received = self
            .queues
            .receive(
                &mut self.shell,
                &mut self.buffer,
                BootTime::ZERO,
                only_priority,
                &self.counters,
            )
            .unwrap()?;
        let number = self.buffer[4..8].try_into().unwrap();
        Some(Frame {
            queue: usize::from(self.buffer[0]),
            number: u32::from_le_bytes(number),
            len: received.len,
        })
    }

    /// The queues of the frames that are read until all queues are empty.
    fn drain(&mut self) -> Vec<usize> {
        std::iter::from_fn(|| self.read())
            .map(|frame| frame.queue)
            .collect()
    }

    fn waiting(&self, queue: usize) -> usize {
        self.shell.queues[queue].len()
    }
}

/// The frames of the reserved queues before the first bulk frame, between each two of them, and after the last one.
fn priority_runs(queues: &[usize]) -> Vec<usize> {
    let runs = queues.split(|queue| *queue >= RESERVED_QUEUES);
    runs.map(<[usize]>::len).collect()
}

#[test]
fn a_read_that_fails_is_counted_as_a_lost_frame_and_the_next_frame_is_read() {
    let mut tun = Tun::new(1, false);
    tun.fail(0, QueueFault::Passing);
    tun.queue(0, SMALL);
    assert_eq!(tun.read().map(|frame| frame.len), Some(SMALL));
    assert_eq!(tun.read(), None);
    assert_eq!(tun.counters.dropped(Dropped::TunReadFailed), 1);
}

#[test]
fn a_queue_that_is_gone_or_broken_ends_the_worker() {
    for fault in [QueueFault::Gone, QueueFault::Broken] {
        let mut tun = Tun::new(1, false);
        tun.fail(0, fault);
        let Tun {
            shell,
            queues,
            counters,
            buffer,
            ..
        } = &mut tun;
        let received = queues.receive(shell, buffer, BootTime::ZERO, false, counters);
        assert!(received.is_err());
        assert_eq!(counters.dropped(Dropped::TunReadFailed), 0);
    }
}

#[test]
fn a_queue_whose_reads_keep_failing_is_left_alone_until_something_arrives_in_it() {
    let mut tun = Tun::new(1, false);
    for _ in 0..=MAX_READ_FAILURES {
        tun.fail(0, QueueFault::Passing);
    }
    assert_eq!(tun.read(), None);
    assert_eq!(tun.waiting(0), 1, "one more read was not tried");
    assert!(!tun.queues.is_ready());
    let lost = tun.counters.dropped(Dropped::TunReadFailed);
    assert_eq!(lost, u64::from(MAX_READ_FAILURES));
    tun.queue(0, SMALL);
    assert_eq!(tun.read().map(|frame| frame.number), Some(0));
}

#[test]
fn an_empty_bulk_queue_takes_no_turn_of_another_one_behind_priority_packets() {
    let mut tun = Tun::new(4, true);
    for _ in 0..10 * PRIORITY_BURST_FRAMES {
        tun.queue(PRIORITY_QUEUE, SMALL);
    }
    tun.queue(BULK, SMALL);
    for _ in 0..3 {
        tun.queue(OTHER_BULK, SMALL);
    }
    let read = tun.drain();
    let burst = PRIORITY_BURST_FRAMES as usize;
    assert_eq!(priority_runs(&read)[..4], [burst; 4]);
}

#[test]
fn a_bulk_queue_whose_read_fails_takes_no_turn_of_another_one_either() {
    let mut tun = Tun::new(4, true);
    for _ in 0..10 * PRIORITY_BURST_FRAMES {
        tun.queue(PRIORITY_QUEUE, SMALL);
    }
    tun.fail(BULK, QueueFault::Passing);
    tun.queue(OTHER_BULK, SMALL);
    let runs = priority_runs(&tun.drain());
    assert_eq!(runs[0], PRIORITY_BURST_FRAMES as usize);
}

#[test]
fn priority_packets_come_first_and_a_flood_of_them_leaves_each_burst_a_bulk_frame() {
    for flooded in [PRIORITY_QUEUE, ACKNOWLEDGEMENT_QUEUE] {
        let mut tun = Tun::new(3, true);
        for _ in 0..3 {
            tun.queue(BULK, MAX_FRAME_BYTES);
        }
        for _ in 0..4 * PRIORITY_BURST_FRAMES {
            tun.queue(flooded, SMALL);
        }
        let burst = PRIORITY_BURST_FRAMES as usize;
        assert_eq!(priority_runs(&tun.drain()), [burst; 4]);
    }
}

#[test]
fn a_priority_packet_comes_before_an_acknowledgement() {
    let mut tun = Tun::new(3, true);
    tun.queue(ACKNOWLEDGEMENT_QUEUE, SMALL);
    tun.queue(PRIORITY_QUEUE, SMALL);
    tun.queue(BULK, SMALL);
    assert_eq!(tun.drain(), [PRIORITY_QUEUE, ACKNOWLEDGEMENT_QUEUE, BULK]);
}

#[test]
fn a_look_for_priority_packets_reads_no_other_queue() {
    let mut tun = Tun::new(3, true);
    tun.queue(ACKNOWLEDGEMENT_QUEUE, SMALL);
    tun.queue(BULK, SMALL);
    assert_eq!(tun.read_in(true), None);
    tun.queue(PRIORITY_QUEUE, SMALL);
    assert!(tun.queues.priority_waits());
    assert_eq!(
        tun.read_in(true).map(|frame| frame.queue),
        Some(PRIORITY_QUEUE)
    );
    assert_eq!(tun.read_in(true), None);
    assert!(!tun.queues.priority_waits());
    assert_eq!(tun.drain(), [ACKNOWLEDGEMENT_QUEUE, BULK]);
}

#[test]
fn a_device_without_priority_queues_shares_the_first_ones_among_the_flows() {
    let mut tun = Tun::new(2, false);
    for _ in 0..4 {
        tun.queue(0, MAX_FRAME_BYTES);
        tun.queue(1, MAX_FRAME_BYTES);
    }
    assert!(!tun.queues.priority_waits());
    let read = tun.drain();
    for pair in read.chunks(2) {
        assert_ne!(pair[0], pair[1], "{read:?}");
    }
}

#[test]
fn a_flow_of_small_packets_gets_as_many_bytes_as_one_of_superframes() {
    let mut tun = Tun::new(2, false);
    for _ in 0..4_000 {
        tun.queue(0, SMALL);
    }
    for _ in 0..20 {
        tun.queue(1, MAX_FRAME_BYTES);
    }
    let mut bytes = [0_u64; 2];
    while tun.waiting(0) > 0 && tun.waiting(1) > 0 {
        let frame = tun.read().unwrap();
        bytes[frame.queue] += frame.len as u64;
    }
    assert!(bytes[0].abs_diff(bytes[1]) <= UNFAIR_BYTES, "{bytes:?}");
    assert!(bytes[0] > 3 * UNFAIR_BYTES / 2, "{bytes:?}");
}

#[test]
fn a_queue_that_was_empty_has_saved_no_turns() {
    let mut tun = Tun::new(2, false);
    // The other queue has had ten rounds by then.
    for _ in 0..10 {
        tun.queue(0, MAX_FRAME_BYTES);
    }
    assert_eq!(tun.drain(), [0; 10]);
    for _ in 0..4 {
        tun.queue(0, MAX_FRAME_BYTES);
        tun.queue(1, MAX_FRAME_BYTES);
    }
    let first = [(); 4].map(|()| tun.read().unwrap().queue);
    assert_eq!(first.iter().filter(|queue| **queue == 1).count(), 2);
}

#[test]
fn queues_that_are_not_counted_are_neither_rechecked_nor_said_to_wait() {
    let mut tun = Tun::new(3, true);
    assert_eq!(tun.queues.rechecks_after(), None);
    assert!(!tun.queues.are_counted());
    tun.queues.recheck(BootTime::MAX);
    assert!(!tun.queues.is_ready());
}

#[test]
fn a_bit_stands_for_each_queue_up_to_all_of_a_word() {
    assert_eq!(all_of(0), 0);
    assert_eq!(all_of(3), 0b111);
    assert_eq!(all_of(64), u64::MAX);
    let tun = Tun::new(64, true);
    assert!(!tun.queues.is_ready());
}

/// Something that happens to the queues of a device with two priority queues and three bulk queues.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Queued(usize, usize),
    Failed(usize),
    Read,
    ReadPriority,
}

const MODEL_QUEUES: usize = 5;

fn happening() -> impl Strategy<Value = Happening> {
    let len = prop_oneof![8_usize..200, 1_000_usize..1_500, 60_000..=MAX_FRAME_BYTES];
    prop_oneof![
        4 => (0..MODEL_QUEUES, len).prop_map(|(queue, len)| Happening::Queued(queue, len)),
        1 => (0..MODEL_QUEUES).prop_map(Happening::Failed),
        4 => Just(Happening::Read),
        1 => Just(Happening::ReadPriority),
    ]
}

proptest! {
    #[test]
    fn frames_of_a_queue_are_read_in_their_order_and_each_that_is_not_is_counted(
        happenings in prop::collection::vec(happening(), 1..200),
    ) {
        let mut tun = Tun::new(MODEL_QUEUES, true);
        let mut model: Vec<VecDeque<(u32, usize)>> = vec![VecDeque::new(); MODEL_QUEUES];
        let (mut failed, mut sent) = (0, vec![0; MODEL_QUEUES]);
        let check = |model: &mut Vec<VecDeque<(u32, usize)>>, frame: Frame| {
            let expected = model[frame.queue].pop_front();
            prop_assert_eq!(expected, Some((frame.number, frame.len)));
            Ok(())
        };
        for happening in happenings {
            match happening {
                Happening::Queued(queue, len) => {
                    tun.queue(queue, len);
                    model[queue].push_back((sent[queue], len));
                    sent[queue] += 1;
                }
                Happening::Failed(queue) => {
                    tun.fail(queue, QueueFault::Passing);
                    failed += 1;
                }
                Happening::Read => {
                    if let Some(frame) = tun.read() {
                        check(&mut model, frame)?;
                    }
                }
                Happening::ReadPriority => {
                    if let Some(frame) = tun.read_in(true) {
                        prop_assert_eq!(frame.queue, PRIORITY_QUEUE);
                        check(&mut model, frame)?;
                    }
                }
            }
        }
        while (0..MODEL_QUEUES).any(|queue| tun.waiting(queue) > 0) {
            // A queue of failures alone was left alone.
            tun.queues.set_ready(all_of(MODEL_QUEUES));
            while let Some(frame) = tun.read() {
                check(&mut model, frame)?;
            }
        }
        prop_assert!(model.iter().all(VecDeque::is_empty));
        prop_assert_eq!(tun.counters.dropped(Dropped::TunReadFailed), failed);
    }

    #[test]
    fn flows_that_always_have_a_frame_get_the_same_bytes_whatever_comes_and_goes_beside_them(
        lens in prop::collection::vec(8..=MAX_FRAME_BYTES, 2),
        others in prop::collection::vec((0..3_usize, 1..90_u8), 0..100),
    ) {
        // Two queues that are never empty, one that is now and then, and those with priority.
        let mut tun = Tun::new(MODEL_QUEUES, true);
        let steady = [RESERVED_QUEUES, RESERVED_QUEUES + 2];
        let mut bytes = [0_u64; MODEL_QUEUES];
        let mut run = 0;
        for step in 0..400 {
            for (queue, len) in steady.into_iter().zip(&lens) {
                while tun.waiting(queue) < 2 {
                    tun.queue(queue, *len);
                }
            }
            if let Some(&(queue, frames)) = others.get(step / 4).filter(|_| step % 4 == 0) {
                // The queues with priority, and the bulk queue between the two.
                let queue = [PRIORITY_QUEUE, ACKNOWLEDGEMENT_QUEUE, RESERVED_QUEUES + 1][queue];
                for _ in 0..frames {
                    tun.queue(queue, SMALL);
                }
            }
            let frame = tun.read().expect("there is always a frame");
            bytes[frame.queue] += frame.len as u64;
            run = if frame.queue < RESERVED_QUEUES { run + 1 } else { 0 };
            prop_assert!(run <= PRIORITY_BURST_FRAMES, "bulk queues wait for {run} frames");
            let unfair = bytes[steady[0]].abs_diff(bytes[steady[1]]);
            prop_assert!(unfair <= UNFAIR_BYTES, "{bytes:?}");
            let share = bytes[steady[0]].max(bytes[steady[1]]);
            prop_assert!(bytes[RESERVED_QUEUES + 1] <= share + UNFAIR_BYTES, "{bytes:?}");
        }
    }
}
