//! The choice of a queue for each packet from the host: a BPF program that the kernel runs on every
//! packet.
//!
//! Two queues are for packets that must not wait behind bulk. [`PRIORITY_QUEUE`] is for ICMP, DNS and TCP SYN, of which
//! there are few. [`ACKNOWLEDGEMENT_QUEUE`] is for *pure* acknowledgements: there are many, and it does no harm to
//! carry several at a time. The rest is spread over the bulk queues by a hash of the five-tuple, computed from the
//! packet's own bytes. The kernel's `skb->hash` is not used because it changes when TCP retransmits
//! (`sk_rethink_txhash`), and a flow that changes its queue is reordered.
//!
//! Only pure acknowledgements may leave their flow's queue. They carry no sequence space, so one that overtakes data, or is
//! overtaken, reorders nothing. A SYN comes before all data of its flow; a flow on port 53 goes to the priority queue
//! whole.
//!
//! Fragments have no ports but in the first, and IPv6 extension headers would have to be walked: both are hashed by
//! addresses alone.

use std::fmt;
use std::os::fd::OwnedFd;

use culvert_bpf::{
    Assembler, Condition, Instruction, Name, Operation, ProgramOff, Register, Width,
};

use crate::TunError;
use culvert_base::frames::{ACKNOWLEDGEMENT_QUEUE, PRIORITY_QUEUE, RESERVED_QUEUES};

use Condition::{AnyBit, Equal, NotEqual};
use Operation::{Add, And, Mod, Move, Mul, Or, ShiftLeft, ShiftRight, Xor};
use Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use Width::{Byte, Double, Half, Word};

/// The most queues of one device: what the kernel allows a TUN device (`MAX_TAP_QUEUES`).
pub const MAX_QUEUES: usize = 256;

/// The spread of packets from the host over queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steering {
    /// True if the first [`RESERVED_QUEUES`] are kept for packets that must not wait; the bulk queues follow them.
    pub priority_queues: bool,
    /// Queues among which flows are spread; at least one.
    pub bulk_queues: u16,
}

/// The state of the steering that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SteeringState {
    /// None was asked for: the device has one queue.
    NotAsked,
    /// The program runs on every packet.
    On(Steering),
    /// It could not be had: the device has one queue.
    Off(ProgramOff),
}

impl fmt::Display for SteeringState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => formatter.write_str("off: one queue"),
            Self::On(_) => formatter.write_str("on"),
            Self::Off(reason) => write!(formatter, "off: {reason}"),
        }
    }
}

impl Steering {
    /// The queues a device with this steering has.
    pub fn queues(self) -> usize {
        usize::from(self.bulk_queues) + self.first_bulk_queue()
    }

    fn first_bulk_queue(self) -> usize {
        if self.priority_queues {
            RESERVED_QUEUES
        } else {
            0
        }
    }

    /// Checks the number of queues.
    pub(crate) fn validate(self) -> Result<(), TunError> {
        let queues = self.queues();
        if self.bulk_queues == 0 || queues > MAX_QUEUES {
            Err(TunError::InvalidSteering { queues })
        } else {
            Ok(())
        }
    }

    /// Loads the program. Happens before the device is made, because a device is single-queue or multi-queue for life and
    /// several queues without this program would reorder flows.
    pub(crate) fn load(self) -> Result<OwnedFd, ProgramOff> {
        culvert_bpf::load_socket_filter(NAME, &self.program())
            .map_err(|error| ProgramOff::from_error(&error))
    }

    /// The program. Register use: r6 the packet, r7 its length, r8 where the transport header begins, r9 the hash.
    fn program(self) -> Vec<Instruction> {
        let mut program = Program {
            code: Assembler::new(),
            steering: self,
        };
        program.network_header();
        program.udp();
        program.tcp();
        program.verdicts();
        program.code.finish()
    }
}

/// The jump targets of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Ipv6,
    Transport,
    Tcp,
    TcpFlow,
    Flow,
    Addresses,
    Priority,
    Acknowledgement,
}

const NAME: Name = *b"culvert_steer\0\0\0";

/// `BPF_FUNC_skb_load_bytes(skb, offset, to, length)`: zero on success, an error past the end of the packet.
const LOAD_BYTES: i32 = 26;
/// The offset of the packet's length in `__sk_buff`: all of a superframe, headers included.
const LENGTH_OF_PACKET: i16 = 0;
/// The place on the stack to which the IP header is copied; 40 bytes, aligned to eight.
const IP: i16 = -40;
/// The place on the stack to which the first bytes of the transport header are copied; 16 bytes.
const TRANSPORT: i16 = -56;

const IPV4_HEADER_BYTES: i32 = 20;
const IPV6_HEADER_BYTES: i32 = 40;
const PORT_BYTES: i32 = 4;
/// As much of the TCP header as has the data offset (byte 12) and the flags (byte 13).
const TCP_BYTES_TO_FLAGS: i32 = 14;
/// More-fragments and the fragment offset, of the 16-bit field with the flags.
const IPV4_IS_FRAGMENT: i32 = 0x3fff;

const ICMP: i32 = 1;
const TCP: i32 = 6;
const UDP: i32 = 17;
const ICMPV6: i32 = 58;
const PORT_DNS: i32 = 53;

const TCP_SYN: i32 = 0x02;
const TCP_ACK: i32 = 0x10;
/// FIN, RST, PSH and URG: what a pure acknowledgement does not have. ECE and CWR it may have: with accurate ECN
/// (RFC 9768) they are a counter on every packet.
const TCP_NOT_PURE: i32 = 0x01 | 0x04 | 0x08 | 0x20;

/// 2⁶⁴ divided by the golden ratio, odd: multiplying by it spreads every input bit over the higher output bits (Knuth,
/// TAOCP vol. 3 §6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

struct Program {
    code: Assembler<Label>,
    steering: Steering,
}

impl Program {
    /// Reads the IP header; leaves the protocol in r2, the transport offset in r8 and a hash of the addresses in r9.
    fn network_header(&mut self) {
        let code = &mut self.code;
        code.with_register(Move, R6, R1);
        code.load(Word, R7, R6, LENGTH_OF_PACKET);
        code.with_number(Move, R9, 0);
        code.with_number(Move, R8, 0);
        self.copy(IP, IPV4_HEADER_BYTES, Label::Addresses);
        let code = &mut self.code;
        code.load(Byte, R8, R10, IP);
        code.with_register(Move, R0, R8);
        code.with_number(ShiftRight, R0, 4);
        code.jump_if(Equal, R0, 6, Label::Ipv6);
        code.jump_if(NotEqual, R0, 4, Label::Addresses);

        // Internet header length in words of four bytes.
        code.with_number(And, R8, 0x0f);
        code.with_number(ShiftLeft, R8, 2);
        code.load(Word, R9, R10, IP + 12);
        code.with_number(ShiftLeft, R9, 32);
        code.load(Word, R1, R10, IP + 16);
        code.with_register(Or, R9, R1);
        self.spread();
        let code = &mut self.code;
        code.load(Half, R1, R10, IP + 6);
        code.half_from_big_endian(R1);
        code.jump_if(AnyBit, R1, IPV4_IS_FRAGMENT, Label::Addresses);
        code.load(Byte, R2, R10, IP + 9);
        self.priority_if_equal(R2, ICMP);
        self.code.jump(Label::Transport);

        self.code.place(Label::Ipv6);
        self.code.with_number(Move, R8, 0);
        self.copy(IP, IPV6_HEADER_BYTES, Label::Addresses);
        for word in 0..4 {
            self.code.load(Double, R1, R10, IP + 8 + 8 * word);
            self.code.with_register(Xor, R9, R1);
            self.spread();
        }
        self.code.with_number(Move, R8, IPV6_HEADER_BYTES);
        self.code.load(Byte, R2, R10, IP + 6);
        self.priority_if_equal(R2, ICMPV6);
    }

    fn udp(&mut self) {
        self.code.place(Label::Transport);
        self.code.jump_if(Equal, R2, TCP, Label::Tcp);
        self.code.jump_if(NotEqual, R2, UDP, Label::Addresses);
        self.copy(TRANSPORT, PORT_BYTES, Label::Addresses);
        self.priority_if_dns();
        self.code.with_number(Xor, R9, UDP);
        self.code.jump(Label::Flow);
    }

    fn tcp(&mut self) {
        self.code.place(Label::Tcp);
        self.copy(TRANSPORT, TCP_BYTES_TO_FLAGS, Label::Addresses);
        self.priority_if_dns();
        if self.steering.priority_queues {
            let code = &mut self.code;
            code.load(Byte, R1, R10, TRANSPORT + 13);
            code.jump_if(AnyBit, R1, TCP_SYN, Label::Priority);
            code.jump_if(AnyBit, R1, TCP_NOT_PURE, Label::TcpFlow);
            code.with_number(And, R1, TCP_ACK);
            code.jump_if(Equal, R1, 0, Label::TcpFlow);
            // Data offset in words of four bytes. No payload: the packet ends with its headers.
            code.load(Byte, R2, R10, TRANSPORT + 12);
            code.with_number(ShiftRight, R2, 4);
            code.with_number(ShiftLeft, R2, 2);
            code.with_register(Add, R2, R8);
            code.jump_if_both(Equal, R2, R7, Label::Acknowledgement);
        }
        self.code.place(Label::TcpFlow);
        self.code.with_number(Xor, R9, TCP);
    }

    /// Turns the hash, with the ports or without, into the number of a queue.
    fn verdicts(&mut self) {
        self.code.place(Label::Flow);
        self.code.load(Word, R1, R10, TRANSPORT);
        self.code.with_number(ShiftLeft, R1, 8);
        self.code.with_register(Xor, R9, R1);
        self.spread();

        self.code.place(Label::Addresses);
        self.spread();
        let code = &mut self.code;
        code.with_register(Move, R0, R9);
        code.with_number(Mod, R0, i32::from(self.steering.bulk_queues));
        code.with_number(Add, R0, self.steering.first_bulk_queue() as i32);
        code.exit();

        if self.steering.priority_queues {
            for (label, queue) in [
                (Label::Priority, PRIORITY_QUEUE),
                (Label::Acknowledgement, ACKNOWLEDGEMENT_QUEUE),
            ] {
                self.code.place(label);
                self.code.with_number(Move, R0, queue as i32);
                self.code.exit();
            }
        }
    }

    /// Copies `bytes` of the packet from offset r8 to the stack; goes to `otherwise` where the packet is shorter.
    fn copy(&mut self, stack: i16, bytes: i32, otherwise: Label) {
        let code = &mut self.code;
        code.with_register(Move, R1, R6);
        code.with_register(Move, R2, R8);
        code.with_register(Move, R3, R10);
        code.with_number(Add, R3, i32::from(stack));
        code.with_number(Move, R4, bytes);
        code.call(LOAD_BYTES);
        code.jump_if(NotEqual, R0, 0, otherwise);
    }

    /// A flow with port 53 at either end is DNS.
    fn priority_if_dns(&mut self) {
        if !self.steering.priority_queues {
            return;
        }
        for offset in [0, 2] {
            self.code.load(Half, R1, R10, TRANSPORT + offset);
            self.code.half_from_big_endian(R1);
            self.priority_if_equal(R1, PORT_DNS);
        }
    }

    fn priority_if_equal(&mut self, register: Register, value: i32) {
        if self.steering.priority_queues {
            self.code.jump_if(Equal, register, value, Label::Priority);
        }
    }

    /// Spreads the bits of the hash in r9; r1 is lost.
    fn spread(&mut self) {
        self.code.constant(R1, SPREAD);
        self.code.with_register(Mul, R9, R1);
        self.code.with_register(Move, R1, R9);
        self.code.with_number(ShiftRight, R1, 32);
        self.code.with_register(Xor, R9, R1);
    }
}

#[cfg(test)]
mod tests;
