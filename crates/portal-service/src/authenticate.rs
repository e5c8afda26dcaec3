//! Authentication: the caller behind a token or a session.

use super::{Caller, Service};
use culvert_ids::ActorId;
use culvert_portal_base::{Fault, now};
use culvert_store::{self as store, Denial, Holder, StoreError, TokenScope};
use culvert_wire::token::{Token, TokenKind};

/// A session whose time is over, presented with its secret. It permits nothing.
#[derive(Clone, Copy, Debug)]
pub struct EndedSession {
    pub(super) actor: ActorId,
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
        let caller = self.identify(session, TokenKind::Session).await?;
        let must_enrol = self.lacks_factor(&caller).await?;
        Ok(caller.with_must_enrol(must_enrol))
    }

    /// Refuses a caller whose token is no longer accepted, or has a lesser role by now: asked again by
    /// what lasts longer than its request.
    pub(super) async fn check_again(&self, caller: &Caller) -> Result<(), Fault> {
        let current =
            self.database
                .store
                .current_principal(caller.account(), caller.token(), now());
        match self
            .database
            .ask("current_principal", current)
            .await?
            .holder
            .role()
        {
            Some(role) if role >= caller.role() => Ok(()),
            _ => Err(StoreError::from(Denial::LesserRole).into()),
        }
    }

    /// Finds whose session this was, if its time is over. A session that somebody ended is gone, and says nothing.
    pub async fn ended_session(&self, session: &str) -> Result<Option<EndedSession>, Fault> {
        let kind = TokenKind::Session;
        let Ok(token) = Token::parse_as(session, kind) else {
            return Ok(None);
        };
        let (id, digest) = (token.bearer.id, token.bearer.secret.digest());
        let principal = self.database.store.authenticate(id, &digest, kind, now());
        match self.database.ask("authenticate", principal).await {
            // The secret is checked before the time.
            Err(StoreError::Denied(Denial::Expired)) => {}
            Ok(_) | Err(StoreError::Denied(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let row: Result<store::Token, _> = self.database.get(self.served.account, id).await;
        match row.map(|row| row.scope) {
            Ok(TokenScope::Session { actor }) => Ok(Some(EndedSession { actor })),
            Ok(_) | Err(StoreError::NotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn note_use(&self, caller: &Caller) {
        self.touched.note(caller.account(), caller.token(), now());
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
        let principal = self
            .database
            .store
            .authenticate(token.id, &digest, kind, now());
        let principal = match self.database.ask("authenticate", principal).await {
            Ok(principal) => principal,
            Err(StoreError::Denied(denial)) => return Err(denied(denial.cause())),
            Err(error) => return Err(error.into()),
        };
        let (Holder::Api { role, .. } | Holder::Session { role, .. }) = principal.holder else {
            return Err(denied("token of another kind"));
        };
        Ok(Caller::new(principal, role))
    }

    /// Notes when tokens were last used. It matters to nobody at once: an error is just logged.
    pub async fn note_uses(&self) {
        self.touched.write(&self.database).await;
    }
}
