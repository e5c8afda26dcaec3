//! The offsets of the fields of a TCP header from its start (RFC 9293 §3.1).

/// Length of a header without options, in bytes.
pub(crate) const HEADER_LEN: usize = 20;
pub(crate) const SEQUENCE: usize = 4;
pub(crate) const ACKNOWLEDGMENT: usize = 8;
/// The data offset in the upper half of the byte, the AE flag in the lowest bit.
pub(crate) const DATA_OFFSET: usize = 12;
pub(crate) const FLAGS: usize = 13;
pub(crate) const WINDOW: usize = 14;
pub(crate) const CHECKSUM: usize = 16;
pub(crate) const URGENT: usize = 18;

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const PSH: u8 = 0x08;
pub(crate) const ACK: u8 = 0x10;
pub(crate) const ECE: u8 = 0x40;
pub(crate) const CWR: u8 = 0x80;

/// The length of the header that starts `segment`, if it is possible and all there.
pub(crate) fn header_len(segment: &[u8]) -> Option<usize> {
    let len = usize::from(segment.get(DATA_OFFSET)? >> 4) * 4;
    (len >= HEADER_LEN && len <= segment.len()).then_some(len)
}
