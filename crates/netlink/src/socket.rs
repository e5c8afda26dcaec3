//! A non-blocking netlink socket.

use crate::answer::Answer;
use netlink_packet_core::{NLM_F_REQUEST, NetlinkMessage};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{SocketAddr, protocols};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Room for one datagram from the kernel. It builds dumps in at most 32 KiB; a link with 256 virtual functions takes
/// more in one event.
pub const RECEIVE_BYTES: usize = 64 * 1024;

/// The address of the kernel, and of no group.
const KERNEL_PORT: u32 = 0;

/// The part of the kernel that a socket speaks with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Links, addresses, routes and rules (rtnetlink(7)).
    Route,
    /// nftables, among others.
    Netfilter,
    /// Events of devices.
    Uevents,
}

/// A non-blocking socket in the network namespace in which it was opened.
#[derive(Debug)]
pub struct Socket {
    socket: netlink_sys::Socket,
    /// The number of the newest request: answers carry it.
    sequence: AtomicU32,
}

impl Socket {
    /// Opens a socket that hears the multicast `groups` as well, a bit for each of the first 32, or only answers when
    /// zero. Needs no privilege for rtnetlink and events of devices.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(protocol: Protocol, groups: u32) -> io::Result<Self> {
        let protocol = match protocol {
            Protocol::Route => protocols::NETLINK_ROUTE,
            Protocol::Netfilter => protocols::NETLINK_NETFILTER,
            Protocol::Uevents => protocols::NETLINK_KOBJECT_UEVENT,
        };
        let mut socket = netlink_sys::Socket::new(protocol)?;
        socket.set_non_blocking(true)?;
        socket.bind(&SocketAddr::new(KERNEL_PORT, groups))?;
        Ok(Self {
            socket,
            sequence: AtomicU32::new(0),
        })
    }

    /// Has the kernel heed filters of dumps instead of passing over them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn check_strictly(&self) -> io::Result<()> {
        self.socket.set_netlink_get_strict_chk(true)
    }

    /// Sends a request of rtnetlink. The answer is complete once [`Answer::take`] says so.
    ///
    /// # Errors
    /// The kernel's.
    pub fn request(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Answer> {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let sequence = sequence.wrapping_add(1);
        let mut message = NetlinkMessage::from(message);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        let kernel = SocketAddr::new(KERNEL_PORT, 0);
        self.socket.send_to(&bytes, &kernel, 0)?;
        Ok(Answer::to(sequence))
    }

    /// Receives the kernel's next datagram in place of what is in `buffer`. Datagrams of other programs are passed over.
    ///
    /// # Errors
    /// The kernel's: `EAGAIN` when nothing waits, `ENOBUFS` once after it lost some.
    pub fn receive(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
        loop {
            buffer.clear();
            buffer.reserve(RECEIVE_BYTES);
            match self.socket.recv_from(buffer, 0) {
                Ok((_, sender)) if sender.port_number() == KERNEL_PORT => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// For runtimes, which take no [`AsFd`].
impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
