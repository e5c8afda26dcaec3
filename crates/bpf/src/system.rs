//! The kernel's side of BPF: loading a program, making a map, and sharing its memory.

use std::ffi::{CStr, c_long};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use super::Instruction;

/// `BPF_MAP_CREATE` of `enum bpf_cmd`.
const COMMAND_CREATE_MAP: c_long = 0;
/// `BPF_MAP_TYPE_ARRAY` of `enum bpf_map_type`.
const TYPE_ARRAY: u32 = 2;
/// `BPF_F_MMAPABLE`, Linux 5.5.
const MAPPABLE: u32 = 1 << 10;
/// `BPF_PROG_LOAD` of `enum bpf_cmd`.
const COMMAND_LOAD: c_long = 5;
/// `BPF_PROG_TYPE_SOCKET_FILTER` of `enum bpf_prog_type`, the type that TUNSETSTEERINGEBPF, TUNSETFILTEREBPF and
/// SO_ATTACH_REUSEPORT_EBPF take.
const TYPE_SOCKET_FILTER: u32 = 1;
/// The program uses no helper that is reserved for GPL programs.
const LICENCE: &CStr = c"Apache-2.0";

/// The reason why the kernel does not run a program of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramOff {
    /// Loading a program needs CAP_BPF.
    NotPermitted,
    /// This process has its capabilities in a user namespace, where CAP_BPF loads none.
    InUserNamespace,
    /// The kernel has no BPF, or not for this purpose.
    NotInThisKernel,
    /// The kernel refused the program, with this error number.
    Refused(i32),
}

impl fmt::Display for ProgramOff {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted => formatter.write_str("needs CAP_BPF"),
            Self::InUserNamespace => {
                formatter.write_str("needs CAP_BPF, which no process of a user namespace has")
            }
            Self::NotInThisKernel => formatter.write_str("not offered by this kernel"),
            Self::Refused(error) => write!(
                formatter,
                "refused: {}",
                io::Error::from_raw_os_error(*error)
            ),
        }
    }
}

impl ProgramOff {
    /// The reason that a kernel error stands for.
    pub fn from_error(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM) if is_in_user_namespace() => Self::InUserNamespace,
            Some(libc::EPERM) => Self::NotPermitted,
            Some(libc::ENOSYS | libc::ENOTTY) => Self::NotInThisKernel,
            Some(number) => Self::Refused(number),
            None => Self::NotInThisKernel,
        }
    }
}

/// True in a user namespace of a container's: the first namespace maps every user to itself.
fn is_in_user_namespace() -> bool {
    const FIRST: [&str; 3] = ["0", "0", "4294967295"];
    let map = std::fs::read_to_string("/proc/self/uid_map");
    map.is_ok_and(|map| !map.split_whitespace().eq(FIRST))
}

/// A name that `bpftool` shows, of at most fifteen bytes and a zero.
pub type Name = [u8; 16];

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
    name: Name,
}

/// The part of `union bpf_attr` that `BPF_MAP_CREATE` has had since Linux 4.15.
#[repr(C)]
struct MapAttributes {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: Name,
}

/// Loads `program` as a socket filter; the descriptor keeps it alive until it is attached.
///
/// # Errors
/// `EPERM` without CAP_BPF (or CAP_SYS_ADMIN); `ENOSYS` without BPF in the kernel; `EINVAL` or `EACCES` when the kernel's
/// verifier refuses the program.
pub fn load_socket_filter(name: Name, program: &[Instruction]) -> io::Result<OwnedFd> {
    let mut attempts = 1;
    loop {
        match load_once(name, program) {
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

fn load_once(name: Name, program: &[Instruction]) -> io::Result<OwnedFd> {
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
        name,
    };
    // SAFETY: `LoadAttributes` is a C structure without padding, and the instructions and the licence that it points to
    // outlive the call, which only reads them. No log is asked for, so nothing is written.
    unsafe { make(COMMAND_LOAD, &attributes) }
}

/// A map of one value, which may be shared with this process.
#[derive(Debug)]
pub struct Map(OwnedFd);

impl Map {
    /// Makes one of `value_bytes`, all zero.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF; `EINVAL` before Linux 5.5, and `ENOSYS` without BPF in the kernel.
    pub fn create(name: Name, value_bytes: u32) -> io::Result<Self> {
        let attributes = MapAttributes {
            map_type: TYPE_ARRAY,
            key_bytes: size_of::<u32>() as u32,
            value_bytes,
            entries: 1,
            flags: MAPPABLE,
            inner_map: 0,
            numa_node: 0,
            name,
        };
        // SAFETY: `MapAttributes` is a C structure without padding, and points to nothing.
        unsafe { make(COMMAND_CREATE_MAP, &attributes) }.map(Self)
    }

    /// Shares the first `numbers` of its value.
    ///
    /// # Errors
    /// The kernel's: no memory left; `EINVAL` where it is smaller.
    pub fn share(&self, numbers: usize) -> io::Result<MapMemory> {
        // SAFETY: a new mapping, at an address that the kernel chooses, of a map, whose memory lasts as long as the mapping.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                numbers * size_of::<u64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                self.0.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(MapMemory { start, numbers })
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Calls `bpf` with a command that answers with a new descriptor.
///
/// # Safety
/// `Attributes` must be what the command reads, without padding, and what it points to must be as the command wants it.
unsafe fn make<Attributes>(command: c_long, attributes: &Attributes) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads `size_of::<Attributes>()` bytes, which outlive the call, and what the caller answers for.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<Attributes>() as c_long,
        )
    };
    let descriptor = i32::try_from(descriptor).unwrap_or(-1);
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just returned this descriptor, close-on-exec, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The value of a map of one value, shared with the kernel: 64-bit numbers that it changes at any time.
#[derive(Debug)]
pub struct MapMemory {
    start: NonNull<AtomicU64>,
    numbers: usize,
}

// SAFETY: it is memory of atomic numbers, mapped until it is dropped, whichever threads use it.
unsafe impl Send for MapMemory {}
// SAFETY: as above; a shared reference gives nothing but atomic numbers.
unsafe impl Sync for MapMemory {}

impl MapMemory {
    /// Number `index`.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn number(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.numbers, "a map has no number {index}");
        // SAFETY: within the mapping, which lasts as long as `self`, is aligned to pages, and is changed by others in
        // atomic steps only.
        unsafe { self.start.add(index).as_ref() }
    }
}

impl Drop for MapMemory {
    fn drop(&mut self) {
        // SAFETY: `Map::share` made this mapping, and references into it cannot outlive `self`.
        let _stays =
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.numbers * size_of::<u64>()) };
    }
}

#[cfg(feature = "run")]
pub mod run {
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

    /// The return value of `program` for `packet`, which begins with its IP header.
    pub fn socket_filter(program: BorrowedFd<'_>, packet: &[u8]) -> io::Result<u32> {
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
