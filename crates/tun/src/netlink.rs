//! As much of rtnetlink as the device needs: requests with an answer, and walking over messages and attributes.
//!
//! Everything is in the byte order of this machine; messages and attributes begin at multiples of four bytes.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Bytes of `struct nlmsghdr`: length, type, flags, sequence, port.
const MESSAGE_HEADER_BYTES: usize = 16;
/// Bytes of `struct rtattr`: length and type.
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// What of an attribute's type is not `NLA_F_NESTED` or `NLA_F_NET_BYTEORDER`.
const NESTED_MASK: u16 = 0x3fff;
/// Bytes of `struct ifinfomsg`: family, padding, type, index, flags, change mask.
pub(crate) const LINK_HEADER_BYTES: usize = 16;
/// `TC_H_ROOT` and `TCA_KIND` of `linux/pkt_sched.h` and `linux/rtnetlink.h`.
const ROOT: u32 = u32::MAX;
const TCA_KIND: u16 = 1;
/// Room for one datagram from the kernel: netlink builds messages in buffers of at most 32 KiB (`NLMSG_GOODSIZE` and the
/// growth of dumps are below it).
pub(crate) const RECEIVE_BYTES: usize = 32 * 1024;

/// Opens a non-blocking rtnetlink socket that hears the multicast `groups` (`RTMGRP_…`), or only answers when zero.
pub(crate) fn open(groups: u32) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None, // NETLINK_ROUTE is protocol 0
    )?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// A request under construction.
#[derive(Debug)]
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request of type `kind` (`RTM_…`) about the link `index`, asking for an acknowledgement.
    pub(crate) fn link(kind: u16, index: u32) -> Self {
        let mut request = Self {
            bytes: Vec::with_capacity(128),
        };
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        request.bytes.extend_from_slice(&0_u32.to_ne_bytes()); // length, set by `exchange`
        request.bytes.extend_from_slice(&kind.to_ne_bytes());
        request.bytes.extend_from_slice(&flags.to_ne_bytes());
        request.bytes.extend_from_slice(&[0; 8]); // sequence: one request at a time is outstanding; port: the kernel
        request.bytes.extend_from_slice(&[0; 4]); // AF_UNSPEC, any device type
        request.bytes.extend_from_slice(&index.to_ne_bytes());
        request.bytes.extend_from_slice(&[0; 8]); // no flag is changed
        request
    }

    /// A request to make the queueing discipline `kind` the root of the link `index`, in place of what is there.
    pub(crate) fn root_discipline(index: u32, kind: &str) -> Self {
        // `struct tcmsg` has 32-bit fields where `struct ifinfomsg` has index, flags and mask: index, handle, parent; and one
        // more.
        let mut request = Self::link(libc::RTM_NEWQDISC, index);
        let flags =
            libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        request.bytes[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
        request.bytes[28..32].copy_from_slice(&ROOT.to_ne_bytes());
        request.bytes.extend_from_slice(&[0; 4]);
        request.with_text(TCA_KIND, kind)
    }

    /// Adds an attribute of text, which ends with a zero and is filled up to a multiple of four bytes.
    fn with_text(mut self, kind: u16, text: &str) -> Self {
        let length = ATTRIBUTE_HEADER_BYTES + text.len() + 1;
        self.bytes.extend_from_slice(&(length as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        let filled = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(filled, 0);
        self
    }

    /// Adds a 32-bit attribute (`IFLA_…`).
    pub(crate) fn with_u32(mut self, kind: u16, value: u32) -> Self {
        let length = (ATTRIBUTE_HEADER_BYTES + 4) as u16;
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&value.to_ne_bytes());
        self
    }

    /// Sends the request on `socket` and waits for the kernel's acknowledgement, handing every message before it to
    /// `answer`. The kernel answers while the request is being sent, so this does not block.
    pub(crate) fn exchange(
        mut self,
        socket: &OwnedFd,
        mut answer: impl FnMut(&Message<'_>),
    ) -> io::Result<()> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        rustix::net::sendto(
            socket,
            &self.bytes,
            SendFlags::empty(),
            &SocketAddrNetlink::new(0, 0),
        )?;
        let mut buffer = vec![0; RECEIVE_BYTES];
        loop {
            let (length, _) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty())?;
            for message in Messages::new(&buffer[..length]) {
                if message.kind == libc::NLMSG_ERROR as u16 {
                    return acknowledgement(message.body);
                }
                answer(&message);
            }
        }
    }
}

/// One message: its type and what follows the header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) body: &'a [u8],
}

/// The messages of one datagram. A length that lies ends the walk.
#[derive(Debug)]
pub(crate) struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    pub(crate) fn new(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }

    /// What has not been walked over.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let length = usize::try_from(u32_at(self.rest, 0)?).ok()?;
        let kind = u16_at(self.rest, 4)?;
        let body = self.rest.get(MESSAGE_HEADER_BYTES..length)?;
        self.rest = self
            .rest
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
        Some(Message { kind, body })
    }
}

/// The 32-bit attribute `kind` among the `attributes` that follow a message's fixed part. A length that lies ends the
/// search.
pub(crate) fn attribute_u32(attributes: &[u8], kind: u16) -> Option<u32> {
    u32_at(attribute(attributes, kind)?, 0)
}

/// The content of the attribute `kind`, which may be attributes again.
pub(crate) fn attribute(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let value = attributes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        if u16_at(attributes, 2)? & NESTED_MASK == kind {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// The 32-bit number at `offset`.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let bytes = bytes.get(offset..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*bytes))
}

/// `struct nlmsgerr` begins with a negated errno, zero for success.
fn acknowledgement(body: &[u8]) -> io::Result<()> {
    match u32_at(body, 0).map(u32::cast_signed) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
        None => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A message of type 7 around `body`, with a length that may lie.
    fn message(length: u32, body: &[u8]) -> Vec<u8> {
        [
            &length.to_ne_bytes()[..],
            &7_u16.to_ne_bytes(),
            &[0; 10],
            body,
        ]
        .concat()
    }

    #[test]
    fn messages_are_told_apart_by_their_lengths() {
        let datagram = [message(17, &[1, 0, 0, 0]), message(18, &[2, 3])].concat();
        let bodies: Vec<_> = Messages::new(&datagram)
            .map(|message| (message.kind, message.body))
            .collect();
        assert_eq!(bodies, [(7, &[1][..]), (7, &[2, 3])]);
    }

    #[test]
    fn a_length_that_lies_ends_the_walk() {
        for length in [0, 15, 19, u32::MAX] {
            assert_eq!(
                Messages::new(&message(length, &[1, 2])).count(),
                0,
                "length {length}"
            );
        }
    }

    #[test]
    fn an_attribute_is_found_behind_others() {
        let attributes = [
            &5_u16.to_ne_bytes()[..],
            &1_u16.to_ne_bytes(),
            &[9, 0, 0, 0],
        ]
        .concat();
        let attributes = [
            attributes,
            [8_u16, 4].map(u16::to_ne_bytes).concat(),
            77_u32.to_ne_bytes().to_vec(),
        ]
        .concat();
        assert_eq!(attribute_u32(&attributes, 4), Some(77));
        assert_eq!(
            attribute_u32(&attributes, 1),
            None,
            "one byte is not a number"
        );
        assert_eq!(attribute_u32(&attributes, 5), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked_over_in_the_end(bytes in proptest::collection::vec(0_u8..32, 0..200)) {
            prop_assert!(Messages::new(&bytes).count() <= bytes.len() / MESSAGE_HEADER_BYTES);
            attribute_u32(&bytes, 200);
        }
    }
}
