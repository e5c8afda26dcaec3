//! Items that a change of the configuration affects, so that nothing else is reviewed.

use culvert_ids::{ActorId, ClientId, GatewayId, GroupId, RelayId, ResourceId, TokenId};

/// An item that a change affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The networks inside the tunnel are others.
    Ranges,
    /// The account's rules about names are others.
    Dns,
    /// The rule about access that ended.
    EndedAccess,
    /// The account's rule about paths is another one.
    Paths,
    /// A site uses other relays.
    SiteRelays,
    /// The relay was made, renamed, drained, revoked or deleted.
    Relay(RelayId),
    /// The flow log was turned on or off.
    FlowLog,
    /// A policy joins the two, or no longer, or under other conditions.
    Policy {
        group: GroupId,
        resource: ResourceId,
    },
    /// The actor came into the group, or left it.
    Member { actor: ActorId, group: GroupId },
    /// The resource.
    Resource {
        id: ResourceId,
        change: ResourceChange,
    },
    /// The actor was made, disabled, enabled or deleted.
    Actor(ActorId),
    /// The token was revoked, deleted, or has another expiry.
    Token {
        id: TokenId,
        /// The owner of the clients that it connects.
        actor: Option<ActorId>,
    },
    /// The client.
    Client { id: ClientId, change: MachineChange },
    /// The gateway.
    Gateway {
        id: GatewayId,
        change: MachineChange,
    },
}

/// The part of a resource that is different; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ResourceChange {
    /// Its name.
    Name,
    /// The services of it that may be used.
    Filters,
    /// The programs that may reach it.
    Applications,
    /// It is new, or gone, or elsewhere: no earlier grant is valid for it now.
    Place,
}

/// The part of a machine that is different; the second includes the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MachineChange {
    /// Its revocation, verification or draining.
    Rights,
    /// Its key, its addresses, or its owner or site: earlier grants are worth nothing.
    Identity,
}
