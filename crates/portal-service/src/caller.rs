//! The caller of a request, after authentication.

use super::Service;
use culvert_ids::{AccountId, ActorId, TokenId};
use culvert_portal_base::{Connection, Fault, now};
use culvert_store::{Author, Denial, Holder, Principal, Role, StoreError};
use culvert_wire::token::{Token, TokenKind};
use std::sync::Arc;

/// An authenticated caller. There is no other way to one than [`Service::authenticate`] and
/// [`Service::resume`].
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    principal: Principal,
    role: Role,
    /// Must get a second factor before anything else.
    must_enrol: bool,
}

impl Caller {
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

impl Service {
    /// Authenticates the holder of an API token. Tokens of clients and gateways are refused. No
    /// second factor is asked for: the person who made the token had to have one, and an API token does
    /// not begin a session.
    pub async fn authenticate(&self, bearer: &str) -> Result<Caller, Fault> {
        let caller = self.identify(bearer, TokenKind::Api).await?;
        self.note_use(&caller);
        Ok(caller)
    }

    /// Authenticates the session that a browser presents.
    pub async fn resume(&self, session: &str) -> Result<Caller, Fault> {
        let caller = self.resume_unused(session).await?;
        self.note_use(&caller);
        Ok(caller)
    }

    /// The same, for what a page asks by itself: nobody uses the session by it, and it does not stay
    /// alive for it.
    pub async fn resume_unused(&self, session: &str) -> Result<Caller, Fault> {
        let mut caller = self.identify(session, TokenKind::Session).await?;
        caller.must_enrol = self.lacks_factor(&caller).await?;
        Ok(caller)
    }

    /// Refuses a caller whose token is no longer accepted, or has a lesser role by now: asked again by
    /// what lasts longer than its request.
    pub(super) async fn check_again(&self, caller: &Caller) -> Result<(), Fault> {
        let standing = self.store.standing(caller.account(), caller.token(), now());
        match self.ask("standing", standing).await?.holder.role() {
            Some(role) if role >= caller.role() => Ok(()),
            _ => Err(StoreError::from(Denial::LesserRole).into()),
        }
    }

    fn note_use(&self, caller: &Caller) {
        let principal = &caller.principal;
        self.touched.note(principal.account, principal.token, now());
    }

    async fn identify(&self, bearer: &str, kind: TokenKind) -> Result<Caller, Fault> {
        let denied = |cause: &str| {
            self.metrics.denied_tokens.inc();
            tracing::info!(%kind, cause, "a token was not accepted");
            Fault::Unauthenticated
        };
        let token = Token::parse_as(bearer, kind)
            .map_err(|_| denied("no token of the kind by its form"))?
            .bearer;
        let digest = token.secret.digest();
        let principal = self.store.authenticate(token.id, &digest, kind, now());
        let principal = match self.ask("authenticate", principal).await {
            Ok(principal) => principal,
            Err(StoreError::Denied(denial)) => return Err(denied(denial.cause())),
            Err(error) => return Err(error.into()),
        };
        let (Holder::Api { role, .. } | Holder::Session { role, .. }) = principal.holder else {
            return Err(denied("token of another kind"));
        };
        Ok(Caller {
            principal,
            role,
            must_enrol: false,
        })
    }
}

fn own_devices_only() -> Fault {
    Fault::Forbidden(
        "the role `user` sees and gives up its own clients, and nothing else".to_owned(),
    )
}
