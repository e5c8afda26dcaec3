//! A ring of io_uring, with what it works on.

#![expect(
    unsafe_code,
    reason = "an entry points into memory that must live until its completion: this file keeps both"
)]

use std::io;

use io_uring::{IoUring, opcode, squeue::Entry, types::Fd};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The use of its buffer by one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    Receive,
    Send,
}

/// A ring whose operations work on buffers of its own: a buffer belongs to the kernel from
/// [`Ring::push`] to its completion.
pub(crate) struct Ring<'fds> {
    ring: IoUring,
    buffers: Vec<Slot>,
    /// The descriptors in use, for as long as the ring lives.
    _descriptors: std::marker::PhantomData<BorrowedFd<'fds>>,
}

struct Slot {
    bytes: Box<[u8]>,
    is_with_kernel: bool,
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The buffer that it worked on.
    pub(crate) buffer: usize,
    /// Bytes, or the error's number made negative.
    pub(crate) result: i32,
}

impl<'fds> Ring<'fds> {
    /// A ring with `buffers` buffers of `buffer_bytes` each.
    ///
    /// # Errors
    /// The kernel's: it has no io_uring, or forbids it.
    pub(crate) fn new(buffers: usize, buffer_bytes: usize) -> io::Result<Self> {
        let entries = u32::try_from(buffers.next_power_of_two())
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_defer_taskrun()
            .build(entries)?;
        let slot = || Slot {
            bytes: vec![0; buffer_bytes].into_boxed_slice(),
            is_with_kernel: false,
        };
        Ok(Self {
            ring,
            buffers: std::iter::repeat_with(slot).take(buffers).collect(),
            _descriptors: std::marker::PhantomData,
        })
    }

    /// A buffer that the kernel does not have.
    ///
    /// # Panics
    /// When the kernel has it.
    pub(crate) fn buffer(&mut self, buffer: usize) -> &mut [u8] {
        let slot = &mut self.buffers[buffer];
        assert!(!slot.is_with_kernel, "the kernel works on this buffer");
        &mut slot.bytes
    }

    /// Asks for an operation on `buffer[from..from + len]`. It begins with the next
    /// [`submit`](Self::submit).
    ///
    /// # Panics
    /// When the kernel has the buffer already, or the range is not in it. There is room in the ring for one
    /// operation for each buffer.
    pub(crate) fn push(
        &mut self,
        operation: Operation,
        what: BorrowedFd<'fds>,
        buffer: usize,
        range: std::ops::Range<usize>,
    ) {
        let fd = Fd(what.as_raw_fd());
        let bytes = &mut self.buffer(buffer)[range];
        let (start, len) = (bytes.as_mut_ptr(), bytes.len() as u32);
        // Character devices have no position.
        let entry = match operation {
            Operation::Read => opcode::Read::new(fd, start, len).offset(u64::MAX).build(),
            Operation::Write => opcode::Write::new(fd, start, len).offset(u64::MAX).build(),
            Operation::Receive => opcode::Recv::new(fd, start, len).build(),
            Operation::Send => opcode::Send::new(fd, start, len).build(),
        };
        self.buffers[buffer].is_with_kernel = true;
        self.push_entry(&entry.user_data(buffer as u64));
    }

    fn push_entry(&mut self, entry: &Entry) {
        // SAFETY: the descriptor lives as long as the ring (`'fds`), and the memory is that of a boxed slice
        // that `buffers` keeps, and that nobody else touches before the completion (`is_with_kernel`).
        let pushed = unsafe { self.ring.submission().push(entry) };
        assert!(pushed.is_ok(), "more operations than buffers");
    }

    /// Begins what was asked for, waits until at least one operation has ended, and returns all that have.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn submit(&mut self, ended: &mut Vec<Completion>) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => {
                result?;
            }
        }
        ended.clear();
        for entry in self.ring.completion() {
            let buffer = entry.user_data() as usize;
            self.buffers[buffer].is_with_kernel = false;
            ended.push(Completion {
                buffer,
                result: entry.result(),
            });
        }
        Ok(())
    }
}

impl Ring<'_> {
    /// The result of the only operation.
    ///
    /// # Errors
    /// Its error.
    pub(crate) fn only_result(&mut self) -> io::Result<usize> {
        let mut ended = Vec::with_capacity(1);
        while ended.is_empty() {
            self.submit(&mut ended)?;
        }
        let result = ended[0].result;
        usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        if self.buffers.iter().any(|slot| slot.is_with_kernel) {
            // The kernel ends operations of a closed ring a moment later: until then, and so for good, it
            // keeps their memory.
            std::mem::forget(std::mem::take(&mut self.buffers));
        }
    }
}
