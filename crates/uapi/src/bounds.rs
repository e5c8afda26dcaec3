//! The bounds of a request.

/// Most bytes of a line, without its line feed. The longest line with a meaning is an
/// `endpoint=[…]:65535` with 45 characters of address and 15 of scope name: 78, as is
/// `preshared_key=` with 64 digits. Three times that leaves room for the keys of a future version.
pub const MAX_LINE: usize = 256;

/// The most bytes of a request: 65,536 peers (as many as a Culvert interface is meant for) of 256
/// bytes each. A public key (76), an endpoint (40), two ranges (70), `replace_allowed_ips` (25) and
/// a keepalive (33) are 244.
pub const MAX_REQUEST: usize = 65_536 * 256;
