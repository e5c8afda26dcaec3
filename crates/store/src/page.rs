//! Lists, a page at a time.

use crate::{EntityId, EntityKind, MAX_PAGE};
use culvert_ids::ActorId;
use culvert_wire::model::Target;

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C> {
    /// The rows on it.
    pub items: Vec<T>,
    /// The beginning of the next page; none on the last one.
    pub next: Option<C>,
}

/// The largest number of rows on a page: 1 to [`MAX_PAGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageLimit(u16);

/// The filter of rows; all that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// With this name, whatever the case of its letters.
    pub name: Option<String>,
    /// With this in their name, whatever the case of its letters.
    pub name_contains: Option<String>,
    /// With this in one of the texts by which people know them: the name, the name of what they refer to, an address,
    /// the software. An address of the tunnel is found whole or by its first parts, `100.64.3`.
    pub text: Option<String>,
    /// That refer to these rows: memberships to a group or an actor, resources, gateways and tokens
    /// to a site, policies to a group or a resource, clients and tokens to an actor.
    pub refers_to: Vec<EntityId>,
    /// Policies of the groups that this actor is in.
    pub of_actor: Option<ActorId>,
    /// Resources with this address, as it is kept.
    pub target: Option<Target>,
    /// That are in each of these parts of their kind.
    pub parts: Vec<Part>,
    /// With one of these ids.
    pub ids: Option<Vec<EntityId>>,
    /// Clients and gateways that run one of these versions of the software, as they said when they last connected.
    pub software: Option<Vec<String>>,
}

/// The order of a list in which people look for something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The column; rows that are equal in it are in the order of their ids.
    pub by: OrderBy,
    /// The largest first.
    pub is_descending: bool,
}

/// A place in a list that has an order of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The order.
    pub order: Order,
    /// Rows before it.
    pub skipped: u64,
}

/// A column by which rows are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrderBy {
    /// The order in which they came into being.
    Created,
    /// Their names.
    #[default]
    Name,
    /// The name of what they belong to: the owner of a client or a token, the site of a resource or a gateway, the
    /// resource of a policy.
    Holder,
    /// The time at which a machine was last there, or a token last used.
    Seen,
}

/// Rows of a list in an order of its own, from a place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<T> {
    /// The rows.
    pub items: Vec<T>,
    /// The number of all rows that pass the filter.
    pub total: u64,
}

/// A part of the rows of one kind that people have a list of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Actors that are machines.
    ServiceAccounts,
    /// Tokens that people made: no sessions of browsers, and none for set-up.
    MadeTokens,
    /// Sessions of browsers.
    Sessions,
    /// Gateways that no administrator has verified, and none has revoked.
    UnverifiedGateways,
    /// Gateways that are verified, and not revoked.
    VerifiedGateways,
    /// Gateways that are revoked.
    RevokedGateways,
    /// Gateways that take no new clients.
    DrainingGateways,
    /// Gateways that are not revoked.
    LiveGateways,
    /// Clients that are not verified, and not revoked.
    UnverifiedClients,
    /// Clients that are verified, and not revoked.
    VerifiedClients,
    /// Clients that are revoked.
    RevokedClients,
    /// Actors that are disabled.
    DisabledActors,
    /// People who have a link and no password yet.
    InvitedActors,
    /// Actors that may change something: administrators and owners.
    Administrators,
    /// Policies that are in force.
    EnabledPolicies,
    /// Policies that are switched off.
    DisabledPolicies,
    /// Tokens that are not revoked; they may be used up or over.
    LiveTokens,
    /// Tokens that are revoked.
    RevokedTokens,
    /// Relays that are not revoked.
    LiveRelays,
    /// Relays that are revoked.
    RevokedRelays,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::ServiceAccounts,
        Self::MadeTokens,
        Self::Sessions,
        Self::UnverifiedGateways,
        Self::VerifiedGateways,
        Self::RevokedGateways,
        Self::DrainingGateways,
        Self::LiveGateways,
        Self::UnverifiedClients,
        Self::VerifiedClients,
        Self::RevokedClients,
        Self::DisabledActors,
        Self::InvitedActors,
        Self::Administrators,
        Self::EnabledPolicies,
        Self::DisabledPolicies,
        Self::LiveTokens,
        Self::RevokedTokens,
        Self::LiveRelays,
        Self::RevokedRelays,
    ];

    /// The kind of its rows.
    pub const fn kind(self) -> EntityKind {
        match self {
            Self::ServiceAccounts
            | Self::DisabledActors
            | Self::InvitedActors
            | Self::Administrators => EntityKind::Actor,
            Self::MadeTokens | Self::Sessions | Self::LiveTokens | Self::RevokedTokens => {
                EntityKind::Token
            }
            Self::UnverifiedGateways
            | Self::VerifiedGateways
            | Self::RevokedGateways
            | Self::DrainingGateways
            | Self::LiveGateways => EntityKind::Gateway,
            Self::UnverifiedClients | Self::VerifiedClients | Self::RevokedClients => {
                EntityKind::Client
            }
            Self::EnabledPolicies | Self::DisabledPolicies => EntityKind::Policy,
            Self::LiveRelays | Self::RevokedRelays => EntityKind::Relay,
        }
    }
}

impl PageLimit {
    /// As many as there may be.
    pub const MAX: Self = Self(MAX_PAGE);

    /// Cuts what is outside 1 to [`MAX_PAGE`].
    pub fn new(rows: u64) -> Self {
        let rows = rows.clamp(1, u64::from(MAX_PAGE));
        Self(u16::try_from(rows).unwrap_or(MAX_PAGE))
    }

    /// Rows.
    pub const fn rows(self) -> u16 {
        self.0
    }
}

impl Default for PageLimit {
    fn default() -> Self {
        Self(50)
    }
}

impl<T, C> Page<T, C> {
    /// From up to one row more than the page takes, which says whether there is another page.
    pub fn cut(mut items: Vec<T>, limit: PageLimit, cursor: impl Fn(&T) -> C) -> Self {
        let rows = usize::from(limit.rows());
        let more = items.len() > rows;
        items.truncate(rows);
        let next = items.last().filter(|_| more).map(cursor);
        Self { items, next }
    }

    /// The same page of something else.
    pub fn map<U>(self, with: impl Fn(T) -> U) -> Page<U, C> {
        Page {
            items: self.items.into_iter().map(with).collect(),
            next: self.next,
        }
    }
}
