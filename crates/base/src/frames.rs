//! Frames of a TUN: their sizes, the queues that they come in, how those are counted, and errors of a queue.

/// Bytes of the virtio-net header in front of every frame.
pub const VNET_HEADER_BYTES: usize = 10;

/// The longest packet of a frame: a superframe has up to 65,535 bytes behind an IPv6 header of 40.
pub const MAX_PACKET_BYTES: usize = 65_535 + 40;

/// The longest frame.
pub const MAX_FRAME_BYTES: usize = VNET_HEADER_BYTES + MAX_PACKET_BYTES;

/// The queue of packets that must not wait, where a device has priority queues.
pub const PRIORITY_QUEUE: usize = 0;

/// The queue of acknowledgements, where a device has priority queues.
pub const ACKNOWLEDGEMENT_QUEUE: usize = 1;

/// The number of queues before the bulk queues, if a device has priority queues.
pub const RESERVED_QUEUES: usize = 2;

/// The first bound of a queue, and the lowest. A single flow keeps about as much in flight inside the host at 10 Gbit/s
/// and 1.5 ms, and the second-level caches of two cores hold as much. Measured: docs/performance.md, "Bounds of
/// queues".
pub const MIN_BOUND_BYTES: u64 = 2 << 20;

/// The highest: what comes on top of it in one burst is lost, or kept by TCP where it is this host's, and slows its sender.
pub const MAX_BOUND_BYTES: u64 = 16 << 20;

/// The least that a packet counts: about the memory that the kernel needs for a small one.
pub const MIN_PACKET_BYTES: u64 = 2048;

/// The bytes that a frame counts once it is read. `frame_len` includes its virtio-net header.
#[must_use]
pub fn counted_bytes(frame_len: usize) -> u64 {
    let packet = frame_len.saturating_sub(VNET_HEADER_BYTES) as u64;
    packet.max(MIN_PACKET_BYTES)
}

/// The meaning of an error of reading or writing a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueFault {
    /// No frame is there, or no room: wait until the queue is reported ready.
    NotReady,
    /// The queue does not take a frame like this one: a superframe of a kind that it had promised to take.
    Refused,
    /// One frame is lost at most, and the next may pass.
    Passing,
    /// The link is down: one frame is lost at most, and no other passes at this moment.
    Down,
    /// The interface was deleted: nothing will pass again.
    Gone,
    /// The descriptor is of no use: nothing will pass again.
    Broken,
}

impl QueueFault {
    /// True if nothing will pass again.
    #[must_use]
    pub const fn is_lasting(self) -> bool {
        matches!(self, Self::Gone | Self::Broken)
    }
}
