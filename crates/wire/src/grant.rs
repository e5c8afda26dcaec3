//! Claims that the portal signs when it grants access.

use crate::{Cipher, PublicKey, Timestamp, model};
use culvert_ids::{ClientId, GatewayId, GrantId, ResourceId};
use culvert_policy::{PolicyError, Within};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The claims of a grant: one client may use one resource through one gateway until `exp`.
///
/// They travel as the payload of a PASETO v4.public token that the portal signs. The gateway checks
/// the signature, that `gateway` is itself, and the times, before it believes anything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantClaims {
    /// The id of the grant; a later grant with another id may replace it.
    pub grant: GrantId,
    /// The client that may use it.
    pub client: ClientId,
    /// The client's key: only its holder can use the grant.
    pub client_key: PublicKey,
    /// The addresses that the client's packets may come from.
    pub client_ipv4: Ipv4Addr,
    /// The same of the other family.
    pub client_ipv6: Ipv6Addr,
    /// The gateway that accepts it; all others refuse the grant.
    pub gateway: GatewayId,
    /// The resource that it is for.
    pub resource: ResourceId,
    /// The address or name of the resource.
    pub target: GrantTarget,
    /// The protocols and ports that may be used; an empty list allows nothing.
    pub filters: model::Understood<model::Filter>,
    /// The protocols and ports of the client's own host that the resource's addresses may use.
    #[serde(default, skip_serializing_if = "model::Understood::is_nothing")]
    pub inbound: model::Understood<model::Filter>,
    /// The suite that the tunnel between the two uses.
    pub cipher: Cipher,
    /// The client is a plain WireGuard device: it has no stub resolver for the names of its resources, and asks the gateway.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain: bool,
    /// The time of issue.
    pub iat: Timestamp,
    /// The time of expiry.
    pub exp: Timestamp,
}

/// The target of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum GrantTarget {
    /// To names whose addresses must be within these ranges. It has no `kind`, so that a gateway that
    /// knows nothing of ranges refuses the grant rather than lead the names anywhere.
    NamesWithin {
        /// A name or a pattern.
        names: String,
        /// Ranges, at least one.
        within: Vec<String>,
    },
    /// To addresses, or to names wherever they lead.
    Plain(model::Target),
}

impl GrantTarget {
    /// The target of a grant, with the ranges in which addresses of its names may be.
    #[must_use]
    pub fn new(target: model::Target, within: Option<&Within>) -> Self {
        match within {
            None => Self::Plain(target),
            Some(within) => Self::NamesWithin {
                names: target.address,
                within: within.ranges().iter().map(ToString::to_string).collect(),
            },
        }
    }

    /// The target of the grant.
    #[must_use]
    pub fn target(&self) -> model::Target {
        match self {
            Self::NamesWithin { names, .. } => model::Target {
                kind: model::TargetKind::Dns,
                address: names.clone(),
            },
            Self::Plain(target) => target.clone(),
        }
    }

    /// The target and the ranges, in the types that decide.
    ///
    /// # Errors
    /// [`PolicyError`] where one of them can't be.
    pub fn parse(&self) -> Result<(culvert_policy::Target, Option<Within>), PolicyError> {
        let target = (&self.target()).try_into()?;
        let within = match self {
            Self::NamesWithin { within, .. } => Some(model::within(within)?),
            Self::Plain(_) => None,
        };
        Ok((target, within))
    }
}

impl From<model::Target> for GrantTarget {
    fn from(target: model::Target) -> Self {
        Self::Plain(target)
    }
}
