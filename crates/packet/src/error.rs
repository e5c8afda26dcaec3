//! The reasons why a packet or a frame cannot be handled.

/// The reason why a packet or a frame cannot be handled. Each is the fault of the writer of the
/// bytes: the local host for a frame read from the TUN, the authenticated peer for a received
/// packet. The exceptions are [`PacketError::Full`] and [`PacketError::OutOfRange`], which are the
/// caller's own fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// Shorter than the header it must begin with.
    #[error("{len} bytes are too short for the header, which needs {needed}")]
    Truncated {
        /// Bytes there are.
        len: usize,
        /// Bytes the header needs.
        needed: usize,
    },
    /// The version field is neither 4 nor 6.
    #[error("IP version {0} is neither 4 nor 6")]
    Version(u8),
    /// A header length field is below its minimum or beyond the packet.
    #[error("a header length of {0} bytes is impossible")]
    HeaderLength(usize),
    /// The total length field is below the header length or beyond the bytes at hand.
    #[error("the packet claims {claimed} bytes, {len} are there")]
    TotalLength {
        /// The length in the header.
        claimed: usize,
        /// Bytes there are.
        len: usize,
    },
    /// A segmentation type that was never offered to the kernel.
    #[error("segmentation type {0} is unknown")]
    GsoType(u8),
    /// A superframe whose IP version or transport is not what its segmentation type says.
    #[error("the frame is not of the kind its segmentation type says")]
    GsoMismatch,
    /// A superframe with a segment size of zero.
    #[error("a superframe with a segment size of zero")]
    GsoSize,
    /// A superframe that is a fragment or carries a routing header, which segmentation excludes.
    #[error("a superframe that is a fragment or source-routed")]
    GsoUnsplittable,
    /// A superframe that would fall into more than [`crate::MAX_SEGMENTS`] packets.
    #[error("a superframe of {0} segments")]
    TooManySegments(usize),
    /// The checksum to be finished lies outside of the packet.
    #[error("the checksum field lies outside of the packet")]
    ChecksumField,
    /// The coalescer already holds [`crate::MAX_PACKETS`] packets: flush it first.
    #[error("the coalescer is full")]
    Full,
    /// The range given lies outside of the buffer given.
    #[error("the packet lies outside of the buffer")]
    OutOfRange,
}
