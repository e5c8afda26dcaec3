//! The portal sees the client at one of some addresses.

use super::{Entries, Fact, Field, Input, Kind, Subject};
use crate::{PolicyError, Prefix, TargetError};
use culvert_base::UnixTime;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// Ranges of one address condition: the addresses of an organisation's offices and providers. They
/// are looked at one after the other.
pub const MAX_CONDITION_PREFIXES: usize = 256;

/// The address that the portal sees the client at is in one of the ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicAddresses(pub Vec<Prefix>);

/// The client's address, as the portal sees it, is in one of the networks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WrittenPublicAddresses {
    /// Networks, such as `203.0.113.0/24`; an empty list never holds.
    pub cidrs: Vec<String>,
}

/// The address where the portal sees the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InNone {
    seen: Option<IpAddr>,
}

impl Kind for PublicAddresses {
    type Written = WrittenPublicAddresses;
    type Unmet = InNone;

    const FIELD: Field = Field {
        name: "from_address",
        label: "Only from these addresses",
        hint: "One a line: 203.0.113.0/24",
        input: Input::WordLines,
        value_name: "CIDR",
        help: "From this public address or network; of several, from any",
    };
    const NEEDS: &'static [Fact] = &[Fact::PublicAddress];
    const ADVICE: &'static str = "access is not allowed from this network";

    fn read(texts: &[String]) -> Result<Option<WrittenPublicAddresses>, String> {
        let cidrs = texts.iter().map(|address| network(address)).collect();
        Ok((!texts.is_empty()).then_some(WrittenPublicAddresses { cidrs }))
    }

    fn texts(written: &WrittenPublicAddresses) -> Vec<String> {
        written.cidrs.clone()
    }

    fn in_words(written: &WrittenPublicAddresses) -> String {
        format!("from {}", written.cidrs.join(" or "))
    }

    fn understand(written: &WrittenPublicAddresses) -> Result<Self, PolicyError> {
        let prefixes = written.cidrs.iter().map(|cidr| cidr.parse::<Prefix>());
        let prefixes: Result<_, _> = prefixes.collect();
        Ok(Self(prefixes.map_err(TargetError::from)?))
    }

    fn entries(&self) -> Option<Entries> {
        let (count, max) = (self.0.len(), MAX_CONDITION_PREFIXES);
        Some(Entries { count, max })
    }

    fn hold(&self, subject: &Subject, _now: UnixTime) -> Result<Option<UnixTime>, InNone> {
        // A listener for both families sees IPv4 clients at ::ffff:a.b.c.d.
        let seen = subject.client.public_address;
        let seen = seen.map(|address| address.to_canonical());
        let holds = |address| self.0.iter().any(|prefix| prefix.contains(address));
        match seen.is_some_and(holds) {
            true => Ok(None),
            false => Err(InNone { seen }),
        }
    }
}

impl fmt::Display for InNone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seen {
            Some(seen) => write!(out, "the client's address {seen} is in none of the ranges"),
            None => out.write_str("the client's address is unknown"),
        }
    }
}

/// A single address is a network of one.
#[must_use]
pub fn network(address: &str) -> String {
    match address.parse() {
        Ok(IpAddr::V4(address)) => format!("{address}/32"),
        Ok(IpAddr::V6(address)) => format!("{address}/128"),
        Err(_) => address.to_owned(),
    }
}
