//! The first bytes of a stream, and their answer.

use std::fmt;

/// Bytes of a preface, and of its answer.
pub const PREFACE_LEN: usize = 8;

const PREFACE: [u8; 4] = *b"CVR\x54";
const REFUSAL: [u8; 4] = *b"CVR\x55";

/// The first bytes of a stream: the end says for which gateway it is. The relay accepts it by the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preface {
    /// The gateway's port at the relay.
    pub gateway_port: u16,
}

/// A peer began with something else than a preface, or answered it by something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it does not begin as a stream of Culvert's relays does")]
pub struct PrefaceError;

/// The reason why a relay refuses a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRefusal {
    /// The port is none of its gateway ports.
    NoSuchPort,
    /// It has as many streams as it takes, in all or from this address.
    Full,
    /// A reason of a later version.
    Other(u8),
}

impl Preface {
    /// The bytes.
    #[must_use]
    pub const fn encode(self) -> [u8; PREFACE_LEN] {
        let [high, low] = self.gateway_port.to_be_bytes();
        let [a, b, c, d] = PREFACE;
        [a, b, c, d, high, low, 0, 0]
    }

    /// From the bytes.
    ///
    /// # Errors
    /// [`PrefaceError`].
    pub fn parse(bytes: &[u8; PREFACE_LEN]) -> Result<Self, PrefaceError> {
        let [_, _, _, _, high, low, ..] = *bytes;
        let preface = Self {
            gateway_port: u16::from_be_bytes([high, low]),
        };
        match preface.encode() == *bytes {
            true => Ok(preface),
            false => Err(PrefaceError),
        }
    }
}

/// The bytes by which a relay refuses a stream.
#[must_use]
pub const fn write_refusal(refusal: StreamRefusal) -> [u8; PREFACE_LEN] {
    let [a, b, c, d] = REFUSAL;
    [a, b, c, d, refusal.code(), 0, 0, 0]
}

/// Reads the relay's answer to a preface: accepted, or refused.
///
/// # Errors
/// [`PrefaceError`] of an answer that is neither.
pub fn parse_answer(
    answer: &[u8; PREFACE_LEN],
    preface: Preface,
) -> Result<Result<(), StreamRefusal>, PrefaceError> {
    if *answer == preface.encode() {
        return Ok(Ok(()));
    }
    match answer.strip_prefix(&REFUSAL) {
        Some([code, 0, 0, 0]) => Ok(Err(StreamRefusal::from_code(*code))),
        _ => Err(PrefaceError),
    }
}

impl StreamRefusal {
    const fn code(self) -> u8 {
        match self {
            Self::NoSuchPort => 1,
            Self::Full => 2,
            Self::Other(code) => code,
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::NoSuchPort,
            2 => Self::Full,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for StreamRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchPort => out.write_str("it has no such gateway port"),
            Self::Full => out.write_str("it has too many streams"),
            Self::Other(code) => write!(out, "reason {code}, of a later version"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preface_is_read_as_it_was_written_and_nothing_else_is() {
        let preface = Preface { gateway_port: 3480 };
        let bytes = preface.encode();
        assert_eq!(bytes, *b"CVR\x54\x0d\x98\0\0");
        assert_eq!(Preface::parse(&bytes), Ok(preface));
        for other in [
            *b"CVR\x55\x0d\x98\0\0",
            *b"CVR\x54\x0d\x98\0\x01",
            *b"GET / HT",
        ] {
            assert_eq!(Preface::parse(&other), Err(PrefaceError), "{other:?}");
        }
    }

    #[test]
    fn an_answer_accepts_this_port_or_refuses_it() {
        let preface = Preface { gateway_port: 7 };
        assert_eq!(parse_answer(&preface.encode(), preface), Ok(Ok(())));
        let other = Preface { gateway_port: 8 };
        assert_eq!(parse_answer(&other.encode(), preface), Err(PrefaceError));
        for refusal in [
            StreamRefusal::NoSuchPort,
            StreamRefusal::Full,
            StreamRefusal::Other(77),
        ] {
            let answer = write_refusal(refusal);
            assert_eq!(parse_answer(&answer, preface), Ok(Err(refusal)));
        }
        assert_eq!(parse_answer(b"HTTP/1.1", preface), Err(PrefaceError));
    }
}
