//! The caller of a request, after authentication.

use culvert_ids::{AccountId, ActorId, TokenId};
use culvert_portal_base::{Connection, Fault};
use culvert_store::{Author, Principal, Role};
use std::sync::Arc;

/// An authenticated caller. There is no other way to one than [`Service::authenticate`](super::Service::authenticate) and
/// [`Service::resume`](super::Service::resume).
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    principal: Principal,
    role: Role,
    /// Must get a second factor before anything else.
    must_enrol: bool,
}

impl Caller {
    pub(super) const fn new(principal: Principal, role: Role) -> Self {
        Self {
            principal,
            role,
            must_enrol: false,
        }
    }

    /// The same caller, who must get a second factor first if `must_enrol`.
    pub(super) const fn with_must_enrol(self, must_enrol: bool) -> Self {
        Self { must_enrol, ..self }
    }

    /// The account.
    pub(crate) const fn account(&self) -> AccountId {
        self.principal.account
    }

    pub(super) const fn author(&self) -> Author {
        self.principal.author()
    }

    /// May change the configuration, but for what is the owners'.
    pub fn may_change(&self) -> Result<(), Fault> {
        self.has_enrolled()?;
        match self.role {
            Role::Admin | Role::Owner => Ok(()),
            Role::Auditor => Err(Fault::Forbidden(
                "the role `auditor` reads and changes nothing".to_owned(),
            )),
            Role::User => Err(own_devices_only()),
        }
    }

    /// May read the configuration, what is live and the logs.
    pub fn may_read(&self) -> Result<(), Fault> {
        self.has_enrolled()?;
        match self.role {
            Role::Auditor | Role::Admin | Role::Owner => Ok(()),
            Role::User => Err(own_devices_only()),
        }
    }

    /// The actor whose clients it may see; none if it may see everybody's.
    pub(super) fn sees_clients_of(&self) -> Result<Option<ActorId>, Fault> {
        self.has_enrolled()?;
        match self.role {
            Role::Auditor | Role::Admin | Role::Owner => Ok(None),
            Role::User => self.actor().map(Some),
        }
    }

    /// True if the account requires the caller to set up a second factor before anything else.
    pub const fn must_enrol(&self) -> bool {
        self.must_enrol
    }

    /// Refuses who must get a second factor first.
    pub fn has_enrolled(&self) -> Result<(), Fault> {
        match self.must_enrol {
            false => Ok(()),
            true => Err(Fault::Forbidden(
                "a second factor is required first: set one up at `My sign-in`".to_owned(),
            )),
        }
    }

    /// Has the connection of the request count as the caller's rather than as a stranger's.
    pub fn note_connection(&self, connection: Option<&Arc<Connection>>) {
        if let (Some(connection), Some(actor)) = (connection, self.principal.holder.actor()) {
            connection.is_of(actor);
        }
    }

    /// The actor in whose name the caller acts.
    pub(super) fn actor(&self) -> Result<ActorId, Fault> {
        let actor = self.principal.holder.actor();
        actor.ok_or_else(|| Fault::internal("a caller who is no actor"))
    }

    /// By which token, or in which session.
    pub const fn token(&self) -> TokenId {
        self.principal.token
    }

    /// The role.
    pub const fn role(&self) -> Role {
        self.role
    }

    pub(super) const fn is_owner(&self) -> bool {
        matches!(self.role, Role::Owner)
    }

    /// May change what belongs to owners.
    pub(super) fn may_change_owners(&self) -> Result<(), Fault> {
        self.may_change()?;
        match self.role {
            Role::Owner => Ok(()),
            Role::Admin | Role::Auditor | Role::User => Err(Fault::Forbidden(
                "owners and their tokens are changed by owners alone".to_owned(),
            )),
        }
    }
}

fn own_devices_only() -> Fault {
    Fault::Forbidden(
        "the role `user` sees and gives up its own clients, and nothing else".to_owned(),
    )
}
