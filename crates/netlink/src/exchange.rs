//! A request with its answer, for callers without a runtime.

use crate::socket::{RECEIVE_BYTES, Socket};
use netlink_packet_core::NLM_F_ACK;
use netlink_packet_route::RouteNetlinkMessage;
use std::io;

/// Asks the kernel for a change or for one thing, and returns what it said before its acknowledgement. It answers while
/// the request is being sent, so this does not block. Not for dumps.
///
/// # Errors
/// The kernel's.
pub fn exchange(
    socket: &Socket,
    request: RouteNetlinkMessage,
    flags: u16,
) -> io::Result<Vec<RouteNetlinkMessage>> {
    let mut answer = socket.request(request, flags | NLM_F_ACK)?;
    let mut buffer = Vec::with_capacity(RECEIVE_BYTES);
    loop {
        socket.receive(&mut buffer)?;
        if answer.take(&buffer)? {
            return Ok(answer.entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;
    use netlink_packet_core::NLM_F_DUMP;
    use netlink_packet_route::link::{LinkAttribute, LinkMessage};

    /// The loopback device is the first of every namespace.
    const LOOPBACK: u32 = 1;

    fn link(index: u32) -> RouteNetlinkMessage {
        let mut request = LinkMessage::default();
        request.header.index = index;
        RouteNetlinkMessage::GetLink(request)
    }

    fn is_loopback(entry: &RouteNetlinkMessage) -> bool {
        let RouteNetlinkMessage::NewLink(link) = entry else {
            return false;
        };
        let name = LinkAttribute::IfName("lo".to_owned());
        link.header.index == LOOPBACK && link.attributes.contains(&name)
    }

    #[test]
    fn one_thing_and_all_of_a_kind_are_asked_for_on_one_socket() {
        let socket = Socket::open(Protocol::Route, 0).unwrap();
        let entries = exchange(&socket, link(LOOPBACK), 0).unwrap();
        assert!(matches!(&entries[..], [entry] if is_loopback(entry)));

        let mut dump = socket.request(link(0), NLM_F_DUMP).unwrap();
        let mut buffer = Vec::new();
        loop {
            socket.receive(&mut buffer).unwrap();
            if dump.take(&buffer).unwrap() {
                break;
            }
        }
        assert!(dump.entries.iter().any(is_loopback));
        let nothing = socket.receive(&mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn an_error_of_the_kernel_comes_with_its_number() {
        const NO_DEVICE: i32 = 19;
        let socket = Socket::open(Protocol::Route, 0).unwrap();
        let error = exchange(&socket, link(u32::MAX >> 1), 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(NO_DEVICE));
    }

    #[test]
    fn the_answer_to_a_request_that_was_given_up_is_passed_over() {
        let socket = Socket::open(Protocol::Route, 0).unwrap();
        drop(socket.request(link(u32::MAX >> 1), NLM_F_ACK).unwrap());
        let entries = exchange(&socket, link(LOOPBACK), 0).unwrap();
        assert!(matches!(&entries[..], [entry] if is_loopback(entry)));
    }
}
