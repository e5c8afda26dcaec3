//! Who asks, once that is proven.

use super::{Service, now};
use crate::fault::Fault;
use culvert_ids::AccountId;
use culvert_store::{Author, Holder, Principal, Role, StoreError};
use culvert_wire::token::{Token, TokenKind};

/// Who asks. There is no other way to one than [`Service::authenticate`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    principal: Principal,
    role: Role,
}

impl Caller {
    pub(crate) const fn account(&self) -> AccountId {
        self.principal.account
    }

    pub(super) const fn author(&self) -> Author {
        self.principal.author()
    }

    /// May change the configuration, but for what is the owners'.
    pub(super) fn may_change(&self) -> Result<(), Fault> {
        match self.role {
            Role::Admin | Role::Owner => Ok(()),
            Role::Auditor => Err(Fault::Forbidden(
                "a token of the role `auditor` reads and changes nothing".to_owned(),
            )),
        }
    }

    pub(super) const fn is_owner(&self) -> bool {
        matches!(self.role, Role::Owner)
    }

    /// May change what belongs to owners.
    pub(super) fn may_change_owners(&self) -> Result<(), Fault> {
        self.may_change()?;
        match self.role {
            Role::Owner => Ok(()),
            Role::Admin | Role::Auditor => Err(Fault::Forbidden(
                "owners and their tokens are changed by owners alone".to_owned(),
            )),
        }
    }
}

impl Service {
    /// Who presents the token. Tokens of clients and gateways are nobody here.
    pub(crate) async fn authenticate(&self, bearer: &str) -> Result<Caller, Fault> {
        let denied = |cause: &str| {
            self.metrics.denied_tokens.inc();
            tracing::info!(cause, "a token was not accepted");
            Fault::Unauthenticated
        };
        let token = Token::parse_as(bearer, TokenKind::Api)
            .map_err(|_| denied("no API token by its form"))?
            .bearer;
        let digest = token.secret.digest();
        let principal = self
            .store
            .authenticate(token.id, &digest, TokenKind::Api, now());
        let principal = match self.ask("authenticate", principal).await {
            Ok(principal) => principal,
            Err(StoreError::Denied(denial)) => return Err(denied(denial.cause())),
            Err(error) => return Err(error.into()),
        };
        let Holder::Api { role, .. } = principal.holder else {
            return Err(denied("token of another kind"));
        };
        self.touched.note(principal.account, principal.token, now());
        Ok(Caller { principal, role })
    }
}
