//! The results of calls.

use std::io;

use serde::Serialize;

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did what it is for.
    Works,
    /// It returned something else than what it is for, such as no packet where one waits.
    Fails(String),
    /// The kernel refuses it, by this error: `ENOTSOCK`.
    Refused(String),
}

impl Outcome {
    /// Of a call that was to move `expected` bytes; `None` is a packet of any length.
    pub(super) fn of<E: Into<io::Error>>(
        result: Result<usize, E>,
        expected: Option<usize>,
    ) -> Self {
        match result {
            Ok(moved) if expected.map_or(moved > 0, |expected| moved == expected) => Self::Works,
            Ok(moved) => Self::Fails(format!("{moved} bytes")),
            Err(error) => {
                let error = error.into();
                Self::Refused(match error.raw_os_error() {
                    Some(number) => format!("{:?}", nix::errno::Errno::from_raw(number)),
                    None => error.to_string(),
                })
            }
        }
    }
}
