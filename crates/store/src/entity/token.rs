//! Tokens, without their secrets: digests go into the store and never come out.

use super::machine::MachineId;
use super::stamp::Stamp;
use culvert_ids::{ActorId, SiteId, TokenId};
use culvert_wire::Timestamp;
use culvert_wire::token::TokenKind;
use serde::{Deserialize, Serialize};

/// A token. Of an existing one, name, expiry and revocation may change, and a revocation is final.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// Its purpose and its owner.
    #[serde(flatten)]
    pub scope: TokenScope,
    /// The name that people give it; no two of an account alike that are not revoked.
    pub name: String,
    /// The number of its uses: one or many.
    pub uses: TokenUses,
    /// The first instant at which it is no longer accepted.
    pub expires: Option<Timestamp>,
    /// The time since which it is not accepted.
    pub revoked: Option<Timestamp>,
    /// The use of a token that has one.
    pub used: Option<TokenUse>,
    /// The time at which it was last accepted, to the minute or so. Not configuration: it is not in
    /// the change log, and changes no version.
    #[serde(skip)]
    pub last_used: Option<Timestamp>,
    /// The time at which the person of a session last proved who they are. Not configuration either.
    #[serde(skip)]
    pub proven: Option<Timestamp>,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}

/// The purpose of a token and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TokenScope {
    /// Makes the first administrator.
    Setup,
    /// Uses the API as an actor.
    Api {
        /// As whom.
        actor: ActorId,
        /// The role that it has there.
        role: Role,
    },
    /// Connects clients of an actor.
    Client {
        /// The actor.
        actor: ActorId,
    },
    /// Connects gateways of a site.
    Gateway {
        /// The site.
        site: SiteId,
    },
    /// Connects relays of the account.
    Relay,
    /// A browser in which someone signed in. Its rights are those of the actor's
    /// [`SignIn`](super::SignIn) at that moment.
    Session {
        /// The actor.
        actor: ActorId,
    },
}

/// The rights of an API token, or of someone who signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sees and gives up the actor's own clients.
    User,
    /// Reads.
    Auditor,
    /// Reads and changes all but owners and their tokens.
    Admin,
    /// Everything.
    Owner,
}

/// The number of a token's uses: one or many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenUses {
    /// Once. A token of a client, a gateway or a relay then belongs to the machine that used it: it goes on
    /// connecting that machine, with the key that it had, and no other.
    One,
    /// Until it expires or is revoked.
    Many,
}

/// The use of a token that has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUse {
    /// The time.
    pub at: Timestamp,
    /// The machine that enrolled with it.
    pub machine: Option<MachineId>,
}

impl TokenScope {
    /// The kind of the token.
    pub const fn kind(&self) -> TokenKind {
        match self {
            Self::Setup => TokenKind::Setup,
            Self::Api { .. } => TokenKind::Api,
            Self::Client { .. } => TokenKind::Client,
            Self::Gateway { .. } => TokenKind::Gateway,
            Self::Relay => TokenKind::Relay,
            Self::Session { .. } => TokenKind::Session,
        }
    }

    /// As whom it acts.
    pub const fn actor(&self) -> Option<ActorId> {
        match self {
            Self::Api { actor, .. } | Self::Client { actor } | Self::Session { actor } => {
                Some(*actor)
            }
            Self::Setup | Self::Gateway { .. } | Self::Relay => None,
        }
    }

    /// The site whose gateways it connects.
    pub const fn site(&self) -> Option<SiteId> {
        match self {
            Self::Gateway { site } => Some(*site),
            Self::Setup
            | Self::Api { .. }
            | Self::Client { .. }
            | Self::Relay
            | Self::Session { .. } => None,
        }
    }

    /// Its role with the API, if the token itself says so.
    pub const fn role(&self) -> Option<Role> {
        match self {
            Self::Api { role, .. } => Some(*role),
            Self::Setup
            | Self::Client { .. }
            | Self::Gateway { .. }
            | Self::Relay
            | Self::Session { .. } => None,
        }
    }
}
