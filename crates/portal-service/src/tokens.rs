//! Tokens: their secrets are shown once, and nobody learns them from the portal again.

use super::owners::may_use_api;
use super::write::{Attempts, expect};
use super::{Caller, ListRequest, Service, names, show};
use culvert_ids::{SiteId, TokenId};
use culvert_portal_base::{Fault, Problems, birth, now};
use culvert_store::{self as store, Mutation, Stamp, TokenScope, TokenUses};
use culvert_wire::api::{ApiRole, IssuedToken, NewSite, NewToken, Page, Token};
use culvert_wire::token::{self as wire, Bearer, Secret, TokenKind};
use zeroize::Zeroizing;

impl Service {
    /// A page of the tokens that the caller may see.
    pub async fn tokens(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Token>, Fault> {
        self.list(caller, request, show::token).await
    }

    /// Those that people made: no sessions of browsers, and none for set-up.
    pub async fn made_tokens(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Token>, Fault> {
        let request = request.of_part(store::Part::MadeTokens);
        self.list(caller, &request, show::token).await
    }

    /// The token with this id.
    pub async fn token(&self, caller: &Caller, id: TokenId) -> Result<Token, Fault> {
        self.read(caller, id).await.map(show::token)
    }

    /// Creates a token.
    pub async fn create_token(&self, caller: &Caller, new: NewToken) -> Result<IssuedToken, Fault> {
        caller.may_change()?;
        let mut attempts = Attempts::default();
        loop {
            let tried = self.try_create_token(caller, &new).await;
            if let Some(end) = attempts.end(tried) {
                return end;
            }
        }
    }

    async fn try_create_token(
        &self,
        caller: &Caller,
        new: &NewToken,
    ) -> Result<IssuedToken, Fault> {
        let (scope, name, holder) = self.checked_token(caller, new).await?;
        let uses = match new.one_time {
            true => TokenUses::One,
            false => TokenUses::Many,
        };
        let issue = issue(scope, name, uses, new.expires)?;
        let id = issue.row.id;
        let (create, secret) = issue.split();
        // A person who no longer signs in must get no token for the API: nothing would bound its role.
        let mutations = holder.iter().map(expect).chain([create]).collect();
        let row = self.make(caller, id.into(), mutations).await?;
        Ok(self.issued(row, secret))
    }

    /// Names the wrong fields of a token that is not complete yet. Nothing is written.
    pub async fn check_token(&self, caller: &Caller, new: &NewToken) -> Result<(), Fault> {
        caller.may_change()?;
        self.checked_token(caller, new).await.map(drop)
    }

    /// Creates a token for gateways of a site that is created with it: both or none.
    pub async fn create_token_at_new_site(
        &self,
        caller: &Caller,
        site: &NewSite,
        new: NewToken,
    ) -> Result<IssuedToken, Fault> {
        caller.may_change()?;
        let (site, scope, name) = self.checked_at_new_site(caller, site, &new).await?;
        let uses = match new.one_time {
            true => TokenUses::One,
            false => TokenUses::Many,
        };
        let issue = issue(scope, name, uses, new.expires)?;
        let id = issue.row.id;
        let (create, secret) = issue.split();
        let mutations = vec![Mutation::Create(site.into()), create];
        let row = self.make(caller, id.into(), mutations).await?;
        Ok(self.issued(row, secret))
    }

    /// Names the wrong fields of both; a wrong name of the site is one of `new_site`. Nothing is written.
    pub async fn check_token_at_new_site(
        &self,
        caller: &Caller,
        site: &NewSite,
        new: &NewToken,
    ) -> Result<(), Fault> {
        caller.may_change()?;
        let checked = self.checked_at_new_site(caller, site, new).await;
        checked.map(drop)
    }

    async fn checked_at_new_site(
        &self,
        caller: &Caller,
        site: &NewSite,
        new: &NewToken,
    ) -> Result<(store::Site, TokenScope, String), Fault> {
        let mut problems = Problems::default();
        let name = problems.take(names::name("new_site", &site.name))?;
        let (born, random) = birth()?;
        let id = SiteId::new(born, random);
        let new = NewToken {
            site: Some(id),
            ..new.clone()
        };
        let checked = problems.take(self.checked_token(caller, &new).await)?;
        let both = name.zip(checked);
        let (name, (scope, token, _)) = problems.finish_with(both)?;
        let stamp = Stamp::default();
        let relays = None;
        let site = store::Site {
            id,
            name,
            relays,
            stamp,
        };
        Ok((site, scope, token))
    }

    /// The scope and the name of the new token, and the actor who is to use the API by it; all its wrong fields, if
    /// there are some.
    async fn checked_token(
        &self,
        caller: &Caller,
        new: &NewToken,
    ) -> Result<(TokenScope, String, Option<store::Actor>), Fault> {
        let mut problems = Problems::default();
        let scope = problems.take(self.scope(caller, new).await)?;
        let name = problems.take(names::name("name", &new.name))?;
        if new.expires.is_some_and(|expires| expires <= now()) {
            problems.take::<()>(Err(Fault::invalid("expires", "it lies in the past")))?;
        }
        if new.one_time && new.kind == TokenKind::Api {
            let detail = "an API token has many uses: give it an expiry instead";
            problems.take::<()>(Err(Fault::invalid("one_time", detail)))?;
        }
        let ((scope, holder), name) = problems.finish_with(scope.zip(name))?;
        Ok((scope, name, holder))
    }

    /// The scope of the new token, with its holder; a fault if the caller may not make one for
    /// them.
    async fn scope(
        &self,
        caller: &Caller,
        new: &NewToken,
    ) -> Result<(TokenScope, Option<store::Actor>), Fault> {
        let superfluous = |field: &str, given: bool| match given {
            true => Err(Fault::invalid(
                field,
                format_args!("a {} token has no {field}: leave it out", new.kind),
            )),
            false => Ok(()),
        };
        let missing = |field: &str| {
            let detail = format!("a {} token needs its {field}: say which", new.kind);
            Fault::invalid(field, detail)
        };
        if new.kind == TokenKind::Setup {
            let detail =
                "`culvert portal setup-token`, on the portal's machine, makes set-up tokens";
            return Err(Fault::invalid("kind", detail));
        }
        if new.kind == TokenKind::Session {
            return Err(Fault::invalid("kind", "signing in makes sessions"));
        }
        if new.kind == TokenKind::Relay {
            superfluous("actor", new.actor.is_some())?;
            superfluous("role", new.role.is_some())?;
            superfluous("site", new.site.is_some())?;
            return Ok((TokenScope::Relay, None));
        }
        if new.kind == TokenKind::Gateway {
            superfluous("actor", new.actor.is_some())?;
            superfluous("role", new.role.is_some())?;
            let site = new.site.ok_or_else(|| missing("site"))?;
            return Ok((TokenScope::Gateway { site }, None));
        }
        superfluous("site", new.site.is_some())?;
        let actor = new.actor.ok_or_else(|| missing("actor"))?;
        self.may_touch_actor(caller, actor).await?;
        if new.kind == TokenKind::Client {
            superfluous("role", new.role.is_some())?;
            return Ok((TokenScope::Client { actor }, None));
        }
        let row: store::Actor = self
            .read(caller, actor)
            .await
            .map_err(|fault| fault.at_field("actor"))?;
        let role = new.role.ok_or_else(|| missing("role"))?;
        if role == ApiRole::Owner {
            caller.may_change_owners()?;
        }
        if !may_use_api(&row) {
            let detail = "users have no API tokens: give it to an admin or a service account";
            return Err(Fault::invalid("actor", detail));
        }
        let role = show::role(role);
        Ok((TokenScope::Api { actor, role }, Some(row)))
    }

    /// It is final. Done again, it changes nothing.
    pub async fn revoke_token(
        &self,
        caller: &Caller,
        id: TokenId,
        expected: Option<u64>,
    ) -> Result<Token, Fault> {
        caller.may_change()?;
        let row: store::Token = self.read(caller, id).await?;
        self.may_end_token(caller, &row).await?;
        let at = now();
        let change = |row: &mut store::Token| {
            row.revoked = row.revoked.or(Some(at));
            Ok(())
        };
        self.change_row(caller, row, expected, change)
            .await
            .map(show::token)
    }

    /// Deletes a token.
    pub async fn delete_token(
        &self,
        caller: &Caller,
        id: TokenId,
        expected: Option<u64>,
    ) -> Result<(), Fault> {
        caller.may_change()?;
        let row: store::Token = self.read(caller, id).await?;
        self.may_end_token(caller, &row).await?;
        self.delete::<store::Token>(caller, id, expected, false)
            .await
    }

    async fn may_end_token(&self, caller: &Caller, row: &store::Token) -> Result<(), Fault> {
        self.may_shut_out(caller, row.scope.actor(), |token, _| token == Some(row.id))
            .await
    }

    /// The new token as it is shown, this once.
    pub(super) fn issued(&self, row: store::Token, secret: Secret) -> IssuedToken {
        let token = wire::Token {
            bearer: Bearer {
                kind: row.scope.kind(),
                id: row.id,
                secret,
            },
            portal: Some((self.portal)()),
        };
        IssuedToken {
            secret: token.expose().to_string(),
            token: show::token(row),
        }
    }
}

/// A token that is about to be made.
pub(crate) struct Issue {
    pub(crate) row: store::Token,
    pub(crate) secret: Secret,
}

impl Issue {
    /// The mutation that creates it, and the secret for its holder.
    pub(crate) fn split(self) -> (Mutation, Secret) {
        let create = Mutation::CreateToken {
            digest: self.secret.digest(),
            token: self.row,
        };
        (create, self.secret)
    }
}

/// A token with a secret of its own.
pub(crate) fn issue(
    scope: TokenScope,
    name: String,
    uses: TokenUses,
    expires: Option<culvert_wire::Timestamp>,
) -> Result<Issue, getrandom::Error> {
    let (born, random) = birth()?;
    let row = store::Token {
        id: TokenId::new(born, random),
        scope,
        name,
        uses,
        expires,
        revoked: None,
        used: None,
        last_used: None,
        proven: None,
        stamp: Stamp::default(),
    };
    let secret = new_secret()?;
    Ok(Issue { row, secret })
}

/// A new token's secret.
fn new_secret() -> Result<Secret, getrandom::Error> {
    let mut random = Zeroizing::new([0; wire::SECRET_LEN]);
    getrandom::fill(random.as_mut_slice())?;
    Ok(Secret::new(*random))
}
