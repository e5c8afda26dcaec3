//! The principal that a token stands for.

use crate::{ActorKind, Author, Role};
use culvert_ids::{AccountId, ActorId, SiteId, TokenId};
use culvert_wire::Timestamp;
use culvert_wire::token::TokenKind;

/// The holder and the account of an accepted token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The account.
    pub account: AccountId,
    /// The token.
    pub token: TokenId,
    /// Its holder.
    pub holder: Holder,
    /// The first instant at which the token is no longer accepted.
    pub expires: Option<Timestamp>,
}

/// The holder of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Nobody's: it makes the first administrator.
    Setup,
    /// An actor's, to use the API.
    Api {
        /// As whom.
        actor: ActorId,
        /// The actor's kind.
        actor_kind: ActorKind,
        /// Its role: no more than the actor's, if the actor signs in.
        role: Role,
    },
    /// An actor's, to connect clients.
    Client {
        /// The actor.
        actor: ActorId,
        /// The actor's kind.
        actor_kind: ActorKind,
    },
    /// A browser's, in which an actor signed in.
    Session {
        /// The actor.
        actor: ActorId,
        /// The actor's kind.
        actor_kind: ActorKind,
        /// Its role.
        role: Role,
    },
    /// A site's, to connect gateways.
    Gateway {
        /// The site.
        site: SiteId,
    },
    /// The account's, to connect relays.
    Relay,
}

/// An actor who is an owner, once for each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The actor.
    pub actor: ActorId,
    /// A disabled actor does not come in.
    pub disabled: bool,
    /// The way.
    pub by: OwnerBy,
}

/// The way by which an actor is an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerBy {
    /// By signing in.
    SignIn {
        /// With a password: the only way that nobody else can close, as a provider can.
        has_password: bool,
    },
    /// By an owner's API token that is neither revoked nor expired.
    Token {
        /// The token.
        id: TokenId,
        /// The person signs in with a lesser role, and the token may do no more than the person.
        is_bounded: bool,
    },
}

impl Holder {
    /// The kind of the token.
    pub const fn kind(self) -> TokenKind {
        match self {
            Self::Setup => TokenKind::Setup,
            Self::Api { .. } => TokenKind::Api,
            Self::Client { .. } => TokenKind::Client,
            Self::Gateway { .. } => TokenKind::Gateway,
            Self::Relay => TokenKind::Relay,
            Self::Session { .. } => TokenKind::Session,
        }
    }

    /// The actor behind it.
    pub const fn actor(self) -> Option<ActorId> {
        match self {
            Self::Api { actor, .. } | Self::Client { actor, .. } | Self::Session { actor, .. } => {
                Some(actor)
            }
            Self::Setup | Self::Gateway { .. } | Self::Relay => None,
        }
    }

    /// The role that it has now with the configuration.
    pub const fn role(self) -> Option<Role> {
        match self {
            Self::Api { role, .. } | Self::Session { role, .. } => Some(role),
            Self::Setup | Self::Client { .. } | Self::Gateway { .. } | Self::Relay => None,
        }
    }
}

impl Principal {
    /// As the author of a change.
    pub const fn author(&self) -> Author {
        Author {
            actor: self.holder.actor(),
            token: Some(self.token),
            role: self.holder.role(),
        }
    }
}
