//! Messages between a service and its helper: one datagram each, with at most one descriptor.
//!
//! Every request carries a socket of its own for its answer. So answers need no numbers, and a service that waits no
//! longer closes its end.

use crate::PeerCredentials;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The longest message. A page of `resolv.conf` is the longest content: 4,096 bytes, each written as a number of at
/// most three digits and a comma. The addresses of a name come next: 256 of 48 bytes.
const MAX_MESSAGE_BYTES: usize = 20 * 1024;

/// The longest `resolv.conf` that a message has room for.
pub(super) const MAX_RESOLV_CONF_BYTES: usize = 4096;

/// The most addresses of one name in an answer: a message has room for them. A link tries 8.
pub(super) const MAX_ADDRESSES: usize = 256;

/// A file of the system that may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SystemFile {
    /// `/etc/resolv.conf`, wherever it leads.
    ResolvConf,
    /// `/etc/resolv.conf` itself; an error (`ELOOP`) where it is a symbolic link.
    ResolvConfUnlinked,
    /// `/etc/hosts`.
    Hosts,
    /// `/etc/nsswitch.conf`.
    Nsswitch,
}

/// A request of a service to its helper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// The addresses of a name, as getaddrinfo(3) finds them.
    LookUp { host: String, port: u16 },
    /// A descriptor for reading.
    Open(SystemFile),
    /// A descriptor for writing `/etc/resolv.conf`, which must not be a symbolic link.
    OpenResolvConf,
    /// `/etc/resolv.conf` becomes another file with this content.
    ExchangeResolvConf(Vec<u8>),
    /// `/etc/resolv.conf` goes.
    RemoveResolvConf,
    /// The file goes that an exchange left unfinished.
    RemoveUnfinished,
    /// The number of the group whose members may command.
    CommandGroup,
    /// The question if a user may command.
    Admit(PeerCredentials),
    /// The start time of a process, in ticks since boot.
    StartTime(u32),
}

/// An answer of the helper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Addresses(Vec<SocketAddr>),
    /// The descriptor comes with the message.
    Opened,
    Done,
    /// The contents of the file that gave way, where there was one.
    Exchanged(Option<Vec<u8>>),
    Group(Option<u32>),
    /// The text says why not.
    Admitted(Result<(), String>),
    StartTime(u64),
}

/// The cause for which a request was not granted.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failed {
    errno: Option<i32>,
    message: String,
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self {
            errno: error.raw_os_error(),
            message: error.to_string(),
        }
    }
}

impl From<Failed> for io::Error {
    fn from(failed: Failed) -> Self {
        match failed.errno {
            Some(errno) => Self::from_raw_os_error(errno),
            None => Self::other(failed.message),
        }
    }
}

/// Two ends of a socket that keeps messages apart.
pub(super) fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
}

pub(super) fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MAX_MESSAGE_BYTES {
        return Err(Errno::MSGSIZE.into());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let parts = [IoSlice::new(&bytes)];
    rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next message and its descriptor; nothing at the end.
pub(super) fn receive(socket: impl AsFd) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    let mut bytes = vec![0; MAX_MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = loop {
        match rustix::net::recvmsg(&socket, &mut parts, &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(Errno::MSGSIZE.into());
    }
    bytes.truncate(received.bytes);
    Ok(Some((bytes, descriptor)))
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    serde_json::from_slice(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
