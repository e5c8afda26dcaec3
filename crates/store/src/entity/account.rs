//! An organisation and its settings.

use super::stamp::Stamp;
use super::token::Role;
use culvert_ids::AccountId;
use culvert_wire::messages::Ranges;
use culvert_wire::model::{Applications, Dns, LogSettings};
use serde::{Deserialize, Serialize};

/// An organisation: nothing crosses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// The name that people give it.
    pub name: String,
    /// The settings of the whole account.
    pub settings: AccountSettings,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}

/// The settings of a whole account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountSettings {
    /// Networks that are used inside the tunnel. A machine whose address is outside of them gets
    /// another one when it next connects.
    pub ranges: Ranges,
    /// The longest lifetime of a grant, in seconds: 60 to 86,400.
    pub grant_lifetime_s: u32,
    /// The programs of a client that may use the tunnel at all.
    pub applications: Applications,
    /// The way in which clients resolve names that belong to no resource.
    pub dns: Dns,
    /// The retention of logs and their sinks.
    pub logs: LogSettings,
    /// The people who must have a second factor besides a password.
    pub second_factor: SecondFactorRule,
    /// A gateway that no administrator has verified gets no grants.
    pub require_verified_gateways: bool,
    /// The paths between clients and gateways that are allowed.
    pub paths: PathRule,
    /// The treatment of packets to where a client's access has ended.
    pub ended_access: EndedAccess,
    /// People add plain WireGuard devices of their own.
    pub own_devices: bool,
}

/// The treatment of packets to where a client's access has ended: its resource was deleted, or no policy gives it to the client
/// any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedAccess {
    /// The client refuses them, until it goes down.
    #[default]
    Refuse,
    /// They leave the client by its own routes, outside of the tunnel.
    Release,
}

/// The paths between clients and gateways that an account allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathRule {
    /// Direct paths and relays.
    #[default]
    Any,
    /// No relays.
    Direct,
    /// Relays alone: neither end is told the other's addresses.
    Relayed,
}

/// The people who must have a second factor besides the password with which they sign in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecondFactorRule {
    /// Nobody; whoever wants may.
    #[default]
    Off,
    /// Everyone who sees or changes more than their own clients: all roles but [`Role::User`].
    Administrators,
    /// Everybody.
    Everybody,
}

impl SecondFactorRule {
    /// True if it applies to people who sign in with this role.
    pub const fn binds(self, role: Role) -> bool {
        match self {
            Self::Off => false,
            Self::Administrators => !matches!(role, Role::User),
            Self::Everybody => true,
        }
    }
}

impl Default for AccountSettings {
    fn default() -> Self {
        Self {
            ranges: Ranges {
                machines_ipv4: "100.64.0.0/11".to_owned(),
                machines_ipv6: "fd00:2021:1111::/107".to_owned(),
                names_ipv4: "100.96.0.0/11".to_owned(),
                names_ipv6: "fd00:2021:1111:8000::/107".to_owned(),
            },
            grant_lifetime_s: 3_600,
            applications: Applications::Any,
            dns: Dns::default(),
            logs: LogSettings::default(),
            second_factor: SecondFactorRule::Off,
            require_verified_gateways: false,
            paths: PathRule::Any,
            ended_access: EndedAccess::Refuse,
            own_devices: false,
        }
    }
}
