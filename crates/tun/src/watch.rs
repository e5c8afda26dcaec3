//! Changes of links, addresses, routes and routing rules of this network namespace, as rtnetlink multicasts them.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use culvert_netlink::packet::{NetlinkBuffer, NetlinkPayload};
use culvert_netlink::route::RouteNetlinkMessage;
use culvert_netlink::{Malformed, Messages, Protocol, RECEIVE_BYTES, Socket, read};

use crate::link::Link;

/// Something about the host's network changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent {
    /// A link appeared or changed; this is its present state.
    Link {
        /// Interface index.
        index: u32,
        /// True if it is administratively up (`IFF_UP`).
        up: bool,
        /// Its MTU in bytes.
        mtu: u32,
    },
    /// A link is gone from this namespace: deleted, or moved to another.
    Removed {
        /// Interface index.
        index: u32,
    },
    /// An address, a route or a routing rule was added or removed: cached source addresses and routes may be stale. Each
    /// change is told, so the caller marks its caches stale and looks again once per turn.
    RoutingChanged,
    /// The kernel dropped events because we read too slowly, or one can't be read: anything may have changed, read
    /// everything again.
    Overflow,
}

/// A non-blocking stream of [`LinkEvent`]s of the namespace it was opened in.
#[derive(Debug)]
pub struct LinkWatch {
    socket: Socket,
    buffer: Vec<u8>,
    /// The part of `buffer` that has been received and not been told.
    pending: Range<usize>,
}

impl LinkWatch {
    /// Starts to listen; changes from here on are told. Needs no privilege.
    ///
    /// # Errors
    /// The kernel's, from opening the socket.
    pub fn open() -> io::Result<Self> {
        let groups = libc::RTMGRP_LINK
            | libc::RTMGRP_IPV4_IFADDR
            | libc::RTMGRP_IPV6_IFADDR
            | libc::RTMGRP_IPV4_ROUTE
            | libc::RTMGRP_IPV6_ROUTE;
        let groups = groups.cast_unsigned()
            | group(libc::RTNLGRP_IPV4_RULE)
            | group(libc::RTNLGRP_IPV6_RULE);
        Ok(Self {
            socket: Socket::open(Protocol::Route, groups)?,
            buffer: Vec::with_capacity(RECEIVE_BYTES),
            pending: 0..0,
        })
    }

    /// The next event; `None` when nothing is waiting.
    ///
    /// # Errors
    /// The kernel's, from reading the socket; overflow is an event, not an error.
    pub fn next_event(&mut self) -> io::Result<Option<LinkEvent>> {
        loop {
            if let Some(event) = self.next_pending() {
                return Ok(Some(event));
            }
            self.pending = 0..0;
            match self.socket.receive(&mut self.buffer) {
                Ok(()) => self.pending = 0..self.buffer.len(),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(None),
                    // A message that memory was too short for is lost as well.
                    Some(libc::ENOBUFS | libc::ENOMEM) => return Ok(Some(LinkEvent::Overflow)),
                    _ => return Err(error),
                },
            }
        }
    }

    /// The next event of the datagram in `buffer`.
    fn next_pending(&mut self) -> Option<LinkEvent> {
        let mut messages = Messages::of(&self.buffer[self.pending.clone()]);
        let event = messages.by_ref().find_map(|message| match message {
            Ok(message) => read_event(&message),
            Err(Malformed) => Some(LinkEvent::Overflow),
        });
        self.pending.start = self.pending.end - messages.rest().len();
        event
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The bit of one of the first 32 multicast groups, as `bind` takes it.
const fn group(number: libc::c_uint) -> u32 {
    1 << (number - 1)
}

fn read_event(message: &NetlinkBuffer<&[u8]>) -> Option<LinkEvent> {
    match message.message_type() {
        // Thousands of routes may come and go: they need not be read.
        libc::RTM_NEWADDR
        | libc::RTM_DELADDR
        | libc::RTM_NEWROUTE
        | libc::RTM_DELROUTE
        | libc::RTM_NEWRULE
        | libc::RTM_DELRULE => Some(LinkEvent::RoutingChanged),
        libc::RTM_NEWLINK | libc::RTM_DELLINK => match read(message).map(|read| read.payload) {
            Ok(NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link))) => {
                let link = Link::of(&link)?;
                Some(LinkEvent::Link {
                    index: link.index,
                    up: link.up,
                    mtu: link.mtu?,
                })
            }
            Ok(NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link))) => {
                let index = Link::of(&link)?.index;
                Some(LinkEvent::Removed { index })
            }
            Ok(_) => None,
            Err(_unreadable) => Some(LinkEvent::Overflow),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_can_not_be_read_may_be_any() {
        // Too short for a link's header.
        let length = 16_u32 + 4;
        let kind = libc::RTM_NEWLINK.to_ne_bytes();
        let message = [&length.to_ne_bytes()[..], &kind, &[0; 10 + 4]].concat();
        let message = NetlinkBuffer::new(&message[..]);
        assert_eq!(read_event(&message), Some(LinkEvent::Overflow));
    }
}
