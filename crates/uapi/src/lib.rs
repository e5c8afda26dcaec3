//! The cross-platform WireGuard configuration protocol: parsing requests, formatting answers.
//!
//! `wg`, `wg-quick` and every tool that configures a userspace WireGuard speak it over the socket
//! `/var/run/wireguard/NAME.sock` (<https://www.wireguard.com/xplatform/>). A request is lines of
//! `key=value` up to an empty line; a connection may carry several. The answer ends with
//! `errno=0` or a negative error number, and an empty line.
//!
//! This crate holds the text and the types, no socket. A request is parsed **completely** into a
//! [`Request`] before anybody sees it, so a malformed one changes nothing:
//!
//! ```text
//! bytes → lines → RequestParser → Request::Set(SetRequest) → (applied by the program)
//!                               → Request::Get             → Configuration::to_response
//!                               → Request::Status          → JSON made by the program
//! ```
//!
//! Two things are Culvert's own. The key `cipher=chacha20poly1305|aes256gcm` names the cipher
//! suite of the interface (in its section) or of one peer; other tools never meet it unless it was
//! set. The request `culvert_status=1` asks for one line of JSON.

#![forbid(unsafe_code)]

mod bounds;
mod configuration;
mod errno;
mod error;
mod parser;
mod request;
mod types;
mod value;

pub use bounds::{MAX_LINE, MAX_REQUEST};
pub use configuration::{Configuration, PeerConfiguration, errno_response, status_response};
pub use culvert_base::{AllowedIpChange, Prefix};
pub use errno::Errno;
pub use error::{RequestError, RequestErrorReason};
pub use parser::{RequestParser, parse_set};
pub use request::{Change, InterfaceChange, PeerChange, Request, SetRequest};
pub use types::{
    Endpoint, FirewallMark, InterfaceName, InvalidInterfaceName, KeepaliveInterval,
    UnknownInterface,
};
pub use value::{cipher_name, parse_cipher};
