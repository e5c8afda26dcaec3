//! Where the fields of a UDP header lie (RFC 768), as offsets from its start.

/// Length of the header, in bytes.
pub(crate) const HEADER_LEN: usize = 8;
pub(crate) const LENGTH: usize = 4;
pub(crate) const CHECKSUM: usize = 6;
