//! One queue of the device: frames in, frames out, never blocking.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use culvert_base::frames::{MAX_FRAME_BYTES, VNET_HEADER_BYTES};

/// The most frames one [`Queue::receive_batch`] reads: enough to spread the cost of a turn over small packets, few
/// enough (some 140 KiB of full packets) that the other direction waits well under a millisecond.
pub const MAX_FRAMES_PER_BATCH: usize = 100;

/// Packets begin at multiples of this in a batch, so that copies out of it are aligned for 128-bit loads.
const PACKET_ALIGNMENT_BYTES: usize = 16;

/// One queue of a [`Device`](crate::Device). Frames of one flow always come out of the same queue, in order.
#[derive(Debug)]
pub struct Queue {
    tun: OwnedFd,
}

impl Queue {
    /// Takes `tun` for a queue. Anything serves as one that keeps the bounds of what is written to it, such as one end of
    /// a pair of datagram sockets.
    pub fn new(tun: OwnedFd) -> Self {
        Self { tun }
    }

    /// The same queue once more, for another thread to write to. Two readers of one queue would reorder flows.
    ///
    /// # Errors
    /// The kernel's: no descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self::new(self.tun.try_clone()?))
    }

    /// Reads one frame, virtio-net header first, into `buffer`, which must hold [`MAX_FRAME_BYTES`]: the kernel cuts what
    /// does not fit without saying so. Returns the bytes read.
    ///
    /// # Errors
    /// `WouldBlock` when the queue is empty; `EBADFD` when the interface was deleted. [`queue_fault`](crate::queue_fault) says
    /// what an error means.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        debug_assert!(
            buffer.len() >= MAX_FRAME_BYTES,
            "a shorter buffer would cut frames"
        );
        loop {
            match rustix::io::read(&self.tun, &mut *buffer) {
                Err(Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }

    /// Replaces what is in `batch` by the frames that wait in the queue, until it is empty, [`MAX_FRAMES_PER_BATCH`] are
    /// read, or `batch` has no room for another superframe. Returns the number of frames: 0 when the queue is empty.
    ///
    /// # Errors
    /// As [`receive`](Self::receive), but an empty queue is no error. An error after the first frame is left for the next
    /// call to meet.
    pub fn receive_batch(&self, batch: &mut FrameBatch) -> io::Result<usize> {
        batch.clear();
        while let Some(room) = batch.next_room() {
            match self.receive(&mut batch.buffer[room.clone()]) {
                Ok(bytes) => batch.frames.push(room.start..room.start + bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) if !batch.frames.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(batch.frames.len())
    }

    /// True if a [`send`](Self::send) would be accepted now.
    ///
    /// # Errors
    /// The kernel's, from `poll`.
    pub fn is_writable(&self) -> io::Result<bool> {
        let mut descriptors = [PollFd::new(&self.tun, PollFlags::OUT)];
        rustix::event::poll(
            &mut descriptors,
            Some(&Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            }),
        )?;
        Ok(descriptors[0].revents().contains(PollFlags::OUT))
    }

    /// Hands one frame to the kernel, gathered from `parts`: the first begins with the virtio-net header. At most 1024
    /// parts (`UIO_MAXIOV`). The kernel runs IP and TCP receive inside this call. Returns the bytes written, always all.
    ///
    /// # Errors
    /// `WouldBlock` when the device takes nothing now. `EINVAL` when the header does not fit the packet, or the
    /// kernel does not know its kind of superframe. `EIO` when the interface is down, and `EBADFD` when it was
    /// deleted.
    pub fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        debug_assert!(
            parts
                .first()
                .is_some_and(|first| first.len() >= VNET_HEADER_BYTES),
            "no virtio-net header"
        );
        loop {
            match rustix::io::writev(&self.tun, parts) {
                Err(Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}

/// The frames of one [`Queue::receive_batch`], one after the other in one buffer that is allocated once.
///
/// The kernel copies each frame to the end of the last: a hundred small packets touch 140 KiB, not a hundred buffers of
/// 64 KiB, and stay in the cache.
#[derive(Debug)]
pub struct FrameBatch {
    buffer: Vec<u8>,
    /// The range of each frame in `buffer`; never longer than `MAX_FRAMES_PER_BATCH`, allocated with that
    /// capacity.
    frames: Vec<Range<usize>>,
}

impl FrameBatch {
    /// Room for at least `superframes` frames of the greatest length (at least one): a budget, as reading stops when
    /// another might not fit.
    pub fn new(superframes: usize) -> Self {
        let bytes = superframes.max(1) * (MAX_FRAME_BYTES + PACKET_ALIGNMENT_BYTES);
        Self {
            buffer: vec![0; bytes],
            frames: Vec::with_capacity(MAX_FRAMES_PER_BATCH),
        }
    }

    /// The number of frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Frame `index`, virtio-net header first; `None` past the last.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.frames
            .get(index)
            .map(|frame| &self.buffer[frame.clone()])
    }

    /// Frame `index`, to be changed in place; `None` past the last.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        self.frames
            .get(index)
            .map(|frame| &mut self.buffer[frame.clone()])
    }

    /// The frames in the order they were read.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.frames.iter().map(|frame| &self.buffer[frame.clone()])
    }

    /// Forgets the frames and keeps the memory.
    pub fn clear(&mut self) {
        self.frames.clear();
    }

    /// The range for the next frame: all of [`MAX_FRAME_BYTES`], placed so that its packet is aligned.
    fn next_room(&self) -> Option<Range<usize>> {
        if self.frames.len() == MAX_FRAMES_PER_BATCH {
            return None;
        }
        let filled = self.frames.last().map_or(0, |frame| frame.end);
        let start = (filled + VNET_HEADER_BYTES).next_multiple_of(PACKET_ALIGNMENT_BYTES)
            - VNET_HEADER_BYTES;
        let room = start..start + MAX_FRAME_BYTES;
        (room.end <= self.buffer.len()).then_some(room)
    }
}
