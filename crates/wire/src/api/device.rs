use serde::{Deserialize, Serialize};
use std::fmt;

/// A machine that wants somebody to sign in for it (RFC 8628).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewDevice {
    /// The machine's name for itself, 1 to 60 characters. It is shown to the person who approves the
    /// machine.
    pub machine: String,
}

/// Instructions for the machine: show the code, and poll for the answer.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceBegun {
    /// The code by which the machine polls; it is a secret of the machine.
    pub device_code: String,
    /// The code that people compare and type in.
    pub user_code: String,
    /// The page on which people type in the code.
    pub url: String,
    /// The same with the code in it.
    pub url_with_code: String,
    /// The lifetime of the codes in seconds.
    pub expires_in_s: u64,
    /// The pause before each poll, in seconds.
    pub interval_s: u64,
}

/// A poll: has somebody signed in for the machine?
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceAsk {
    /// The code of [`DeviceBegun`].
    pub device_code: String,
}

/// The answer to a poll.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DeviceAnswer {
    /// Nobody has signed in yet.
    Pending,
    /// Nobody has signed in yet, and the poll came too soon.
    SlowDown {
        /// The pause before each further poll, in seconds.
        interval_s: u64,
    },
    /// Somebody refused.
    Denied,
    /// Nobody signed in in time, or the code was used.
    Expired,
    /// Somebody has signed in.
    Approved {
        /// A client's token, of one use; this is the only time that it is told.
        token: String,
        /// The owner of the new client.
        actor: String,
    },
}

impl fmt::Debug for DeviceBegun {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("DeviceBegun")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for DeviceAsk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("DeviceAsk")
    }
}

impl fmt::Debug for DeviceAnswer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Pending => "Pending",
            Self::SlowDown { .. } => "SlowDown",
            Self::Denied => "Denied",
            Self::Expired => "Expired",
            Self::Approved { .. } => "Approved",
        })
    }
}
