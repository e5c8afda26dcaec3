//! What the portal signs when it grants access.

use crate::{Cipher, PublicKey, Timestamp, model};
use culvert_ids::{ClientId, GatewayId, GrantId, ResourceId};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The claims of a grant: one client may use one resource through one gateway until `exp`.
///
/// They travel as the payload of a PASETO v4.public token that the portal signs. The gateway checks
/// the signature, that `gateway` is itself, and the times, before it believes anything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantClaims {
    /// Which grant; a later one with another id may replace it.
    pub grant: GrantId,
    /// To whom.
    pub client: ClientId,
    /// The client's key: only its holder can use the grant.
    pub client_key: PublicKey,
    /// The addresses that the client's packets may come from.
    pub client_ipv4: Ipv4Addr,
    /// The same of the other family.
    pub client_ipv6: Ipv6Addr,
    /// Through which gateway; to all others the grant is worth nothing.
    pub gateway: GatewayId,
    /// To what.
    pub resource: ResourceId,
    /// Where the resource is.
    pub target: model::Target,
    /// What of it may be used; an empty list is nothing.
    pub filters: model::Understood<model::Filter>,
    /// The suite that the tunnel between the two uses.
    pub cipher: Cipher,
    /// When it was made.
    pub iat: Timestamp,
    /// When it ends.
    pub exp: Timestamp,
}
