//! The holder of a token.

use super::connection::Transaction;
use super::read;
use super::writing::Writing;
use culvert_ids::{AccountId, ActorId, TokenId};
use culvert_store::{
    Actor, ActorKind, Author, Denial, Entity, EntityId, Holder, Kind, MachineId, Mutation,
    Principal, SESSION_IDLE_MS, StoreError, Token, TokenScope, TokenUse, TokenUses,
};
use culvert_wire::Timestamp;
use culvert_wire::token::{SecretDigest, TokenKind};

/// Checks the secret before anything else, so that only who has it learns from the time that the
/// answer takes.
pub(super) async fn authenticate(
    connection: &mut Transaction,
    token: TokenId,
    digest: &SecretDigest,
    kind: TokenKind,
    now: Timestamp,
) -> Result<(Principal, Token), StoreError> {
    let sql = "SELECT account, digest FROM token_digest WHERE id = ?";
    let row = connection
        .fetch_one(sql, vec![token.as_bytes().into()])
        .await?;
    let Some(row) = row else {
        return Err(Denial::UnknownToken.into());
    };
    let row = row.columns();
    if SecretDigest::from_bytes(row.bytes("digest")?) != *digest {
        return Err(Denial::WrongSecret.into());
    }
    let account = AccountId::from_bytes(row.bytes("account")?);
    let row = valid(connection, account, token, now).await?;
    // Before the actor is read: the portal tells more of a disabled actor than of all else that is wrong.
    if row.scope.kind() != kind {
        return Err(Denial::WrongKind.into());
    }
    let principal = principal(connection, account, &row, now).await?;
    Ok((principal, row))
}

/// The holder of a token, if it is still accepted. Its secret has been checked before.
pub(super) async fn current_principal(
    connection: &mut Transaction,
    account: AccountId,
    token: TokenId,
    now: Timestamp,
) -> Result<(Principal, Token), StoreError> {
    let row = valid(connection, account, token, now).await?;
    let principal = principal(connection, account, &row, now).await?;
    Ok((principal, row))
}

/// A token that is neither revoked nor expired.
async fn valid(
    connection: &mut Transaction,
    account: AccountId,
    token: TokenId,
    now: Timestamp,
) -> Result<Token, StoreError> {
    let found = read::find(connection, account, token.into()).await?;
    let Some(row) = found.and_then(Token::from_entity) else {
        return Err(Denial::UnknownToken.into());
    };
    if row.revoked.is_some() {
        return Err(Denial::Revoked.into());
    }
    if row.expires.is_some_and(|expires| expires <= now) {
        return Err(Denial::Expired.into());
    }
    Ok(row)
}

/// The holder of a valid token, if they are still accepted.
async fn principal(
    connection: &mut Transaction,
    account: AccountId,
    row: &Token,
    now: Timestamp,
) -> Result<Principal, StoreError> {
    let holder = match row.scope {
        TokenScope::Setup if row.used.is_some() => return Err(Denial::Used.into()),
        TokenScope::Setup => Holder::Setup,
        TokenScope::Api { actor, role } => {
            let found = enabled(connection, account, actor).await?;
            // A person's token may do no more than the person. Machines do not sign in.
            let role = found.sign_in.map_or(role, |person| role.min(person.role));
            Holder::Api {
                actor,
                actor_kind: found.kind,
                role,
            }
        }
        TokenScope::Client { actor } => Holder::Client {
            actor,
            actor_kind: actor_kind(connection, account, actor).await?,
        },
        TokenScope::Gateway { site } => Holder::Gateway { site },
        TokenScope::Session { actor } => session(connection, account, actor, row, now).await?,
    };
    Ok(Principal {
        account,
        token: row.id,
        holder,
        expires: row.expires,
    })
}

/// A session ends when nobody uses it, and when its actor no longer signs in.
async fn session(
    connection: &mut Transaction,
    account: AccountId,
    actor: ActorId,
    row: &Token,
    now: Timestamp,
) -> Result<Holder, StoreError> {
    let last_used = row.last_used.unwrap_or(row.stamp.created);
    if now.unix_ms().saturating_sub(last_used.unix_ms()) >= SESSION_IDLE_MS {
        return Err(Denial::Expired.into());
    }
    let found = enabled(connection, account, actor).await?;
    let Some(sign_in) = found.sign_in else {
        return Err(Denial::Revoked.into());
    };
    Ok(Holder::Session {
        actor,
        actor_kind: found.kind,
        role: sign_in.role,
    })
}

async fn actor_kind(
    connection: &mut Transaction,
    account: AccountId,
    id: ActorId,
) -> Result<ActorKind, StoreError> {
    Ok(enabled(connection, account, id).await?.kind)
}

pub(super) async fn enabled(
    connection: &mut Transaction,
    account: AccountId,
    id: ActorId,
) -> Result<Actor, StoreError> {
    let id = EntityId::from(id);
    let actor = Actor::from_entity(read::get(connection, account, id).await?);
    let actor = actor.ok_or(StoreError::NotFound(id))?;
    if actor.disabled {
        return Err(Denial::ActorDisabled(account).into());
    }
    Ok(actor)
}

/// Refuses a write whose author is no longer accepted. A request may wait long between the check of
/// its token and its write; the transaction has the writer, so that nothing comes between this check
/// and the commit. The token that begins a session is made by the very write that it is the author of, which
/// needs a proof of its person ([`super::proof`]).
pub(super) async fn check_author(
    writing: &mut Writing,
    author: Author,
    mutations: &[Mutation],
) -> Result<(), StoreError> {
    let Some(token) = author.token else {
        return Ok(());
    };
    let makes_it = |mutation: &Mutation| match mutation {
        Mutation::CreateToken { token: made, .. } => {
            made.id == token && matches!(made.scope, TokenScope::Session { .. })
        }
        _ => false,
    };
    if mutations.iter().any(makes_it) {
        return Ok(());
    }
    let (account, now) = (writing.account(), writing.at());
    check(writing.connection().await?, account, author, now).await
}

/// Refuses an author whose token is no longer accepted, or no longer has the role by which the write
/// was permitted. The portal itself has no token.
pub(super) async fn check(
    connection: &mut Transaction,
    account: AccountId,
    author: Author,
    now: Timestamp,
) -> Result<(), StoreError> {
    let Some(token) = author.token else {
        return Ok(());
    };
    let (principal, _) = current_principal(connection, account, token, now).await?;
    if principal.holder.actor() != author.actor {
        return Err(Denial::WrongKind.into());
    }
    // A role that is none is less than any.
    match author.role <= principal.holder.role() {
        true => Ok(()),
        false => Err(Denial::LesserRole.into()),
    }
}

/// Uses up a token that has one use. The row is written over only as it was read, and the
/// transaction has the writer: of several callers one comes first, and the others find it used.
pub(super) async fn consume(
    writing: &mut Writing,
    token: Token,
    machine: Option<MachineId>,
) -> Result<(), StoreError> {
    if token.uses != TokenUses::One || token.used.is_some() {
        return Err(Denial::Used.into());
    }
    let mut after = token.clone();
    after.used = Some(TokenUse {
        at: writing.at(),
        machine,
    });
    writing
        .replace(Entity::Token(token), Entity::Token(after))
        .await?;
    Ok(())
}
