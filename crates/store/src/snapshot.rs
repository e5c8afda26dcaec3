//! The whole configuration of an account at one instant.

use crate::{
    Account, Actor, Client, Gateway, Group, Membership, Policy, Relay, Resource, Seq, Site, Token,
};

/// The configuration of an account that sessions of machines follow, as it was right after the
/// change `seq`. With the changes after it, it stays current. Sign-in data
/// ([`Provider`](crate::Provider), [`Identity`](crate::Identity)) is not in it. Each list is in the
/// order of ids.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The last change that it holds.
    pub seq: Seq,
    /// The account.
    pub account: Account,
    /// Everyone who acts.
    pub actors: Vec<Actor>,
    /// All groups.
    pub groups: Vec<Group>,
    /// The members of groups.
    pub memberships: Vec<Membership>,
    /// All sites.
    pub sites: Vec<Site>,
    /// All resources.
    pub resources: Vec<Resource>,
    /// All policies.
    pub policies: Vec<Policy>,
    /// All tokens, those that are no longer accepted included.
    pub tokens: Vec<Token>,
    /// All clients, revoked ones included.
    pub clients: Vec<Client>,
    /// All gateways, revoked ones included.
    pub gateways: Vec<Gateway>,
    /// All relays, revoked ones included.
    pub relays: Vec<Relay>,
}
