//! Changes of the configuration: what is asked for, and what was recorded.

use crate::{
    Entity, EntityId, EntityKind, FactorChange, Proof, Role, SearchText, SecretBytes, Token,
};
use culvert_ids::{AccountId, ActorId, ProviderId, TokenId};
use culvert_wire::Timestamp;
use culvert_wire::token::SecretDigest;
use serde::{Deserialize, Serialize};

/// A change that is asked for.
#[derive(Clone, Debug)]
pub enum Mutation {
    /// A new row. Not of an account, a token, a client, a gateway or a relay, which come into being otherwise.
    Create(Entity),
    /// A new token, with the digest of its secret.
    CreateToken {
        /// The token.
        token: Token,
        /// The digest, which never leaves the store again.
        digest: SecretDigest,
    },
    /// From now on the actor signs in with this password and this role. An earlier password is
    /// void.
    SetPassword {
        /// The actor.
        actor: ActorId,
        /// Its new role. Without one, the role stays, and an actor that no longer signs in stays
        /// so.
        role: Option<Role>,
        /// The verifier of the password; it is never in the change log.
        verifier: SecretBytes,
        /// The version of the actor that the asker has seen; without one, whatever it is now.
        expected_version: Option<u64>,
    },
    /// A link with this secret lets the person set a password, once. An earlier link is void. The person
    /// signs in with this role from now on.
    Invite {
        /// The actor.
        actor: ActorId,
        /// Its new role. Without one, the role stays. An actor that does not sign in becomes a user, and is refused that
        /// if they have API tokens of a higher role.
        role: Option<Role>,
        /// The digest, which never leaves the store again.
        digest: SecretDigest,
        /// The first instant at which the link is no longer accepted.
        ends: Timestamp,
        /// The version of the actor that the asker has seen; without one, whatever it is now.
        expected_version: Option<u64>,
    },
    /// Uses up the person's link, and ends their sessions. It is denied where the link has another secret or
    /// has ended, or the actor is disabled or no longer signs in.
    UseInvitation {
        /// The actor.
        actor: ActorId,
        /// The digest of the secret that was shown.
        digest: SecretDigest,
        /// The verifier of the password that the person chose; it is never in the change log.
        verifier: SecretBytes,
    },
    /// The portal has this secret at the provider from now on.
    SetProviderSecret {
        /// The provider.
        provider: ProviderId,
        /// The secret; it is never in the change log.
        secret: SecretBytes,
    },
    /// A change of how a person who signs in with a password proves the rest.
    ChangeFactor {
        /// The actor.
        actor: ActorId,
        /// The change.
        change: FactorChange,
    },
    /// Refuses the write unless this still proves who the person is. It changes nothing.
    ///
    /// A session that is the author of the write that makes it needs such a proof before it.
    Prove {
        /// The actor.
        actor: ActorId,
        /// The proof.
        by: Proof,
    },
    /// Notes in the session when its person was proven by what comes before it in the same write. It is no configuration:
    /// nothing is recorded.
    RenewProof {
        /// The session.
        session: TokenId,
    },
    /// Refuses the write unless the row is at this version: what the asker concluded from the row holds until the commit.
    /// It changes nothing.
    Expect {
        /// The row.
        id: EntityId,
        /// The version that the asker has seen.
        version: u64,
    },
    /// The sessions that the actor has at the write end.
    EndSessions {
        /// The actor.
        actor: ActorId,
        /// The session that goes on.
        except: Option<TokenId>,
    },
    /// Sessions of the actor end: those that are over at the write, and of the others all but the newest.
    EndOldSessions {
        /// The actor.
        actor: ActorId,
        /// The number of sessions that go on.
        keep: usize,
    },
    /// The identity is to go, or the provider with all identities that it knows by then. The memberships that they made
    /// go along, and the sessions of their actors end: nobody can say which of them they began.
    Unlink {
        /// An identity or a provider.
        id: EntityId,
        /// The version that the asker has seen; without one, whatever it is now.
        expected_version: Option<u64>,
        /// The session that goes on.
        except: Option<TokenId>,
    },
    /// A log sink of this name begins at the ends of the logs, whatever another one of the name left behind.
    BeginSink {
        /// Its name.
        sink: String,
        /// The secret by which it is let in; it is never in the change log.
        secret: Option<SecretBytes>,
    },
    /// A log sink is let in by this secret from now on, or by none.
    SetSinkSecret {
        /// Its name.
        sink: String,
        /// The secret; it is never in the change log.
        secret: Option<SecretBytes>,
    },
    /// The places and the secret of a log sink are forgotten.
    ForgetSink {
        /// Its name.
        sink: String,
    },
    /// The row is to be like this. If it is already, nothing changes and nothing is recorded.
    Update {
        /// The whole row; its stamp is ignored.
        entity: Entity,
        /// The version that the asker has seen; without one, whatever it is now.
        expected_version: Option<u64>,
    },
    /// The row is to go. Memberships and policies of a group, policies of a resource and memberships
    /// of an actor go along, each as a change of its own.
    Delete {
        /// The row.
        id: EntityId,
        /// The version that the asker has seen; without one, whatever it is now.
        expected_version: Option<u64>,
        /// A site's resources, gateways and tokens and an actor's clients and tokens go along too;
        /// otherwise the deletion is refused while there are any.
        cascade: bool,
    },
}

/// The author of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The actor; none where the portal itself or a site's machine did it.
    pub actor: Option<ActorId>,
    /// The token that was presented.
    pub token: Option<TokenId>,
    /// The role by which the write was permitted. A token that no longer has it writes nothing. The
    /// change log does not keep it.
    #[serde(skip)]
    pub role: Option<Role>,
}

impl Author {
    /// The portal itself, or who runs it.
    pub const PORTAL: Self = Self {
        actor: None,
        token: None,
        role: None,
    };

    /// As the change log names it.
    pub const fn logged(self) -> Self {
        Self { role: None, ..self }
    }
}

/// A change's place in the change log of its account: 1, 2, 3…; 0 is before the first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

/// The operation on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// It came into being.
    Create,
    /// It changed.
    Update,
    /// It is gone.
    Delete,
}

/// A change that was made: an entry of the change log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Its place.
    pub seq: Seq,
    /// The number of changes right before it that a feed left out: they are of kinds that this version does not know. 0
    /// elsewhere.
    #[serde(skip)]
    pub skipped: u64,
    /// The account whose configuration changed.
    pub account: AccountId,
    /// The time of the change.
    pub at: Timestamp,
    /// The author of the change.
    pub author: Author,
    /// The operation.
    pub operation: Operation,
    /// To which row.
    pub id: EntityId,
    /// The row as it was; none for [`Operation::Create`].
    pub before: Option<Entity>,
    /// The row as it is; none for [`Operation::Delete`].
    pub after: Option<Entity>,
}

/// The filter of changes; all conditions that are given must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeFilter {
    /// To rows of this kind.
    pub kind: Option<EntityKind>,
    /// To this row.
    pub id: Option<EntityId>,
    /// By this actor.
    pub actor: Option<ActorId>,
    /// Not before.
    pub from: Option<Timestamp>,
    /// Before.
    pub until: Option<Timestamp>,
    /// With a larger place than this.
    pub after: Option<Seq>,
    /// With this in a value of the row, in its name or in that of who did it, or with this id.
    pub search: Option<SearchText>,
}

impl Operation {
    /// The word of the database and of the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

impl std::fmt::Display for Seq {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(out)
    }
}
