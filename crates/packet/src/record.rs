//! The length of a sealed packet on the wire.

/// Bytes ahead of the sealed content: type, receiver index and counter (WireGuard paper §5.4.6).
pub const HEADER_LEN: usize = 16;
/// Bytes of the authentication tag behind it.
pub const TAG_LEN: usize = 16;
/// The bytes that a record adds to its padded content.
pub const OVERHEAD: usize = HEADER_LEN + TAG_LEN;

/// Padding goes to a multiple of this many bytes.
pub const PADDING: usize = 16;

/// Lengths of the records of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordShape {
    /// The interface's MTU, in bytes.
    pub mtu: usize,
}

impl RecordShape {
    /// The bytes that are sealed for a packet of `inner_len` bytes: zeros are appended to the
    /// next multiple of 16 but never beyond the MTU. A packet that is longer than the MTU (the
    /// interface's MTU shrank while it was queued) is not padded.
    ///
    /// WireGuard paper §5.4.6: padding must never make the datagram exceed the path's MTU. It
    /// also keeps a full packet exactly 32 bytes longer on the wire, so that a train of full
    /// packets is of equal size.
    #[must_use]
    pub const fn padded_len(self, inner_len: usize) -> usize {
        let aligned = inner_len.next_multiple_of(PADDING);
        let limit = if inner_len > self.mtu {
            inner_len
        } else {
            self.mtu
        };
        if aligned < limit { aligned } else { limit }
    }

    /// The bytes of the whole datagram for a packet of `inner_len` bytes.
    #[must_use]
    pub const fn record_len(self, inner_len: usize) -> usize {
        self.padded_len(inner_len) + OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: RecordShape = RecordShape { mtu: 1420 };

    #[test]
    fn a_packet_is_padded_to_sixteen() {
        assert_eq!(SHAPE.padded_len(1), 16);
        assert_eq!(SHAPE.padded_len(16), 16);
        assert_eq!(SHAPE.padded_len(17), 32);
        assert_eq!(SHAPE.record_len(84), 128);
    }

    #[test]
    fn padding_never_goes_beyond_the_mtu() {
        assert_eq!(SHAPE.padded_len(1420), 1420);
        assert_eq!(SHAPE.padded_len(1409), 1420);
        assert_eq!(SHAPE.record_len(1420), 1452);
    }

    #[test]
    fn a_packet_longer_than_the_mtu_is_not_padded() {
        assert_eq!(SHAPE.padded_len(1421), 1421);
        assert_eq!(SHAPE.padded_len(9001), 9001);
    }

    #[test]
    fn a_keepalive_is_header_and_tag_only() {
        assert_eq!(SHAPE.record_len(0), 32);
    }
}
