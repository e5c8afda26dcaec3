//! A limit on the bytes that wait in each queue, and their number.
//!
//! The kernel limits a queue in frames, and a frame is anything from a 40-byte packet to a 64 KiB superframe. A length
//! that holds a burst of small packets holds a hundred times too much of superframes. So a BPF program is asked before
//! a packet joins its queue. Program and reader share numbers of each queue. Two of them only ever grow: the program
//! adds to the bytes *queued*, the reader to the bytes *taken*, and the difference waits. The third is the bound, which
//! the reader may move at any time. Unlike a change of the kernel's limit, this takes no queue out of service and loses
//! no waiting packet.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use culvert_bpf::{
    Assembler, Condition, Instruction, Map, MapMemory, Name, Operation, ProgramOff, Register, Width,
};

use crate::ioctl;
use culvert_base::frames::{MAX_BOUND_BYTES, MIN_BOUND_BYTES, MIN_PACKET_BYTES, counted_bytes};

use Condition::{Greater, GreaterSigned};
use Operation::{Add, Move, ShiftLeft, Subtract};
use Register::{R0, R1, R2, R3, R4, R5};
use Width::{Double, Word};

/// The lowest bound of packets that count just that, which superframes never do. It holds 4096 packets: those that come
/// in at 600,000 packets a second during 6 ms, while the reader waits for a processor that two other threads have for a
/// time slice each. Their senders may have no congestion control, while those of superframes have TCP's.
pub const MIN_SINGLES_BOUND_BYTES: u64 = 8 << 20;

/// More packets than the bound lets wait, however small: what the queues must have room for.
pub(crate) const MAX_WAITING_PACKETS: u32 =
    (MAX_BOUND_BYTES / MIN_PACKET_BYTES) as u32 + RING_SLACK_PACKETS;

/// A ring of the kernel gives room back 16 packets at a time, and each processor may be one packet over the bound: 16
/// packets and 240 processors.
const RING_SLACK_PACKETS: u32 = 256;

/// A reader tells the program what it has taken when it is so much: less often than packets are read, as the number is
/// fetched by whatever processor the host sends from.
const PUBLISH_BYTES: u64 = 64 * 1024;

/// Numbers of one queue in the shared memory: what the program writes and what the reader writes lie two cache lines
/// apart, since processors fetch lines in pairs.
const NUMBERS_PER_QUEUE: usize = 32;
const QUEUED: usize = 0;
const TAKEN: usize = 16;
const BOUND: usize = 17;
/// log₂ of the bytes of one queue.
const QUEUE_SHIFT: i32 = (NUMBERS_PER_QUEUE * size_of::<u64>()).ilog2() as i32;

/// The state of the bound that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundState {
    /// None was asked for: the kernel's bound, in frames.
    NotAsked,
    /// The program runs on every packet.
    On,
    /// It could not be had: the kernel's bound, in frames.
    Off(ProgramOff),
}

impl fmt::Display for BoundState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => formatter.write_str("off: by configuration"),
            Self::On => formatter.write_str("on"),
            Self::Off(reason) => write!(formatter, "off: {reason}"),
        }
    }
}

/// A reader's credit of one queue; see [`Device::take_credits`](crate::Device::take_credits).
#[derive(Debug)]
pub struct QueueCredit {
    memory: Arc<MapMemory>,
    queue: usize,
    /// Bytes taken, as this side counts.
    taken: u64,
    /// Of those, what the program knows.
    published: u64,
}

impl QueueCredit {
    /// Notes a frame that was read, its virtio-net header included in `frame_len`. True once it is time to
    /// [`publish`](Self::publish).
    pub fn take(&mut self, frame_len: usize) -> bool {
        self.taken = self.taken.wrapping_add(counted_bytes(frame_len));
        self.taken.wrapping_sub(self.published) >= PUBLISH_BYTES
    }

    /// Notes that nothing was left to read: nothing waits then, whatever was counted. Packets that were counted and
    /// never came, or that an earlier reader took, are forgotten here. If such packets fill the bound, no packet comes
    /// that would wake a reader, so the reader must check the queue from time to time. A packet that is on its way into
    /// the queue at this moment is counted as taken now and again when it is read, until the queue is found empty the
    /// next time.
    pub fn found_empty(&mut self) {
        self.taken = self.queued();
        if self.taken != self.published {
            self.store_taken();
        }
    }

    /// Tells the program what was taken. Returns the bytes that wait, as they count.
    pub fn publish(&mut self) -> u64 {
        self.store_taken();
        let waiting = self.queued().wrapping_sub(self.taken);
        u64::try_from(waiting.cast_signed()).unwrap_or(0)
    }

    /// True if something was queued that has not been taken, as far as the credit is right. Costs no system call.
    pub fn has_waiting(&self) -> bool {
        self.queued() != self.taken
    }

    /// Sets the bound in bytes, as far as it lies between [`MIN_BOUND_BYTES`] and [`MAX_BOUND_BYTES`]. Waiting packets
    /// stay.
    pub fn set_bound(&mut self, bytes: u64) {
        let bytes = bytes.clamp(MIN_BOUND_BYTES, MAX_BOUND_BYTES);
        self.number(BOUND).store(bytes, Ordering::Relaxed);
    }

    /// Bytes taken since the device was made: with what waits, a place in the stream of what was queued.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    fn queued(&self) -> u64 {
        self.number(QUEUED).load(Ordering::Relaxed)
    }

    fn store_taken(&mut self) {
        self.published = self.taken;
        self.number(TAKEN).store(self.taken, Ordering::Relaxed);
    }

    fn number(&self, which: usize) -> &AtomicU64 {
        self.memory.number(self.queue * NUMBERS_PER_QUEUE + which)
    }
}

/// Has the kernel bound the `queues` of the device behind `tun`. Returns the credit of each.
pub(crate) fn start(tun: BorrowedFd<'_>, queues: usize) -> Result<Vec<QueueCredit>, ProgramOff> {
    let off = |error: io::Error| ProgramOff::from_error(&error);
    let numbers = queues * NUMBERS_PER_QUEUE;
    let map = Map::create(NAME, (numbers * size_of::<u64>()) as u32).map_err(off)?;
    let memory = Arc::new(map.share(numbers).map_err(off)?);
    let credit = |queue| {
        let mut credit = QueueCredit {
            memory: Arc::clone(&memory),
            queue,
            taken: 0,
            published: 0,
        };
        credit.set_bound(MIN_BOUND_BYTES);
        credit
    };
    let credits = (0..queues).map(credit).collect();
    let program =
        culvert_bpf::load_socket_filter(NAME, &program(map.as_fd(), queues)).map_err(off)?;
    ioctl::set_filter(tun, program.as_fd()).map_err(off)?;
    Ok(credits)
}

/// Of the program and of its map.
const NAME: Name = *b"culvert_bound\0\0\0";

/// The jump targets of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Compare,
    Drop,
    Take,
}

/// The offset of the packet's length in `__sk_buff`: all of a superframe, headers included.
const LENGTH_OF_PACKET: i16 = 0;
/// The offset in `__sk_buff` of the queue that the steering program chose.
const QUEUE_OF_PACKET: i16 = 12;

/// The program. It answers with the bytes of the packet that join the queue: all or none.
///
/// Register use: r0 the length, r1 the queue's numbers, r2 the queue, r3 what the packet counts, r4 what would wait with
/// it, r5 the bound. Packets from several processors may pass the comparison together: the bound is exceeded by one packet
/// of each at most.
fn program(map: BorrowedFd<'_>, queues: usize) -> Vec<Instruction> {
    const SINGLE: i32 = MIN_PACKET_BYTES as i32;
    const SINGLES: i32 = MIN_SINGLES_BOUND_BYTES as i32;
    let mut code = Assembler::new();
    code.load(Word, R0, R1, LENGTH_OF_PACKET);
    code.load(Word, R2, R1, QUEUE_OF_PACKET);
    code.jump_if(Greater, R2, queues as i32 - 1, Label::Take);
    code.with_number(ShiftLeft, R2, QUEUE_SHIFT);
    code.address_in_map(R1, map);
    code.with_register(Add, R1, R2);

    code.load(Double, R5, R1, offset_of(BOUND));
    code.with_register(Move, R3, R0);
    code.jump_if(Greater, R0, SINGLE, Label::Compare);
    code.with_number(Move, R3, SINGLE);
    code.jump_if(Greater, R5, SINGLES, Label::Compare);
    code.with_number(Move, R5, SINGLES);

    code.place(Label::Compare);
    code.load(Double, R4, R1, offset_of(QUEUED));
    code.load(Double, R2, R1, offset_of(TAKEN));
    code.with_register(Subtract, R4, R2);
    code.with_register(Add, R4, R3);
    code.jump_if_both(GreaterSigned, R4, R5, Label::Drop);
    code.add_atomically(R1, offset_of(QUEUED), R3);
    code.place(Label::Take);
    code.exit();

    code.place(Label::Drop);
    code.with_number(Move, R0, 0);
    code.exit();
    code.finish()
}

/// The offset of a number of the queue, in bytes.
const fn offset_of(number: usize) -> i16 {
    (number * size_of::<u64>()) as i16
}
