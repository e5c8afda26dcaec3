//! The faults of a request's text.

use crate::Errno;
use crate::bounds::{MAX_LINE, MAX_REQUEST};

/// A request that cannot be carried out because its text is wrong. The client is at fault.
///
/// It names no value and no key the client wrote: a private key in the wrong place would end up in
/// a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct RequestError {
    /// The line in the request, from 1.
    pub line: u32,
    /// The fault of the request.
    pub reason: RequestErrorReason,
}

impl RequestError {
    /// The number to answer.
    pub fn errno(&self) -> Errno {
        match self.reason {
            RequestErrorReason::Empty
            | RequestErrorReason::LineTooLong
            | RequestErrorReason::NotKeyAndValue
            | RequestErrorReason::NotText
            | RequestErrorReason::Truncated => Errno::PROTOCOL,
            RequestErrorReason::RequestTooLarge => Errno::TOO_BIG,
            RequestErrorReason::InvalidValue { .. }
            | RequestErrorReason::UnknownKey
            | RequestErrorReason::UnknownOperation => Errno::INVALID,
        }
    }
}

/// The kind of fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestErrorReason {
    /// An empty line where a request should begin.
    #[error("the request is empty")]
    Empty,
    /// A value that the key does not take.
    #[error("the value of {key} is not {expected}")]
    InvalidValue {
        /// The key of the protocol.
        key: &'static str,
        /// The values that it accepts.
        expected: &'static str,
    },
    /// More than [`MAX_LINE`] bytes in a line.
    #[error("the line has more than {MAX_LINE} bytes")]
    LineTooLong,
    /// A line without `=`.
    #[error("the line is not key=value")]
    NotKeyAndValue,
    /// A line that is not UTF-8.
    #[error("the line is not text")]
    NotText,
    /// More than [`MAX_REQUEST`] bytes in a request.
    #[error("the request has more than {MAX_REQUEST} bytes")]
    RequestTooLarge,
    /// The client closed the connection before the empty line.
    #[error("the request ends before its empty line")]
    Truncated,
    /// A key that is not of the protocol, or not of this section.
    #[error("the key is not known in this section")]
    UnknownKey,
    /// A first line other than `get=1`, `set=1`, `culvert_status=1`.
    #[error("the operation is not known")]
    UnknownOperation,
}
