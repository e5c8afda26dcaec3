//! People who sign in: their passwords, and the sessions of their browsers.

use super::changes::left;
use super::providers::AS_USER;
use super::signed_in::{Begun, ByPassword, Mark, SignedIn};
use super::tokens::issue;
use super::{Caller, Service, show};
use culvert_ids::{ActorId, TokenId};
use culvert_portal_auth::{Asker, Known, PasswordOwner};
use culvert_portal_base::{Fault, now};
use culvert_store::{
    self as store, ActorKind, Author, ListFilter, Mutation, Role, SecretBytes, TokenScope,
};
use culvert_wire::Timestamp;
use culvert_wire::api::{Actor, NewSignIn, Token};
use culvert_wire::token::{Bearer, TokenKind};
use std::net::IpAddr;

/// The longest lifetime of a session, however much it is used: a working day.
const SESSION_LIFETIME_MS: u64 = 12 * 60 * 60 * 1_000;

/// Sessions of one person: a few browsers on a few machines. The oldest goes when there is one more.
const MAX_SESSIONS: usize = 16;

impl Service {
    /// Begins a session, or asks for a code first. The answer does not tell if the name or the password is wrong.
    /// `mark` is the mark of an earlier sign-in that the browser shows; the browser gets a new one for the next.
    pub async fn sign_in(
        &self,
        from: IpAddr,
        mark: Option<&str>,
        name: &str,
        password: &str,
    ) -> Result<(SignedIn, Mark), Fault> {
        let limits = &self.sign_in.limits;
        let known = limits.known(mark, name);
        let proven = self.prove(from, known, name, password).await?;
        let mark = limits.mark(name)?;
        Ok((self.after_password(proven).await?, Mark(mark)))
    }

    /// Refuses a password that is not the caller's own.
    pub(super) async fn prove_own(
        &self,
        caller: &Caller,
        from: IpAddr,
        password: &str,
    ) -> Result<ByPassword, Fault> {
        let actor = caller.actor()?;
        let row: store::Actor = self.get(caller.account(), actor).await?;
        let known = Some(actor.into());
        match self.prove(from, known, &row.name, password).await {
            Ok(proven) if proven.actor == actor => Ok(proven),
            Ok(_) | Err(Fault::Unauthenticated) => {
                Err(Fault::invalid("current", "it is not your password"))
            }
            Err(fault) => Err(fault),
        }
    }

    /// The person whose name and password these are.
    async fn prove(
        &self,
        from: IpAddr,
        known: Option<Known>,
        name: &str,
        password: &str,
    ) -> Result<ByPassword, Fault> {
        let limits = &self.sign_in.limits;
        let taken = limits.take(self.pending(), known, from, name).await;
        self.counted(taken)?;
        let asker = known.map_or(Asker::At(from), Asker::Known);
        let found = self
            .database
            .store
            .password(self.served.account, name.trim());
        let found = self.database.ask("password", found).await?;
        let verifier = found.as_ref().map(|(_, verifier)| verifier);
        let right = self
            .sign_in
            .passwords
            .check(asker, password, verifier)
            .await?;
        match found {
            Some((actor, verifier)) if right => Ok(ByPassword { actor, verifier }),
            _ => {
                self.metrics.denied_tokens.inc();
                tracing::info!(%from, "a name and password were not accepted");
                Err(Fault::Unauthenticated)
            }
        }
    }

    /// Makes a session, in one write with what comes before it: a proof of the person among it.
    pub(super) async fn begin_session(
        &self,
        actor: ActorId,
        mutations: Vec<Mutation>,
    ) -> Result<Begun, Fault> {
        self.begin_session_by(None, actor, mutations).await
    }

    /// The same. The session takes the place of `replaced`, which must still be accepted when it is written.
    async fn begin_session_by(
        &self,
        replaced: Option<Author>,
        actor: ActorId,
        mut mutations: Vec<Mutation>,
    ) -> Result<Begun, Fault> {
        let expires = now().unix_ms().saturating_add(SESSION_LIFETIME_MS);
        let expires = Timestamp::from_unix_ms(expires);
        let scope = TokenScope::Session { actor };
        let mut issue = issue(scope, String::new(), store::TokenUses::Many, Some(expires))?;
        issue.row.name = format!("session {}", issue.row.id);
        let id = issue.row.id;
        let begun = Author {
            actor: Some(actor),
            token: Some(id),
            role: None,
        };
        let (create, secret) = issue.split();
        mutations.push(create);
        // A new session has the proof of the one that makes it, which therefore goes last.
        mutations.extend(replaced.and_then(|author| author.token).map(end));
        let author = replaced.unwrap_or(begun);
        self.write(self.served.account, author, mutations).await?;
        let kind = TokenKind::Session;
        let token = Bearer { kind, id, secret }.expose();
        Ok(Begun { token })
    }

    /// The verifier of a password that a person is to have, by whatever way it came. All that may not be one is refused
    /// here.
    pub(super) async fn new_verifier(
        &self,
        asker: Asker,
        name: &str,
        password: &str,
    ) -> Result<SecretBytes, Fault> {
        let url = (self.portal)().url;
        let authority = url.trim_start_matches("https://");
        let host = authority.split(':').next().unwrap_or(authority);
        let owner = PasswordOwner { name, host };
        let passwords = &self.sign_in.passwords;
        passwords.verifier(asker, "password", owner, password).await
    }

    async fn sessions_of(&self, actor: ActorId) -> Result<Vec<store::Token>, Fault> {
        let filter = ListFilter {
            refers_to: vec![actor.into()],
            parts: vec![store::Part::Sessions],
            ..ListFilter::default()
        };
        self.all(self.served.account, &filter).await
    }

    /// The caller's own sessions, the newest first, and which of them the caller uses.
    pub async fn own_sessions(&self, caller: &Caller) -> Result<(Vec<Token>, TokenId), Fault> {
        let mut rows = self.sessions_of(caller.actor()?).await?;
        rows.sort_by_key(|row| std::cmp::Reverse(row.stamp.created));
        Ok((rows.into_iter().map(show::token).collect(), caller.token()))
    }

    /// Ends the caller's session.
    pub async fn sign_out(&self, caller: &Caller) -> Result<(), Fault> {
        let ended = self.write(caller.account(), caller.author(), vec![end(caller.token())]);
        match ended.await {
            Ok(_) | Err(store::StoreError::NotFound(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends all sessions that the caller has, this one included.
    pub async fn sign_out_everywhere(&self, caller: &Caller) -> Result<(), Fault> {
        let ends = end_sessions_of(caller.actor()?, None);
        self.write(caller.account(), caller.author(), vec![ends])
            .await?;
        Ok(())
    }

    /// Ends all sessions of a person.
    pub async fn end_sessions(
        &self,
        caller: &Caller,
        actor: ActorId,
        expected: Option<u64>,
    ) -> Result<(), Fault> {
        self.may_touch_actor(caller, actor).await?;
        self.read::<store::Actor>(caller, actor).await?;
        let expected = expected.map(|version| Mutation::Expect {
            id: actor.into(),
            version,
        });
        let ends = end_sessions_of(actor, None);
        let mutations = expected.into_iter().chain([ends]).collect();
        self.write(caller.account(), caller.author(), mutations)
            .await?;
        Ok(())
    }

    /// Ends one of the caller's own sessions.
    pub async fn end_own_session(&self, caller: &Caller, session: TokenId) -> Result<(), Fault> {
        let rows = self.sessions_of(caller.actor()?).await?;
        if !rows.iter().any(|row| row.id == session) {
            return Err(Fault::NotFound(format!("you have no session {session}")));
        }
        self.write(caller.account(), caller.author(), vec![end(session)])
            .await?;
        Ok(())
    }

    /// Ends all sessions that the caller has but this one.
    pub async fn end_other_sessions(&self, caller: &Caller) -> Result<(), Fault> {
        let ends = end_sessions_of(caller.actor()?, Some(caller.token()));
        self.write(caller.account(), caller.author(), vec![ends])
            .await?;
        Ok(())
    }

    /// Changes the caller's own password, which ends all sessions and begins another.
    pub async fn change_own_password(
        &self,
        caller: &Caller,
        from: IpAddr,
        current: &str,
        new: &str,
    ) -> Result<Begun, Fault> {
        let actor = caller.actor()?;
        let row: store::Actor = self.get(caller.account(), actor).await?;
        let proven = self.prove_own(caller, from, current).await?;
        let asker = Asker::Known(actor.into());
        let verifier = self.new_verifier(asker, &row.name, new).await?;
        let mutations = vec![
            proven.proof(),
            end_sessions_of(actor, Some(caller.token())),
            Mutation::SetPassword {
                actor,
                role: None,
                verifier,
                expected_version: None,
            },
        ];
        self.begin_session_by(Some(caller.author()), actor, mutations)
            .await
    }

    /// Lets a person sign in with this password, as this. The sessions that the person has end.
    pub async fn set_sign_in(
        &self,
        caller: &Caller,
        actor: ActorId,
        expected: Option<u64>,
        new: NewSignIn,
    ) -> Result<Actor, Fault> {
        caller.may_change()?;
        let mut row: store::Actor = self.read(caller, actor).await?;
        let role = show::role(new.role);
        may_sign_in(row.kind)?;
        let verifier = match &new.password {
            Some(password) => {
                let asker = Asker::Known(caller.actor()?.into());
                Some(self.new_verifier(asker, &row.name, password).await?)
            }
            None => None,
        };
        match role {
            Role::Owner => {
                self.may_touch_actor(caller, actor).await?;
                caller.may_change_owners()?;
            }
            _ => {
                self.may_shut_out(caller, [actor], |_, owner| owner == actor)
                    .await?;
            }
        }
        let mut mutations = vec![end_sessions_of(actor, None)];
        mutations.push(match verifier {
            Some(verifier) => Mutation::SetPassword {
                actor,
                role: Some(role),
                verifier,
                expected_version: expected,
            },
            None => {
                row = self.read(caller, actor).await?;
                let version = row.stamp.version;
                let was = row.sign_in.unwrap_or(AS_USER);
                Mutation::Update {
                    entity: store::Actor {
                        sign_in: Some(store::SignIn { role, ..was }),
                        ..row.clone()
                    }
                    .into(),
                    expected_version: expected.or(Some(version)),
                }
            }
        });
        let changes = self
            .write(caller.account(), caller.author(), mutations)
            .await?;
        Ok(show::actor(left(changes, row)))
    }

    /// Ends that a person signs in, and the sessions that there are.
    pub async fn end_sign_in(
        &self,
        caller: &Caller,
        actor: ActorId,
        expected: Option<u64>,
    ) -> Result<Actor, Fault> {
        let row: store::Actor = self.read(caller, actor).await?;
        self.may_shut_out(caller, [actor], |_, owner| owner == actor)
            .await?;
        let mut mutations = vec![end_sessions_of(actor, None)];
        let version = row.stamp.version;
        mutations.push(Mutation::Update {
            entity: store::Actor {
                sign_in: None,
                ..row.clone()
            }
            .into(),
            expected_version: expected.or(Some(version)),
        });
        let changes = self
            .write(caller.account(), caller.author(), mutations)
            .await?;
        Ok(show::actor(left(changes, row)))
    }
}

/// Ends the sessions that the actor has by the time of the write.
pub(super) const fn end_sessions_of(actor: ActorId, except: Option<TokenId>) -> Mutation {
    Mutation::EndSessions { actor, except }
}

/// Makes room for one more session: those that are over by the time of the write end, and the oldest of too many.
pub(super) const fn make_room_for_session(actor: ActorId) -> Mutation {
    let keep = MAX_SESSIONS - 1;
    Mutation::EndOldSessions { actor, keep }
}

fn end(session: TokenId) -> Mutation {
    Mutation::Delete {
        id: session.into(),
        expected_version: None,
        cascade: false,
    }
}

/// Any person may have any role. Machines do not sign in.
pub(super) fn may_sign_in(kind: ActorKind) -> Result<(), Fault> {
    match kind {
        ActorKind::Admin | ActorKind::User => Ok(()),
        ActorKind::ServiceAccount => Err(Fault::Conflict(
            "a service account is a machine: it has tokens and does not sign in".to_owned(),
        )),
    }
}
