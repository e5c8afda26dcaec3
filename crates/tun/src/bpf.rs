//! A small assembler for the kernel's BPF machine, and the loading of what it makes.
//!
//! The instruction set is RFC 9669. Registers: r0 is a result, r1–r5 are arguments and lost in calls, r6–r9 are kept, r10
//! points just above a stack of 512 bytes.

use std::ffi::{CStr, c_long};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// A register of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Register {
    R0 = 0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
    R9,
    R10,
}

/// One instruction as the kernel reads it (RFC 9669 §3.1). The register byte holds the destination in its low half on
/// little-endian machines and in its high half on the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    opcode: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// 64-bit arithmetic (RFC 9669 §4.1): the operation bits of the opcode.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Operation {
    Add = 0x00,
    Mul = 0x20,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Mod = 0x90,
    Xor = 0xa0,
    Move = 0xb0,
}

/// Conditions of a jump, unsigned, over 64 bits (RFC 9669 §4.3).
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Condition {
    Equal = 0x10,
    NotEqual = 0x50,
    /// Any of the bits is set in both.
    AnyBit = 0x40,
}

/// Widths of a load (RFC 9669 §5).
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Width {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
    Double = 0x18,
}

const CLASS_LOAD_64_BIT_IMMEDIATE: u8 = 0x18;
const CLASS_LOAD_FROM_REGISTER: u8 = 0x61;
const CLASS_ARITHMETIC_64: u8 = 0x07;
const CLASS_BYTE_SWAP: u8 = 0xd4;
const TO_BIG_ENDIAN: u8 = 0x08;
const CLASS_JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// In an opcode: the second operand is a register, not the immediate.
const FROM_REGISTER: u8 = 0x08;

/// A program under construction. `Label` names the places that jumps go to.
#[derive(Debug)]
pub(crate) struct Assembler<Label> {
    code: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    places: Vec<(Label, usize)>,
}

impl<Label: Copy + Eq> Assembler<Label> {
    pub(crate) fn new() -> Self {
        Self {
            code: Vec::new(),
            jumps: Vec::new(),
            places: Vec::new(),
        }
    }

    /// `destination ∘= immediate`, the immediate sign-extended.
    pub(crate) fn with_number(
        &mut self,
        operation: Operation,
        destination: Register,
        immediate: i32,
    ) {
        self.push(
            CLASS_ARITHMETIC_64 | operation as u8,
            destination,
            Register::R0,
            0,
            immediate,
        );
    }

    /// `destination ∘= source`.
    pub(crate) fn with_register(
        &mut self,
        operation: Operation,
        destination: Register,
        source: Register,
    ) {
        self.push(
            CLASS_ARITHMETIC_64 | FROM_REGISTER | operation as u8,
            destination,
            source,
            0,
            0,
        );
    }

    /// `destination = constant`, all 64 bits; takes two instruction slots.
    pub(crate) fn constant(&mut self, destination: Register, constant: u64) {
        let [low, high] = [constant, constant >> 32].map(|half| (half as u32).cast_signed());
        self.push(
            CLASS_LOAD_64_BIT_IMMEDIATE,
            destination,
            Register::R0,
            0,
            low,
        );
        self.push(0, Register::R0, Register::R0, 0, high);
    }

    /// `destination = *(base + offset)`, zero-extended, in the machine's byte order.
    pub(crate) fn load(
        &mut self,
        width: Width,
        destination: Register,
        base: Register,
        offset: i16,
    ) {
        self.push(
            CLASS_LOAD_FROM_REGISTER | width as u8,
            destination,
            base,
            offset,
            0,
        );
    }

    /// Reads the low half-word of `register` as a big-endian number.
    pub(crate) fn half_from_big_endian(&mut self, register: Register) {
        self.push(
            CLASS_BYTE_SWAP | TO_BIG_ENDIAN,
            register,
            Register::R0,
            0,
            16,
        );
    }

    /// Jumps to `label` if `register` and `immediate` meet `condition`.
    pub(crate) fn jump_if(
        &mut self,
        condition: Condition,
        register: Register,
        immediate: i32,
        label: Label,
    ) {
        self.jumps.push((self.code.len(), label));
        self.push(
            CLASS_JUMP | condition as u8,
            register,
            Register::R0,
            0,
            immediate,
        );
    }

    /// Jumps to `label` if both registers are equal.
    pub(crate) fn jump_if_same(&mut self, left: Register, right: Register, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(
            CLASS_JUMP | FROM_REGISTER | Condition::Equal as u8,
            left,
            right,
            0,
            0,
        );
    }

    /// Jumps to `label`.
    pub(crate) fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(CLASS_JUMP, Register::R0, Register::R0, 0, 0);
    }

    /// Calls the kernel's `helper` (`enum bpf_func_id`).
    pub(crate) fn call(&mut self, helper: i32) {
        self.push(CALL, Register::R0, Register::R0, 0, helper);
    }

    /// Ends the program with r0 as its result.
    pub(crate) fn exit(&mut self) {
        self.push(EXIT, Register::R0, Register::R0, 0, 0);
    }

    /// Jumps to `label` arrive at the next instruction.
    pub(crate) fn place(&mut self, label: Label) {
        self.places.push((label, self.code.len()));
    }

    /// The program, its jumps resolved. A jump to a label that was never placed stays a jump to the next instruction;
    /// the tests run every path.
    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        for (from, label) in self.jumps {
            let to = self
                .places
                .iter()
                .find_map(|(placed, at)| (*placed == label).then_some(*at));
            debug_assert!(to.is_some(), "a jump goes nowhere");
            // Programs here have some hundred instructions, so the distance fits; jumps only go forward.
            self.code[from].offset = to.map_or(0, |to| (to - from - 1) as i16);
        }
        self.code
    }

    fn push(
        &mut self,
        opcode: u8,
        destination: Register,
        source: Register,
        offset: i16,
        immediate: i32,
    ) {
        let registers = if cfg!(target_endian = "little") {
            destination as u8 | (source as u8) << 4
        } else {
            (destination as u8) << 4 | source as u8
        };
        self.code.push(Instruction {
            opcode,
            registers,
            offset,
            immediate,
        });
    }
}

/// `BPF_PROG_LOAD` of `enum bpf_cmd`.
const COMMAND_LOAD: c_long = 5;
/// `BPF_PROG_TYPE_SOCKET_FILTER` of `enum bpf_prog_type`, the type that TUNSETSTEERINGEBPF takes.
const TYPE_SOCKET_FILTER: u32 = 1;
/// The program uses no helper that is reserved for GPL programs.
const LICENCE: &CStr = c"Apache-2.0";
/// Shown by `bpftool prog`; at most fifteen bytes.
const NAME: [u8; 16] = *b"culvert_steer\0\0\0";

/// The part of `union bpf_attr` that `BPF_PROG_LOAD` has had since Linux 4.15, which is older than the steering of TUN
/// queues (4.16).
#[repr(C)]
struct LoadAttributes {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

/// Loads `program` as a socket filter; the descriptor keeps it alive until it is attached.
///
/// # Errors
/// `EPERM` without CAP_BPF (or CAP_SYS_ADMIN); `ENOSYS` without BPF in the kernel; `EINVAL` or `EACCES` when the kernel's
/// verifier refuses the program.
pub(crate) fn load_socket_filter(program: &[Instruction]) -> io::Result<OwnedFd> {
    let mut attempts = 1;
    loop {
        match load_once(program) {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && attempts < MAX_LOAD_ATTEMPTS =>
            {
                attempts += 1;
            }
            result => return result,
        }
    }
}

/// The verifier gives up with `EAGAIN` when a signal arrives; a process does not get that many in a row.
const MAX_LOAD_ATTEMPTS: u32 = 5;

fn load_once(program: &[Instruction]) -> io::Result<OwnedFd> {
    let attributes = LoadAttributes {
        program_type: TYPE_SOCKET_FILTER,
        instruction_count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: NAME,
    };
    // SAFETY: the kernel reads `size_of::<LoadAttributes>()` bytes of `attributes`, a C structure without padding, and
    // through it the instructions and the licence, all of which outlive the call. It writes nothing: no log is asked for.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            COMMAND_LOAD,
            &raw const attributes,
            size_of::<LoadAttributes>() as c_long,
        )
    };
    let descriptor = i32::try_from(descriptor).unwrap_or(-1);
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just returned this descriptor, close-on-exec, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
pub(crate) mod run {
    //! Runs a loaded program on given packets (`BPF_PROG_TEST_RUN`).

    use super::{c_long, io};
    use std::os::fd::{AsRawFd, BorrowedFd};

    const COMMAND_TEST_RUN: c_long = 10;

    #[repr(C)]
    struct RunAttributes {
        program: u32,
        result: u32,
        bytes_in: u32,
        bytes_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
    }

    /// What `program` answers for `packet`, which begins with its IP header.
    pub(crate) fn socket_filter(program: BorrowedFd<'_>, packet: &[u8]) -> io::Result<u32> {
        // The kernel wants an Ethernet header, and hides it from this type of program. Under the experimental type it
        // does not look for an IP header of its own, so any bytes will do.
        let frame = [&[0; 12], &[0x88, 0xb5][..], packet].concat();
        let mut attributes = RunAttributes {
            program: program.as_raw_fd().cast_unsigned(),
            result: 0,
            bytes_in: frame.len() as u32,
            bytes_out: 0,
            data_in: frame.as_ptr() as u64,
            data_out: 0,
            repeat: 1,
            duration: 0,
        };
        // SAFETY: the kernel reads and writes the attributes and reads `bytes_in` bytes of `frame`; both outlive the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                COMMAND_TEST_RUN,
                &raw mut attributes,
                size_of::<RunAttributes>() as c_long,
            )
        };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(attributes.result)
        }
    }
}
