//! A write begins a session, or renews the proof of one, only by a proof that still holds.

use super::passwords;
use super::read;
use super::shown::Part;
use super::writing::Writing;
use super::{auth, table};
use culvert_ids::{ActorId, TokenId};
use culvert_store::{
    Denial, EntityId, Identity, Kind, Proof, Provider, StoreError, Token, TokenScope,
};
use culvert_wire::Timestamp;

impl Writing {
    pub(super) async fn prove(&mut self, actor: ActorId, by: Proof) -> Result<(), StoreError> {
        let account = self.account();
        let part = match by {
            Proof::Password(shown) => {
                let now = passwords::of(self.connection().await?, account, actor).await?;
                if now != Some(shown) {
                    return Err(Denial::WrongSecret.into());
                }
                Part::Password
            }
            Proof::Identity { id, at } => {
                self.check_identity(actor, id.into()).await?;
                // A clock that is ahead makes no proof last longer.
                Part::Identity(at.map(|at| at.min(self.at())))
            }
        };
        self.shown().add(actor, part);
        Ok(())
    }

    /// The identity is still the person's, and its provider lets people in.
    async fn check_identity(&mut self, actor: ActorId, id: EntityId) -> Result<(), StoreError> {
        let account = self.account();
        let found = read::find(self.connection().await?, account, id).await?;
        let identity = found.and_then(Identity::from_entity);
        let identity = identity.filter(|identity| identity.actor == actor);
        let identity = identity.ok_or(Denial::Revoked)?;
        let provider =
            read::get(self.connection().await?, account, identity.provider.into()).await?;
        match Provider::from_entity(provider) {
            Some(provider) if !provider.disabled => Ok(()),
            Some(_) | None => Err(Denial::Revoked.into()),
        }
    }

    /// Refuses a write that has not shown by now that it is the person, with all factors that the person has by now. Says
    /// when the person was proven, where that is known.
    async fn check_proven(&mut self, actor: ActorId) -> Result<Option<Timestamp>, StoreError> {
        let at = self.at();
        let account = self.account();
        let row = match auth::enabled(self.connection().await?, account, actor).await {
            Err(StoreError::NotFound(_)) => return Err(Denial::Revoked.into()),
            row => row?,
        };
        let sign_in = row.sign_in.ok_or(Denial::Revoked)?;
        let shown = self.shown();
        let by_password = shown.has(actor, Part::Password)
            && (shown.has(actor, Part::Code) || !sign_in.has_second_factor());
        if by_password || shown.has(actor, Part::Passkey) {
            return Ok(Some(at));
        }
        Ok(shown.identity(actor).ok_or(Denial::Unproven)?)
    }

    /// The time of the last proof of a new session's person: now, if the session is the author of the write that makes it;
    /// where another session makes it, when that one was.
    pub(super) async fn proof_of_new(
        &mut self,
        token: &Token,
    ) -> Result<Option<Timestamp>, StoreError> {
        let TokenScope::Session { actor } = token.scope else {
            return Ok(None);
        };
        match self.author().token {
            // The portal itself, which asks nobody.
            None => Ok(Some(self.at())),
            Some(author) if author == token.id => self.check_proven(actor).await,
            Some(author) => {
                let before = self.session(author).await?;
                match before.scope == token.scope {
                    true => Ok(before.proven),
                    false => Err(Denial::WrongKind.into()),
                }
            }
        }
    }

    /// Notes that the person of the session has been proven. It is no configuration: nothing is recorded.
    pub(super) async fn renew_proof(&mut self, id: TokenId) -> Result<(), StoreError> {
        let session = self.session(id).await?;
        let TokenScope::Session { actor } = session.scope else {
            return Err(Denial::WrongKind.into());
        };
        let proven = self.check_proven(actor).await?;
        let proven = proven.ok_or(Denial::Unproven)?;
        let sql = format!(
            "UPDATE {} SET proven_ms = ? WHERE account = ? AND id = ?",
            table::table(EntityId::from(id).kind())
        );
        let values = vec![
            proven.into(),
            self.account().as_bytes().into(),
            id.as_bytes().into(),
        ];
        self.execute(sql, values).await?;
        Ok(())
    }

    async fn session(&mut self, id: TokenId) -> Result<Token, StoreError> {
        let account = self.account();
        let found = read::find(self.connection().await?, account, id.into()).await?;
        Ok(found
            .and_then(Token::from_entity)
            .ok_or(Denial::UnknownToken)?)
    }
}
