//! The offsets of the fields of a UDP header from its start (RFC 768).

/// Length of the header, in bytes.
pub(crate) const HEADER_LEN: usize = 8;
pub(crate) const LENGTH: usize = 4;
pub(crate) const CHECKSUM: usize = 6;
