//! From an empty account to its first owner: the set-up token makes one, once.

use super::changes::{left, made};
use super::tokens::issue;
use super::{Service, names, show};
use culvert_ids::{AccountId, ActorId};
use culvert_portal_auth::Asker;
use culvert_portal_base::{Fault, birth, now};
use culvert_store::{
    self as store, ActorKind, Author, Entity, ListFilter, Mutation, Role, Stamp, Store, StoreError,
    StoreExt, TokenScope, TokenUses,
};
use culvert_wire::Timestamp;
use culvert_wire::api::{Account, Actor, IssuedToken, SetupAnswer, SetupRequest};
use culvert_wire::token::{Bearer, Portal, Token, TokenKind};

/// The lifetime of a set-up token: a working day and the next morning.
const SETUP_LIFETIME_MS: u64 = 24 * 60 * 60 * 1_000;

impl Service {
    /// True if somebody administers the portal. A person who has lost all access makes another owner by a
    /// set-up token.
    pub async fn is_set_up(&self) -> Result<bool, Fault> {
        let is_set_up = self.database.store.is_set_up(self.served.account);
        Ok(self.database.ask("is_set_up", is_set_up).await?)
    }

    /// Makes an owner and a token for the API. Of any number of requests with one set-up token
    /// exactly one succeeds.
    pub async fn set_up(&self, bearer: &str, request: SetupRequest) -> Result<SetupAnswer, Fault> {
        let (owner, account, issued) = self.own(bearer, &request, true).await?;
        let token = issued.ok_or_else(|| Fault::internal("set-up made no token"))?;
        Ok(SetupAnswer {
            account,
            owner,
            token,
        })
    }

    /// Makes an owner who comes in by the password alone: a token that nobody kept would be a way in
    /// for nobody.
    pub async fn set_up_by_password(
        &self,
        bearer: &str,
        request: SetupRequest,
    ) -> Result<(), Fault> {
        if request.password.is_none() {
            return Err(Fault::invalid("password", "choose one"));
        }
        self.own(bearer, &request, false).await?;
        Ok(())
    }

    async fn own(
        &self,
        bearer: &str,
        request: &SetupRequest,
        with_token: bool,
    ) -> Result<(Actor, Account, Option<IssuedToken>), Fault> {
        let denied = |cause: &str| {
            self.metrics.denied_tokens.inc();
            tracing::warn!(cause, "a set-up token was not accepted");
            Fault::Unauthenticated
        };
        let token = Token::parse_as(bearer, TokenKind::Setup)
            .map_err(|_| denied("no set-up token by its form"))?
            .bearer;
        let digest = token.secret.digest();
        // This finds the account that the token is for; the write itself checks that the token is unused.
        let authenticated =
            self.database
                .store
                .authenticate(token.id, &digest, TokenKind::Setup, now());
        let principal = match self.database.ask("authenticate", authenticated).await {
            Ok(principal) => principal,
            Err(StoreError::Denied(denial)) => return Err(denied(denial.cause())),
            Err(error) => return Err(error.into()),
        };

        // Read before the write: its answer has a secret that is shown once, which a failure behind it would lose.
        let account: store::Account = self.get(principal.account, principal.account).await?;
        let owner_name = names::name("owner", &request.owner)?;
        let (born, random) = birth()?;
        let owner = store::Actor {
            id: ActorId::new(born, random),
            kind: ActorKind::Admin,
            name: owner_name,
            disabled: false,
            sign_in: None,
            stamp: Stamp::default(),
        };
        let password = match &request.password {
            Some(password) => {
                let asker = Asker::Known(token.id.into());
                Some(self.new_verifier(asker, &owner.name, password).await?)
            }
            None => None,
        };
        let owner_id = owner.id;
        let mut mutations = vec![Mutation::Create(owner.into())];
        let mut issued = None;
        if with_token {
            let scope = TokenScope::Api {
                actor: owner_id,
                role: Role::Owner,
            };
            let name = format!("owner {owner_id}");
            let issue = issue(scope, name, TokenUses::Many, None)?;
            let id = issue.row.id;
            let (create_token, secret) = issue.split();
            mutations.push(create_token);
            issued = Some((id, secret));
        }
        if let Some(verifier) = password {
            mutations.push(Mutation::SetPassword {
                actor: owner_id,
                role: Some(Role::Owner),
                verifier,
                expected_version: None,
            });
        }
        if let Some(name) = &request.account {
            mutations.push(renamed(account.clone(), name)?);
        }
        let consumed = self.database.store.consume_one_time(
            token.id,
            &digest,
            TokenKind::Setup,
            now(),
            mutations,
        );
        let changes = match self.database.ask("consume_one_time", consumed).await {
            Ok(changes) => changes,
            Err(StoreError::Denied(denial)) => return Err(denied(denial.cause())),
            Err(error) => return Err(error.into()),
        };
        tracing::info!(owner = %owner_id, "set up");
        let account = left(changes.clone(), account);
        let issued = match issued {
            Some((id, secret)) => Some(self.issued(made(changes.clone(), id.into())?, secret)),
            None => None,
        };
        let owner: store::Actor = made(changes, owner_id.into())?;
        Ok((show::actor(owner), show::account(account), issued))
    }
}

/// The change that gives the account another name.
fn renamed(mut row: store::Account, name: &str) -> Result<Mutation, Fault> {
    row.name = names::name_after(Some(&row.name), "account", name)?;
    let version = row.stamp.version;
    Ok(Mutation::Update {
        entity: Entity::Account(row),
        expected_version: Some(version),
    })
}

/// A set-up token that was just made.
#[derive(Debug)]
pub struct SetupToken {
    /// The whole token, which is shown this once.
    pub token: Token,
    /// The time at which it expires.
    pub expires: Timestamp,
}

/// A set-up token, and the mutation that creates it.
///
/// # Errors
/// The operating system gave no random bytes.
pub fn new_setup_token(portal: Portal) -> Result<(Mutation, SetupToken), getrandom::Error> {
    let expires = Timestamp::from_unix_ms(now().unix_ms().saturating_add(SETUP_LIFETIME_MS));
    let mut issue = issue(
        TokenScope::Setup,
        String::new(),
        TokenUses::One,
        Some(expires),
    )?;
    issue.row.name = format!("set-up {}", issue.row.id);
    let id = issue.row.id;
    let (create, secret) = issue.split();
    let bearer = Bearer {
        kind: TokenKind::Setup,
        id,
        secret,
    };
    let token = SetupToken {
        token: Token {
            bearer,
            portal: Some(portal),
        },
        expires,
    };
    Ok((create, token))
}

/// Makes a set-up token; those from before are no longer accepted.
///
/// # Errors
/// The store's, and [`StoreError::Unavailable`] where there are no random bytes.
pub async fn issue_setup_token(
    store: &dyn Store,
    account: AccountId,
    portal: Portal,
) -> Result<SetupToken, StoreError> {
    let no_random = |error: getrandom::Error| StoreError::Unavailable(Box::new(error));
    let now = now();
    let mut mutations = Vec::new();
    let mut after = None;
    loop {
        let page = store
            .list_as::<store::Token>(
                account,
                &ListFilter::default(),
                after,
                store::PageLimit::MAX,
            )
            .await?;
        for row in page.items {
            let unused = row.revoked.is_none() && row.used.is_none();
            if row.scope == TokenScope::Setup && unused {
                mutations.push(Mutation::Update {
                    expected_version: None,
                    entity: Entity::Token(store::Token {
                        revoked: Some(now),
                        ..row
                    }),
                });
            }
        }
        after = match page.next {
            Some(store::EntityId::Token(next)) => Some(next),
            _ => break,
        };
    }
    let (create, token) = new_setup_token(portal).map_err(no_random)?;
    mutations.push(create);
    store.write(account, Author::PORTAL, now, mutations).await?;
    Ok(token)
}
