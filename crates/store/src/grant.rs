//! Grants that live, so that a portal that starts anew knows them.

use culvert_ids::{ClientId, GatewayId, GrantId, PolicyId, ResourceId};
use culvert_wire::{Cipher, Timestamp};
use serde::{Deserialize, Serialize};

/// A permission of one client for one resource through one gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// To whom.
    pub client: ClientId,
    /// The gateway that the traffic goes through.
    pub gateway: GatewayId,
    /// The resource.
    pub resource: ResourceId,
    /// The policy that allowed it.
    pub policy: PolicyId,
    /// The suite that it binds.
    pub cipher: Cipher,
    /// The time at which it was issued.
    pub issued: Timestamp,
    /// The first instant at which it no longer holds.
    pub expires: Timestamp,
}
