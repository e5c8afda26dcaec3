//! Verifiers of passwords. They are read for nothing but a check.

use super::connection::Transaction;
use super::writing::Writing;
use super::{list, read};
use culvert_ids::{AccountId, ActorId};
use culvert_store::rules::spelled_key;
use culvert_store::{
    Actor, Denial, Entity, EntityId, EntityKind, Kind, MAX_SECRET_LEN, Role, SecretBytes, SignIn,
    StoreError,
};

/// The person who signs in under the name, and the verifier of the password; nobody who is
/// disabled.
pub(super) async fn find(
    connection: &mut Transaction,
    account: AccountId,
    name: &str,
) -> Result<Option<(ActorId, SecretBytes)>, StoreError> {
    read::last_seq(connection, account).await?;
    let mut sql = "SELECT actor.id AS id, verifier FROM actor JOIN password \
                   ON password.account = actor.account AND password.actor_id = actor.id \
                   WHERE actor.account = ? AND actor.disabled = 0"
        .to_owned();
    let mut values = vec![account.as_bytes().into()];
    list::add_name(&mut sql, &mut values, name);
    // Of two from before names had one form, the one whose name is spelled so.
    sql.push_str(" ORDER BY name_key = ? DESC LIMIT 1");
    values.push(spelled_key(name).into());
    let row = connection.fetch_one(sql, values).await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let verifier: Vec<u8> = row.columns().get("verifier")?;
    let id = EntityId::from_bytes(EntityKind::Actor, row.columns().bytes("id")?);
    match id {
        EntityId::Actor(id) => Ok(Some((id, SecretBytes::new(verifier)))),
        _ => Err(StoreError::corrupt("an actor that is none")),
    }
}

/// The verifier of an actor's password.
pub(super) async fn of(
    connection: &mut Transaction,
    account: AccountId,
    actor: ActorId,
) -> Result<Option<SecretBytes>, StoreError> {
    let sql = "SELECT verifier FROM password WHERE account = ? AND actor_id = ?";
    let values = vec![account.as_bytes().into(), actor.as_bytes().into()];
    let row = connection.fetch_one(sql, values).await?;
    row.map(|row| row.columns().get("verifier").map(SecretBytes::new))
        .transpose()
}

impl Writing {
    pub(super) async fn set_password(
        &mut self,
        actor: ActorId,
        role: Option<Role>,
        verifier: &SecretBytes,
        expected_version: Option<u64>,
    ) -> Result<(), StoreError> {
        if verifier.expose().len() > MAX_SECRET_LEN {
            return Err(StoreError::TooMany {
                what: "bytes of a secret",
                limit: MAX_SECRET_LEN as u64,
            });
        }
        let before = self.current(actor.into(), expected_version).await?;
        let Some(mut after) = Actor::from_entity(before.clone()) else {
            return Err(StoreError::NotFound(actor.into()));
        };
        let role = role.or(after.sign_in.map(|was| was.role));
        let role = role.ok_or(Denial::Revoked)?;
        // A second factor stays: who sets a password does not thereby get past it.
        after.sign_in = Some(SignIn {
            role,
            password_set: Some(self.at()),
            second_factor: after.sign_in.and_then(|was| was.second_factor),
            recovery_codes: after.sign_in.map_or(0, |was| was.recovery_codes),
            passkeys: after.sign_in.map_or(0, |was| was.passkeys),
            invitation_ends: None,
        });
        self.replace(before, Entity::Actor(after)).await?;
        self.forget_invitation(actor).await?;
        let sql = "INSERT INTO password (account, actor_id, verifier) VALUES (?, ?, ?) \
                   ON CONFLICT (account, actor_id) DO UPDATE SET verifier = excluded.verifier";
        let values = vec![
            self.account().as_bytes().into(),
            actor.as_bytes().into(),
            verifier.expose().into(),
        ];
        self.execute(sql, values).await?;
        Ok(())
    }
}
