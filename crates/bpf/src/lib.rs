//! Programs for the kernel's BPF machine: a small assembler, loading them as socket filters, and memory that a program
//! shares with this process.
//!
//! The instruction set is RFC 9669. Registers: r0 is a result, r1–r5 are arguments and lost in calls, r6–r9 are kept, r10
//! points just above a stack of 512 bytes.

mod system;

use std::os::fd::{AsRawFd, BorrowedFd};

#[cfg(feature = "run")]
pub use system::run;
pub use system::{Map, MapMemory, Name, ProgramOff, load_socket_filter};

/// A register of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Register {
    /// The result.
    R0 = 0,
    /// An argument.
    R1,
    /// An argument.
    R2,
    /// An argument.
    R3,
    /// An argument.
    R4,
    /// An argument.
    R5,
    /// Kept.
    R6,
    /// Kept.
    R7,
    /// Kept.
    R8,
    /// Kept.
    R9,
    /// Above the stack.
    R10,
}

/// One instruction as the kernel reads it (RFC 9669 §3.1). The register byte holds the destination in its low half on
/// little-endian machines and in its high half on the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    opcode: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// 64-bit arithmetic (RFC 9669 §4.1): the operation bits of the opcode.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub enum Operation {
    /// Sum.
    Add = 0x00,
    /// Difference.
    Subtract = 0x10,
    /// Product.
    Mul = 0x20,
    /// Bits of either.
    Or = 0x40,
    /// Bits of both.
    And = 0x50,
    /// To the higher bits.
    ShiftLeft = 0x60,
    /// To the lower bits.
    ShiftRight = 0x70,
    /// Remainder.
    Mod = 0x90,
    /// Bits of one alone.
    Xor = 0xa0,
    /// The second operand.
    Move = 0xb0,
}

/// Conditions of a jump, over 64 bits and unsigned unless said otherwise (RFC 9669 §4.3).
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub enum Condition {
    /// They are the same.
    Equal = 0x10,
    /// The first is greater.
    Greater = 0x20,
    /// The first is greater, signed.
    GreaterSigned = 0x60,
    /// They differ.
    NotEqual = 0x50,
    /// Any of the bits is set in both.
    AnyBit = 0x40,
}

/// Widths of a load (RFC 9669 §5).
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub enum Width {
    /// 8 bits.
    Byte = 0x10,
    /// 16 bits.
    Half = 0x08,
    /// 32 bits.
    Word = 0x00,
    /// 64 bits.
    Double = 0x18,
}

const CLASS_LOAD_64_BIT_IMMEDIATE: u8 = 0x18;
const CLASS_LOAD_FROM_REGISTER: u8 = 0x61;
/// Adds to a double word in memory, atomically (RFC 9669 §5.3).
const ATOMIC_DOUBLE: u8 = 0xdb;
/// The source-register field of a 64-bit immediate that is an address in a map with one value. The low half of the
/// immediate is the descriptor of the map, and the high half is an offset into the value (RFC 9669 §5.4).
const ADDRESS_IN_MAP: u8 = 2;
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
pub struct Assembler<Label> {
    code: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    places: Vec<(Label, usize)>,
}

impl<Label: Copy + Eq> Assembler<Label> {
    /// An empty program.
    #[expect(clippy::new_without_default, reason = "a program is begun, not had")]
    pub fn new() -> Self {
        Self {
            code: Vec::new(),
            jumps: Vec::new(),
            places: Vec::new(),
        }
    }

    /// `destination ∘= immediate`, the immediate sign-extended.
    pub fn with_number(&mut self, operation: Operation, destination: Register, immediate: i32) {
        self.push(
            CLASS_ARITHMETIC_64 | operation as u8,
            destination,
            Register::R0,
            0,
            immediate,
        );
    }

    /// `destination ∘= source`.
    pub fn with_register(&mut self, operation: Operation, destination: Register, source: Register) {
        self.push(
            CLASS_ARITHMETIC_64 | FROM_REGISTER | operation as u8,
            destination,
            source,
            0,
            0,
        );
    }

    /// `destination = constant`, all 64 bits; takes two instruction slots.
    pub fn constant(&mut self, destination: Register, constant: u64) {
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

    /// `destination` = where the value of `map` begins, a map of one value; takes two instruction slots.
    pub fn address_in_map(&mut self, destination: Register, map: BorrowedFd<'_>) {
        self.push_raw(Instruction {
            opcode: CLASS_LOAD_64_BIT_IMMEDIATE,
            registers: pair(destination as u8, ADDRESS_IN_MAP),
            offset: 0,
            immediate: map.as_raw_fd(),
        });
        self.push(0, Register::R0, Register::R0, 0, 0);
    }

    /// `*(base + offset) += source`, 64 bits wide and atomic.
    pub fn add_atomically(&mut self, base: Register, offset: i16, source: Register) {
        self.push(ATOMIC_DOUBLE, base, source, offset, 0);
    }

    /// `destination = *(base + offset)`, zero-extended, in the machine's byte order.
    pub fn load(&mut self, width: Width, destination: Register, base: Register, offset: i16) {
        self.push(
            CLASS_LOAD_FROM_REGISTER | width as u8,
            destination,
            base,
            offset,
            0,
        );
    }

    /// Reads the low half-word of `register` as a big-endian number.
    pub fn half_from_big_endian(&mut self, register: Register) {
        self.push(
            CLASS_BYTE_SWAP | TO_BIG_ENDIAN,
            register,
            Register::R0,
            0,
            16,
        );
    }

    /// Jumps to `label` if `register` and `immediate` meet `condition`.
    pub fn jump_if(
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

    /// Jumps to `label` if both registers meet `condition`.
    pub fn jump_if_both(
        &mut self,
        condition: Condition,
        left: Register,
        right: Register,
        label: Label,
    ) {
        self.jumps.push((self.code.len(), label));
        self.push(
            CLASS_JUMP | FROM_REGISTER | condition as u8,
            left,
            right,
            0,
            0,
        );
    }

    /// Jumps to `label`.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(CLASS_JUMP, Register::R0, Register::R0, 0, 0);
    }

    /// Calls the kernel's `helper` (`enum bpf_func_id`).
    pub fn call(&mut self, helper: i32) {
        self.push(CALL, Register::R0, Register::R0, 0, helper);
    }

    /// Ends the program with r0 as its result.
    pub fn exit(&mut self) {
        self.push(EXIT, Register::R0, Register::R0, 0, 0);
    }

    /// Jumps to `label` arrive at the next instruction.
    pub fn place(&mut self, label: Label) {
        self.places.push((label, self.code.len()));
    }

    /// The program, its jumps resolved. A jump to a label that was never placed stays a jump to the next instruction;
    /// the tests run every path.
    pub fn finish(mut self) -> Vec<Instruction> {
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
        self.push_raw(Instruction {
            opcode,
            registers: pair(destination as u8, source as u8),
            offset,
            immediate,
        });
    }

    fn push_raw(&mut self, instruction: Instruction) {
        self.code.push(instruction);
    }
}

/// The register byte of an instruction.
fn pair(destination: u8, source: u8) -> u8 {
    if cfg!(target_endian = "little") {
        destination | source << 4
    } else {
        destination << 4 | source
    }
}
