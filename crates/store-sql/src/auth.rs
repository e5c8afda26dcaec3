//! The holder of a token.

use super::connection::Transaction;
use super::read;
use super::table::{aliased, read_joined};
use super::value::Columns;
use super::writing::Writing;
use culvert_ids::{AccountId, ActorId, TokenId};
use culvert_store::{
    Actor, Author, Denial, Entity, EntityKind, Holder, Kind, MachineId, Mutation, Principal,
    SESSION_IDLE_MS, StoreError, Token, TokenScope, TokenUse, TokenUses,
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
    let sql = format!(
        "SELECT d.account AS d_account, d.digest AS d_digest, {} FROM token_digest d \
         LEFT JOIN token t ON t.account = d.account AND t.id = d.id {ACTOR} WHERE d.id = ?",
        columns()
    );
    let row = connection
        .fetch_one(sql, vec![token.as_bytes().into()])
        .await?;
    let Some(row) = row else {
        return Err(Denial::UnknownToken.into());
    };
    let row = row.columns();
    if SecretDigest::from_bytes(row.of("d_").bytes("digest")?) != *digest {
        return Err(Denial::WrongSecret.into());
    }
    let account = AccountId::from_bytes(row.of("d_").bytes("account")?);
    let found = Found::read(row)?.valid(now)?;
    // Before the actor is looked at: the portal tells more of a disabled actor than of all else that is wrong.
    if found.token.scope.kind() != kind {
        return Err(Denial::WrongKind.into());
    }
    found.principal(account, now)
}

/// The holder of a token, if it is still accepted. Its secret has been checked before.
pub(super) async fn current_principal(
    connection: &mut Transaction,
    account: AccountId,
    token: TokenId,
    now: Timestamp,
) -> Result<(Principal, Token), StoreError> {
    let sql = format!(
        "SELECT {} FROM token t {ACTOR} WHERE t.account = ? AND t.id = ?",
        columns()
    );
    let values = vec![account.as_bytes().into(), token.as_bytes().into()];
    let row = connection.fetch_one(sql, values).await?;
    let row = row.ok_or(Denial::UnknownToken)?;
    let found = Found::read(row.columns())?;
    found.valid(now)?.principal(account, now)
}

/// Joins the actor of a token, if it has one.
pub(super) const ACTOR: &str = "LEFT JOIN actor a ON a.account = t.account AND a.id = t.actor_id";

/// The columns of a token and of its actor, in a statement that calls them `t` and `a`.
pub(super) fn columns() -> String {
    let (token, actor) = (EntityKind::Token, EntityKind::Actor);
    format!("{}, {}", aliased(token, "t"), aliased(actor, "a"))
}

/// A token and its actor, as one statement has read them.
pub(super) struct Found {
    token: Option<Token>,
    actor: Option<Actor>,
}

/// A token that is neither revoked nor expired, and its actor.
pub(super) struct Valid {
    token: Token,
    actor: Option<Actor>,
}

impl Found {
    /// Of a row with [`columns`].
    pub(super) fn read(row: Columns<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            token: read_joined(row.of("t_"))?,
            actor: read_joined(row.of("a_"))?,
        })
    }

    pub(super) fn valid(self, now: Timestamp) -> Result<Valid, StoreError> {
        let Self { token, actor } = self;
        let token = token.ok_or(Denial::UnknownToken)?;
        if token.revoked.is_some() {
            return Err(Denial::Revoked.into());
        }
        if token.expires.is_some_and(|expires| expires <= now) {
            return Err(Denial::Expired.into());
        }
        Ok(Valid { token, actor })
    }
}

impl Valid {
    /// The holder, if they are still accepted, and the token.
    pub(super) fn principal(
        self,
        account: AccountId,
        now: Timestamp,
    ) -> Result<(Principal, Token), StoreError> {
        let Self { token, actor } = self;
        let enabled = |id| accepted(account, id, actor);
        let holder = match token.scope {
            TokenScope::Setup if token.used.is_some() => return Err(Denial::Used.into()),
            TokenScope::Setup => Holder::Setup,
            TokenScope::Api { actor, role } => {
                let found = enabled(actor)?;
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
                actor_kind: enabled(actor)?.kind,
            },
            TokenScope::Gateway { site } => Holder::Gateway { site },
            TokenScope::Relay => Holder::Relay,
            TokenScope::Session { actor } => {
                expect_in_use(&token, now)?;
                session(actor, &enabled(actor)?)?
            }
        };
        let principal = Principal {
            account,
            token: token.id,
            holder,
            expires: token.expires,
        };
        Ok((principal, token))
    }
}

/// A session ends when nobody uses it.
fn expect_in_use(row: &Token, now: Timestamp) -> Result<(), StoreError> {
    let last_used = row.last_used.unwrap_or(row.stamp.created);
    match now.unix_ms().saturating_sub(last_used.unix_ms()) >= SESSION_IDLE_MS {
        true => Err(Denial::Expired.into()),
        false => Ok(()),
    }
}

/// It also ends when its actor no longer signs in.
fn session(actor: ActorId, found: &Actor) -> Result<Holder, StoreError> {
    let sign_in = found.sign_in.ok_or(Denial::Revoked)?;
    Ok(Holder::Session {
        actor,
        actor_kind: found.kind,
        role: sign_in.role,
    })
}

pub(super) async fn enabled(
    connection: &mut Transaction,
    account: AccountId,
    id: ActorId,
) -> Result<Actor, StoreError> {
    let actor = read::find(connection, account, id.into()).await?;
    accepted(account, id, actor.and_then(Actor::from_entity))
}

/// The actor of that id, if it was found and is not disabled.
fn accepted(account: AccountId, id: ActorId, found: Option<Actor>) -> Result<Actor, StoreError> {
    let actor = found.ok_or_else(|| StoreError::NotFound(id.into()))?;
    match actor.disabled {
        true => Err(Denial::ActorDisabled(account).into()),
        false => Ok(actor),
    }
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
