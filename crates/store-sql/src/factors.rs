//! Secrets by which second factors are checked. They are read for nothing but a check.

use super::connection::Transaction;
use super::read;
use super::secrets::stored;
use super::shown::Part;
use super::value::Value;
use super::writing::Writing;
use crate::sealing::{Sealing, SecretColumn, SecretRow};
use culvert_ids::{AccountId, ActorId};
use culvert_store::{
    Actor, Denial, Entity, FactorChange, Kind, MAX_RECOVERY_CODES, SecretBytes, SignIn, StoreError,
};
use culvert_wire::token::SecretDigest;

/// The secret of a person's codes; none if they have no authenticator app.
pub(super) async fn totp_secret(
    connection: &mut Transaction,
    sealing: &Sealing,
    account: AccountId,
    actor: ActorId,
) -> Result<Option<SecretBytes>, StoreError> {
    read::last_seq(connection, account).await?;
    let sql = "SELECT secret FROM totp WHERE account = ? AND actor_id = ?";
    let values = vec![account.as_bytes().into(), actor.as_bytes().into()];
    let row = SecretRow::of(SecretColumn::Totp, &account, actor.as_bytes());
    let stored = stored(connection, sql, values).await?;
    stored.map(|stored| sealing.open(&row, stored)).transpose()
}

impl Writing {
    pub(super) async fn change_factor(
        &mut self,
        actor: ActorId,
        change: FactorChange,
    ) -> Result<(), StoreError> {
        let before = self.current(actor.into(), None).await?;
        let sign_in = match &before {
            Entity::Actor(actor) => actor.sign_in,
            _ => None,
        };
        let Some(sign_in) = sign_in else {
            return Err(StoreError::NotFound(actor.into()));
        };
        let after = match change {
            FactorChange::UseStep { secret, step } => {
                return self.use_step(actor, &secret, step).await;
            }
            FactorChange::UseCode(digest) => {
                self.use_code(actor, &digest).await?;
                SignIn {
                    recovery_codes: sign_in.recovery_codes.saturating_sub(1),
                    ..sign_in
                }
            }
            FactorChange::Set {
                secret,
                step,
                codes,
            } => {
                self.set_totp(actor, &secret, step).await?;
                SignIn {
                    second_factor: Some(self.at()),
                    recovery_codes: self.set_codes(actor, &codes).await?,
                    ..sign_in
                }
            }
            FactorChange::NewCodes(codes) => {
                if !sign_in.has_second_factor() {
                    return Err(StoreError::NotFound(actor.into()));
                }
                SignIn {
                    recovery_codes: self.set_codes(actor, &codes).await?,
                    ..sign_in
                }
            }
            FactorChange::RemoveApp => {
                self.remove_from("totp", actor).await?;
                let left = SignIn {
                    second_factor: None,
                    ..sign_in
                };
                self.without_useless_codes(actor, left).await?
            }
            FactorChange::AddPasskey { passkey, codes } => {
                let passkeys = self.add_passkey(actor, sign_in.passkeys, &passkey).await?;
                let recovery_codes = match sign_in.has_second_factor() {
                    true => sign_in.recovery_codes,
                    false => self.set_codes(actor, &codes).await?,
                };
                SignIn {
                    passkeys,
                    recovery_codes,
                    ..sign_in
                }
            }
            FactorChange::RemovePasskey(credential) => {
                self.remove_passkey(actor, &credential).await?;
                let left = SignIn {
                    passkeys: sign_in.passkeys.saturating_sub(1),
                    ..sign_in
                };
                self.without_useless_codes(actor, left).await?
            }
            FactorChange::RemoveAll => {
                self.remove_from("totp", actor).await?;
                self.remove_from("passkey", actor).await?;
                let left = SignIn {
                    second_factor: None,
                    passkeys: 0,
                    ..sign_in
                };
                self.without_useless_codes(actor, left).await?
            }
            FactorChange::RenamePasskey { credential, name } => {
                return self.rename_passkey(actor, &credential, &name).await;
            }
            FactorChange::UsePasskey { credential, uses } => {
                return self.use_passkey(actor, &credential, uses).await;
            }
        };
        let Some(row) = Actor::from_entity(before.clone()) else {
            return Err(StoreError::NotFound(actor.into()));
        };
        if sign_in == after {
            return Ok(());
        }
        let row = Actor {
            sign_in: Some(after),
            ..row
        };
        self.replace(before, row.into()).await?;
        Ok(())
    }

    fn person(&self, actor: ActorId) -> Vec<Value> {
        vec![self.account().as_bytes().into(), actor.as_bytes().into()]
    }

    async fn remove_from(&mut self, table: &str, actor: ActorId) -> Result<(), StoreError> {
        let sql = format!("DELETE FROM {table} WHERE account = ? AND actor_id = ?");
        let values = self.person(actor);
        self.execute(&sql, values).await?;
        Ok(())
    }

    /// Recovery codes stand in for a factor: where there is none left they go.
    async fn without_useless_codes(
        &mut self,
        actor: ActorId,
        sign_in: SignIn,
    ) -> Result<SignIn, StoreError> {
        if sign_in.has_second_factor() {
            return Ok(sign_in);
        }
        Ok(SignIn {
            recovery_codes: self.set_codes(actor, &[]).await?,
            ..sign_in
        })
    }

    async fn set_totp(
        &mut self,
        actor: ActorId,
        secret: &SecretBytes,
        step: u64,
    ) -> Result<(), StoreError> {
        let account = self.account();
        let row = SecretRow::of(SecretColumn::Totp, &account, actor.as_bytes());
        let sealed = Value::Blob(self.sealing().seal(&row, secret)?);
        let sql = "INSERT INTO totp (account, actor_id, secret, last_step) VALUES (?, ?, ?, ?) \
                   ON CONFLICT (account, actor_id) DO UPDATE \
                   SET secret = excluded.secret, last_step = excluded.last_step";
        let mut values = self.person(actor);
        values.extend([sealed, step.into()]);
        self.execute(sql, values).await?;
        Ok(())
    }

    /// Replaces all codes. Returns how many there are.
    async fn set_codes(
        &mut self,
        actor: ActorId,
        codes: &[SecretDigest],
    ) -> Result<u32, StoreError> {
        if codes.len() > MAX_RECOVERY_CODES {
            return Err(StoreError::TooMany {
                what: "recovery codes",
                limit: MAX_RECOVERY_CODES as u64,
            });
        }
        let sql = "DELETE FROM recovery_code WHERE account = ? AND actor_id = ?";
        let values = self.person(actor);
        self.execute(sql, values).await?;
        for code in codes {
            let sql = "INSERT INTO recovery_code (account, actor_id, digest) VALUES (?, ?, ?)";
            let mut values = self.person(actor);
            values.push(code.as_bytes().as_slice().into());
            self.execute(sql, values).await?;
        }
        Ok(u32::try_from(codes.len()).unwrap_or(u32::MAX))
    }

    /// The transaction has the writer: of several who use one code, one comes first.
    async fn use_step(
        &mut self,
        actor: ActorId,
        shown: &SecretBytes,
        step: u64,
    ) -> Result<(), StoreError> {
        let account = self.account();
        let sealing = self.sealing().clone();
        let secret = totp_secret(self.connection().await?, &sealing, account, actor).await?;
        if secret.as_ref() != Some(shown) {
            return Err(Denial::WrongSecret.into());
        }
        let sql = "UPDATE totp SET last_step = ? \
                   WHERE account = ? AND actor_id = ? AND last_step < ?";
        let mut values = vec![step.into()];
        values.extend(self.person(actor));
        values.push(step.into());
        match self.execute(sql, values).await? {
            0 => Err(Denial::Used.into()),
            _ => {
                self.shown().add(actor, Part::Code);
                Ok(())
            }
        }
    }

    /// Codes are found by their digests: how long that takes says something of digests alone, and codes
    /// have 80 random bits.
    async fn use_code(&mut self, actor: ActorId, code: &SecretDigest) -> Result<(), StoreError> {
        let sql = "DELETE FROM recovery_code WHERE account = ? AND actor_id = ? AND digest = ?";
        let mut values = self.person(actor);
        values.push(code.as_bytes().as_slice().into());
        match self.execute(sql, values).await? {
            0 => Err(Denial::WrongSecret.into()),
            _ => {
                self.shown().add(actor, Part::Code);
                Ok(())
            }
        }
    }
}
