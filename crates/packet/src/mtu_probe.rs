//! Probes for the path MTU, and their answers, as they travel in records (RFC 8899 section 4.1: "a probe packet …
//! that is confirmed by the receiver").
//!
//! Shape, in network byte order, instead of an IP packet:
//!
//! | bytes | probe | answer |
//! |---|---|---|
//! | 0 | 0: no version of IP | 0 |
//! | 1–3 | `MTU` | `MTU` |
//! | 4 | 1 | 2 |
//! | 5 | 0 | 0 |
//! | 6–7 | generation, repeated by the answer | that of the probe |
//! | 8–9 | length of the probe | length of the probe |
//! | from 10 | zeros up to that length | zeros up to [`ANSWER_LEN`] |
//!
//! Another implementation of WireGuard drops both: their first four bits are neither 4 nor 6.

const MAGIC: [u8; 4] = [0, b'M', b'T', b'U'];
const HEADER_LEN: usize = 10;
const PROBE: u8 = 1;
const ANSWER: u8 = 2;

/// Bytes of an answer: one unit of padding. No answer is longer than its question.
pub const ANSWER_LEN: usize = 16;

/// A message about the path MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MtuMessage {
    /// Answer, if all of it arrived.
    Probe(MtuProbe),
    /// All of the probe arrived.
    Answer(MtuProbe),
}

/// One probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuProbe {
    /// Chosen by the sender of the probe.
    pub generation: u16,
    /// Of the probe, in bytes, without record and headers around it.
    pub len: u16,
}

impl MtuMessage {
    /// Reads a decrypted record's whole contents; `None` is something else.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let (magic, rest) = packet.split_first_chunk::<4>()?;
        let &[kind, 0, g0, g1, l0, l1] = rest.first_chunk::<6>()? else {
            return None;
        };
        if *magic != MAGIC {
            return None;
        }
        let probe = MtuProbe {
            generation: u16::from_be_bytes([g0, g1]),
            len: u16::from_be_bytes([l0, l1]),
        };
        match kind {
            PROBE if packet.len() == usize::from(probe.len) => Some(Self::Probe(probe)),
            ANSWER if packet.len() == ANSWER_LEN => Some(Self::Answer(probe)),
            _ => None,
        }
    }

    /// Bytes of the message, the least being [`ANSWER_LEN`].
    pub fn packet_len(self) -> usize {
        match self {
            Self::Probe(probe) => usize::from(probe.len).max(ANSWER_LEN),
            Self::Answer(_) => ANSWER_LEN,
        }
    }

    /// Writes the message into `packet`, which has [`Self::packet_len`] bytes.
    ///
    /// # Panics
    /// If it has fewer than 10.
    pub fn write(self, packet: &mut [u8]) {
        let (kind, probe) = match self {
            Self::Probe(probe) => (PROBE, probe),
            Self::Answer(probe) => (ANSWER, probe),
        };
        let (header, padding) = packet.split_at_mut(HEADER_LEN);
        header[..4].copy_from_slice(&MAGIC);
        header[4..6].copy_from_slice(&[kind, 0]);
        header[6..8].copy_from_slice(&probe.generation.to_be_bytes());
        header[8..].copy_from_slice(&probe.len.to_be_bytes());
        padding.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::IpView;
    use proptest::prelude::*;

    fn written(message: MtuMessage) -> Vec<u8> {
        let mut packet = vec![0xaa; message.packet_len()];
        message.write(&mut packet);
        packet
    }

    #[test]
    fn a_probe_that_was_cut_short_is_not_answered() {
        let probe = MtuProbe {
            generation: 7,
            len: 1400,
        };
        let packet = written(MtuMessage::Probe(probe));
        assert_eq!(MtuMessage::parse(&packet), Some(MtuMessage::Probe(probe)));
        assert_eq!(MtuMessage::parse(&packet[..1399]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(generation: u16, len in 16..=u16::MAX, is_answer: bool) {
            let probe = MtuProbe { generation, len };
            let message = if is_answer { MtuMessage::Answer(probe) } else { MtuMessage::Probe(probe) };
            let packet = written(message);
            prop_assert_eq!(MtuMessage::parse(&packet), Some(message));
            prop_assert!(IpView::parse(&packet).is_err(), "it is no IP packet");
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(message) = MtuMessage::parse(&bytes) {
                prop_assert_eq!(message.packet_len(), bytes.len());
            }
        }

        #[test]
        fn no_ip_packet_is_a_message(mut bytes in proptest::collection::vec(any::<u8>(), 10..64), version in 4..=6_u8) {
            bytes[0] = version << 4;
            prop_assert_eq!(MtuMessage::parse(&bytes), None);
        }
    }
}
