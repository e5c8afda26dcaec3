//! Changes of links, addresses, routes and routing rules of this network namespace, as rtnetlink multicasts them.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::netlink::{self, LINK_HEADER_BYTES, Message, Messages, RECEIVE_BYTES};

/// Something about the host's network changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent {
    /// A link appeared or changed; this is its present state.
    Link {
        /// Interface index.
        index: u32,
        /// Whether it is administratively up (`IFF_UP`).
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
    /// The kernel dropped events because we read too slowly: anything may have changed, read everything again.
    Overflow,
}

/// A non-blocking stream of [`LinkEvent`]s of the namespace it was opened in.
#[derive(Debug)]
pub struct LinkWatch {
    socket: OwnedFd,
    buffer: Box<[u8]>,
    /// What of `buffer` has been received and not been told.
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
        let socket = netlink::open(groups)?;
        Ok(Self {
            socket,
            buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
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
            match rustix::net::recv(&self.socket, &mut *self.buffer, RecvFlags::empty()) {
                Ok((length, _)) => self.pending = 0..length,
                Err(Errno::AGAIN) => return Ok(None),
                // A message that memory was too short for is lost as well.
                Err(Errno::NOBUFS | Errno::NOMEM) => return Ok(Some(LinkEvent::Overflow)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next event of the datagram in `buffer`.
    fn next_pending(&mut self) -> Option<LinkEvent> {
        let mut messages = Messages::new(&self.buffer[self.pending.clone()]);
        let event = messages.by_ref().find_map(|message| read_event(&message));
        // A message whose length lies ends the datagram: what follows cannot be told apart.
        let rest = if event.is_some() {
            messages.rest().len()
        } else {
            0
        };
        self.pending.start = self.pending.end - rest;
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

fn read_event(message: &Message<'_>) -> Option<LinkEvent> {
    match message.kind {
        libc::RTM_NEWADDR
        | libc::RTM_DELADDR
        | libc::RTM_NEWROUTE
        | libc::RTM_DELROUTE
        | libc::RTM_NEWRULE
        | libc::RTM_DELRULE => Some(LinkEvent::RoutingChanged),
        libc::RTM_NEWLINK | libc::RTM_DELLINK => {
            let link = Link::parse(message.body)?;
            Some(if message.kind == libc::RTM_DELLINK {
                LinkEvent::Removed { index: link.index }
            } else {
                LinkEvent::Link {
                    index: link.index,
                    up: link.up,
                    mtu: link.mtu?,
                }
            })
        }
        _ => None,
    }
}

/// What we read of a link message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) up: bool,
    pub(crate) mtu: Option<u32>,
    /// How many queues of it are in use, where it is a TUN device.
    pub(crate) tun_queues: Option<u32>,
}

/// `IFLA_INFO_DATA` in `IFLA_LINKINFO` of `linux/if_link.h`, and in it `IFLA_TUN_NUM_QUEUES`.
const IFLA_INFO_DATA: u16 = 2;
const IFLA_TUN_NUM_QUEUES: u16 = 8;

impl Link {
    /// Reads `struct ifinfomsg` and its attributes. Messages of a bridge about its port (family `AF_BRIDGE`) are not
    /// about the link itself: a port that leaves its bridge is not deleted.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        if i32::from(*body.first()?) != libc::AF_UNSPEC {
            return None;
        }
        let index = netlink::u32_at(body, 4)?;
        let flags = netlink::u32_at(body, 8)?.cast_signed();
        let attributes = body.get(LINK_HEADER_BYTES..)?;
        let kind = netlink::attribute(attributes, libc::IFLA_LINKINFO);
        let tun_queues = kind
            .and_then(|kind| netlink::attribute(kind, IFLA_INFO_DATA))
            .and_then(|data| netlink::attribute_u32(data, IFLA_TUN_NUM_QUEUES));
        Some(Self {
            index,
            up: flags & libc::IFF_UP != 0,
            mtu: netlink::attribute_u32(attributes, libc::IFLA_MTU),
            tun_queues,
        })
    }
}
