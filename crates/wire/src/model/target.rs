//! The addresses or names of a resource.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of a resource's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// A network, such as `10.0.0.0/8`.
    Cidr,
    /// One address.
    Address,
    /// A DNS name, or a pattern with `*` and `**`.
    Dns,
}

impl fmt::Display for TargetKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Cidr => "cidr",
            Self::Address => "address",
            Self::Dns => "dns",
        })
    }
}

/// A network, an address or a name pattern, as text that is not checked yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Target {
    /// The kind of `address`.
    pub kind: TargetKind,
    /// `10.0.0.0/8`, `10.1.2.3`, `fd00::1`, `db.corp.example` or `*.corp.example`.
    pub address: String,
}
