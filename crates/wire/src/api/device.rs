use serde::{Deserialize, Serialize};
use std::fmt;

/// A machine that wants somebody to sign in for it (RFC 8628).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewDevice {
    /// What the machine calls itself: 1 to 60 characters. Who approves it reads that.
    pub machine: String,
}

/// What it is to do: show the code, and ask again and again.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceBegun {
    /// By what it asks; nobody else is to see it.
    pub device_code: String,
    /// What people compare and type in.
    pub user_code: String,
    /// Where they do so.
    pub url: String,
    /// The same with the code in it.
    pub url_with_code: String,
    /// For how long, in seconds.
    pub expires_in_s: u64,
    /// How long to wait before each question, in seconds.
    pub interval_s: u64,
}

/// Asks whether somebody has signed in for the machine.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceAsk {
    /// The code of [`DeviceBegun`].
    pub device_code: String,
}

/// Whether somebody has.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DeviceAnswer {
    /// Not yet.
    Pending,
    /// Not yet, and the question came too soon.
    SlowDown {
        /// How long to wait from now on, in seconds.
        interval_s: u64,
    },
    /// Somebody has said no.
    Denied,
    /// Nobody has in time, or the code was used.
    Expired,
    /// Yes.
    Approved {
        /// A client's token, of one use; this is the only time that it is told.
        token: String,
        /// Whose it is.
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
