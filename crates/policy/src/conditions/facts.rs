//! The facts that conditions look at.

use super::{Country, OperatingSystem};
use culvert_ids::GroupId;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A fact that a condition may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fact {
    /// The time.
    Time,
    /// An administrator's word for the client: [`Subject::verified`].
    Verified,
    /// [`ClientFacts::public_address`].
    PublicAddress,
    /// [`ClientFacts::country`].
    Country,
    /// [`ClientFacts::os`].
    OperatingSystem,
}

/// The portal's knowledge of a client that asks. By default nothing, so that nothing is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The groups of its actor.
    pub groups: BTreeSet<GroupId>,
    /// True if an administrator has verified it.
    pub verified: bool,
    /// The facts of its last session.
    pub client: ClientFacts,
}

/// The portal's knowledge of a client by its last session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFacts {
    /// The address that the portal sees, never one that it says.
    pub public_address: Option<IpAddr>,
    /// The country of that address, where a database knows it.
    pub country: Option<Country>,
    /// The operating system that it says it has. Nobody has checked that.
    pub os: Option<OperatingSystem>,
}

impl ClientFacts {
    /// A client that is seen at the address.
    #[must_use]
    pub fn seen_at(
        address: Option<IpAddr>,
        country: impl FnOnce(IpAddr) -> Option<Country>,
    ) -> Self {
        Self {
            public_address: address,
            country: address.and_then(country),
            os: None,
        }
    }
}
