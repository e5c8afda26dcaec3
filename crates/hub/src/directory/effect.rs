//! What a change of the configuration touches, so that nothing else is looked at.

use culvert_ids::{ActorId, ClientId, GatewayId, GroupId, ResourceId, TokenId};

/// What a change touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The networks inside the tunnel are others.
    Ranges,
    /// The account's rules about names are others.
    Dns,
    /// Whether there is a flow log is otherwise.
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
        /// Whose clients it connects.
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

/// What of a resource is different; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ResourceChange {
    /// Its name.
    Name,
    /// What of it may be used.
    Filters,
    /// Which programs may reach it.
    Applications,
    /// It is new, or gone, or elsewhere: no grant holds for what it is now.
    Place,
}

/// What of a machine is different; the second includes the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MachineChange {
    /// Whether it is revoked, verified, draining.
    Standing,
    /// Its key, its addresses, or where it belongs: what was granted before is worth nothing.
    Identity,
}
