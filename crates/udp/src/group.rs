//! Sockets that share a port: which of them a datagram comes to, and how many have come to those for priority packets.
//!
//! Two programs of the kernel's BPF machine sort. A group of workers alone has a classic one, which anybody may attach.
//! If each worker has a priority socket too, an eBPF program is used. It also counts the datagrams that it sends to
//! priority sockets, in memory that it shares with the workers, so that a busy worker sees a priority packet without a
//! system call. That takes CAP_BPF.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use culvert_bpf::{
    Assembler, Condition, Instruction, Map, MapMemory, Name, Operation, ProgramOff, Register, Width,
};

use crate::control::ECN_BITS;
use crate::{UdpError, system};
use culvert_base::Family;
use culvert_base::datagrams::PRIORITY_CLASS;

use Condition::{Greater, NotEqual};
use Operation::{Add, And, Mod, Move, Mul, ShiftLeft, ShiftRight, Xor};
use Register::{R0, R1, R2, R3, R4, R5, R6, R9, R10};
use Width::{Byte, Half, Word};

/// The sockets that share a port: one for each worker, and as many again where priority packets have sockets of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Workers, each with a share of the peers.
    pub workers: NonZeroUsize,
    /// True if each worker has a second socket, for datagrams of [`PRIORITY_CLASS`]: they don't wait behind the rest.
    pub has_priority: bool,
}

impl Group {
    /// The number of sockets in the group.
    pub fn sockets(self) -> usize {
        self.workers.get() << u32::from(self.has_priority)
    }
}

/// The count of one priority socket.
#[derive(Debug)]
pub(crate) struct Arrivals {
    memory: Arc<MapMemory>,
    worker: usize,
}

impl Arrivals {
    pub(crate) fn count(&self) -> u64 {
        let number = self.memory.number(self.worker * NUMBERS_PER_WORKER);
        number.load(Ordering::Relaxed)
    }
}

/// Has all datagrams of one peer and traffic class come to one socket of the group that `socket` is of. Returns the
/// counts of the priority sockets, if the group has any.
pub(crate) fn sort(
    socket: BorrowedFd<'_>,
    family: Family,
    group: Group,
) -> Result<Vec<Arrivals>, UdpError> {
    if group.has_priority {
        return sort_by_class(socket, family, group.workers)
            .map_err(|reason| UdpError::Sorting { reason });
    }
    let mut program = classic_program(family, group.workers);
    system::attach_classic_program(socket, &mut program).map_err(|source| UdpError::System {
        action: "spread peers over workers",
        source,
    })?;
    Ok(Vec::new())
}

fn sort_by_class(
    socket: BorrowedFd<'_>,
    family: Family,
    workers: NonZeroUsize,
) -> Result<Vec<Arrivals>, ProgramOff> {
    let off = |error: io::Error| ProgramOff::from_error(&error);
    let workers = workers.get();
    let numbers = workers * NUMBERS_PER_WORKER;
    let map = Map::create(NAME, (numbers * size_of::<u64>()) as u32).map_err(off)?;
    let memory = Arc::new(map.share(numbers).map_err(off)?);
    let program = program(map.as_fd(), family, workers as i32);
    let program = culvert_bpf::load_socket_filter(NAME, &program).map_err(off)?;
    system::attach_program(socket, program.as_fd()).map_err(off)?;
    let arrivals = (0..workers).map(|worker| Arrivals {
        memory: Arc::clone(&memory),
        worker,
    });
    Ok(arrivals.collect())
}

/// 2³² divided by the golden ratio, odd: multiplying by it spreads every input bit over the higher output bits.
const SPREAD: u32 = 0x9e37_79b1;

/// The places of the words of a peer's address that tell peers apart, in bytes from the IP header, and the
/// place of its port.
const fn places(family: Family) -> (&'static [u16], u16) {
    match family {
        Family::V4 => (&[12], 20),
        // The last words of subnet and interface identifier; the rest rarely differs between peers.
        Family::V6 => (&[12, 20], 40),
    }
}

/// In a classic BPF load: the offset counts from the network header (`SKF_NET_OFF`, -0x100000).
const FROM_NETWORK_HEADER: u32 = 0_u32.wrapping_sub(0x10_0000);

/// The classic BPF program that picks a worker's socket by a hash of the peer's address and port. A load past the end of a
/// packet ends the program with 0, the first socket.
fn classic_program(family: Family, workers: NonZeroUsize) -> Vec<libc::sock_filter> {
    let (address_words, port) = places(family);
    // M[0] holds the hash so far; every step is hash = (hash ^ word) * SPREAD.
    let mut program = vec![step(libc::BPF_LD | libc::BPF_IMM, 0), step(libc::BPF_ST, 0)];
    let words = address_words
        .iter()
        .map(|offset| (libc::BPF_W, *offset))
        .chain([(libc::BPF_H, port)]);
    for (width, offset) in words {
        let from = FROM_NETWORK_HEADER.wrapping_add(offset.into());
        program.extend([
            step(libc::BPF_LD | width | libc::BPF_ABS, from),
            step(libc::BPF_LDX | libc::BPF_MEM, 0),
            step(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0),
            step(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, SPREAD),
            step(libc::BPF_ST, 0),
        ]);
    }
    program.extend([
        step(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 16),
        step(
            libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K,
            workers.get() as u32,
        ),
        step(libc::BPF_RET | libc::BPF_A, 0),
    ]);
    program
}

/// An instruction that does not jump.
fn step(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Of the program and of its map.
const NAME: Name = *b"culvert_sort\0\0\0\0";

/// Numbers of one worker in the shared memory, of which the first is used: two cache lines, since processors fetch lines in
/// pairs.
const NUMBERS_PER_WORKER: usize = 16;
/// log₂ of their bytes.
const WORKER_SHIFT: i32 = (NUMBERS_PER_WORKER * size_of::<u64>()).ilog2() as i32;

/// `BPF_FUNC_skb_load_bytes_relative(skb, offset, to, length, start)`, Linux 4.18: zero on success, an error past the end of
/// the packet.
const LOAD_BYTES_RELATIVE: i32 = 68;
/// `BPF_HDR_START_NET` of `enum bpf_hdr_start_off`.
const NETWORK_HEADER: i32 = 1;
/// The place on the stack to which the headers are copied: room for those of IPv6 and the ports, aligned
/// to eight.
const HEADERS: i16 = -48;

/// The jump targets of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    First,
    Bulk,
}

/// The program: the worker by a hash of the peer's address and port, by the traffic class which of its sockets; counts for
/// the priority ones. A packet too short to be sorted comes to the first socket.
///
/// Register use: r0 the socket, r9 the hash.
fn program(map: BorrowedFd<'_>, family: Family, workers: i32) -> Vec<Instruction> {
    let (address_words, port) = places(family);
    let mut code = Assembler::new();
    code.with_register(Move, R6, R1);
    code.with_number(Move, R2, 0);
    code.with_register(Move, R3, R10);
    code.with_number(Add, R3, HEADERS.into());
    code.with_number(Move, R4, i32::from(port) + 2);
    code.with_number(Move, R5, NETWORK_HEADER);
    code.call(LOAD_BYTES_RELATIVE);
    code.jump_if(NotEqual, R0, 0, Label::First);

    code.with_number(Move, R9, 0);
    code.constant(R2, SPREAD.into());
    let words = address_words.iter().map(|offset| (Word, *offset));
    for (width, offset) in words.chain([(Half, port)]) {
        code.load(width, R1, R10, HEADERS + offset as i16);
        code.with_register(Xor, R9, R1);
        code.with_register(Mul, R9, R2);
    }
    code.with_register(Move, R0, R9);
    // Above the lowest 32 bits, which do not depend on the higher ones of the words.
    code.with_number(ShiftRight, R0, 32);
    code.with_number(Mod, R0, workers);

    let dscp = i32::from(PRIORITY_CLASS & !ECN_BITS);
    match family {
        Family::V4 => {
            code.load(Byte, R1, R10, HEADERS + 1);
            code.with_number(And, R1, 0xfc);
            code.jump_if(NotEqual, R1, dscp, Label::Bulk);
        }
        Family::V6 => {
            // Version, traffic class and the first bits of the flow label share two bytes.
            code.load(Half, R1, R10, HEADERS);
            code.half_from_big_endian(R1);
            code.with_number(And, R1, 0xfc << 4);
            code.jump_if(NotEqual, R1, dscp << 4, Label::Bulk);
        }
    }
    // Never taken: the kernel does not see that a remainder is bounded.
    code.jump_if(Greater, R0, workers - 1, Label::First);
    code.with_register(Move, R2, R0);
    code.with_number(ShiftLeft, R2, WORKER_SHIFT);
    code.address_in_map(R1, map);
    code.with_register(Add, R1, R2);
    code.with_number(Move, R3, 1);
    code.add_atomically(R1, 0, R3);
    code.with_number(Add, R0, workers);
    code.place(Label::Bulk);
    code.exit();

    code.place(Label::First);
    code.with_number(Move, R0, 0);
    code.exit();
    code.finish()
}
