//! The messages of a datagram.

use netlink_packet_core::{DecodeError, NetlinkBuffer, NetlinkMessage};
use netlink_packet_route::RouteNetlinkMessage;

/// Messages and attributes begin at multiples of this many bytes (`NLMSG_ALIGNTO`).
const ALIGNMENT_BYTES: usize = 4;

/// A message whose length lies: it and the rest of the datagram cannot be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The messages of one datagram. One whose length lies is the last.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// The messages of `datagram`.
    #[must_use]
    pub const fn of(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }

    /// The bytes that have not been walked over.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<NetlinkBuffer<&'a [u8]>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Ok(message) = NetlinkBuffer::new_checked(self.rest) else {
            self.rest = &[];
            return Some(Err(Malformed));
        };
        let length = usize::try_from(message.length()).unwrap_or(usize::MAX);
        let (own, _) = self.rest.split_at(length.min(self.rest.len()));
        let next = length.checked_next_multiple_of(ALIGNMENT_BYTES);
        self.rest = next
            .and_then(|next| self.rest.get(next..))
            .unwrap_or_default();
        Some(Ok(NetlinkBuffer::new(own)))
    }
}

/// Reads a message of rtnetlink.
///
/// # Errors
/// A kind or a form that the library does not know.
pub fn read(
    message: &NetlinkBuffer<&[u8]>,
) -> Result<NetlinkMessage<RouteNetlinkMessage>, DecodeError> {
    NetlinkMessage::deserialize(message.buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message of type 77 around `body`, with a length that may lie.
    fn message(length: u32, body: &[u8]) -> Vec<u8> {
        let kind = 77_u16.to_ne_bytes();
        [&length.to_ne_bytes()[..], &kind, &[0; 10], body].concat()
    }

    #[test]
    fn messages_are_told_apart_by_their_lengths() {
        let datagram = [message(17, &[1, 0, 0, 0]), message(18, &[2, 3])].concat();
        let messages: Vec<_> = Messages::of(&datagram).map(Result::unwrap).collect();
        let parts: Vec<_> = messages
            .iter()
            .map(|message| (message.message_type(), message.payload()))
            .collect();
        assert_eq!(parts, [(77, &[1][..]), (77, &[2, 3])]);
    }

    #[test]
    fn a_length_that_lies_ends_the_walk_and_is_told() {
        for length in [0, 15, 19, u32::MAX] {
            let datagram = [message(16, &[]), message(length, &[1, 2])].concat();
            let mut messages = Messages::of(&datagram);
            assert!(messages.next().unwrap().is_ok());
            assert_eq!(messages.next(), Some(Err(Malformed)), "length {length}");
            assert_eq!(messages.next(), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked_over_in_the_end(bytes in proptest::collection::vec(0_u8..32, 0..200)) {
            let messages = Messages::of(&bytes);
            let count = messages.clone().count();
            prop_assert!(count <= bytes.len() / 16 + 1);
            for message in messages.flatten() {
                let _any = read(&message);
            }
        }
    }
}
