//! The second factor of people who sign in with a password: codes of an authenticator app, and recovery
//! codes for when it is lost.

use super::changes::left;
use super::factors::Factors;
use super::people::{end_sessions_of, make_room_for_session};
use super::recovery_codes::{RECOVERY_CODE_CHARS, RecoveryCodes, digest_of, new_codes, plain};
use super::sign_in::SignInState;
use super::signed_in::{Begun, ByPassword, SignedIn};
use super::write::{Attempts, expect};
use super::{Caller, Service, show};
use culvert_ids::ActorId;
use culvert_portal_auth::totp;
use culvert_portal_base::{Fault, now};
use culvert_store::{self as store, FactorChange, Mutation, SecretBytes, SignIn};
use culvert_wire::Timestamp;
use culvert_wire::api::Actor;
use std::net::IpAddr;
use std::time::Instant;
use zeroize::Zeroizing;

/// A secret for an app, shown this once.
pub struct Enrolment {
    /// As people type it.
    pub secret: Zeroizing<String>,
    /// As apps read it out of a picture.
    pub uri: Zeroizing<String>,
}

/// The state of the caller's own factors.
pub struct OwnFactors {
    /// Since when there is an app.
    pub since: Option<Timestamp>,
    /// The number of passkeys.
    pub passkeys: u32,
    /// There is a password that a factor can stand beside.
    pub has_password: bool,
    /// The number of recovery codes that are left.
    pub recovery_codes: u32,
    /// The account has the caller have one.
    pub is_required: bool,
}

impl OwnFactors {
    /// True if something is asked for beside the password.
    pub const fn has_any(&self) -> bool {
        self.since.is_some() || self.passkeys > 0
    }
}

impl Service {
    /// The step after the password: a session, or the question for a code.
    pub(super) async fn after_password(&self, proven: ByPassword) -> Result<SignedIn, Fault> {
        let actor = proven.actor;
        let row: store::Actor = self.get(self.served.account, actor).await?;
        let sign_in = row.sign_in.ok_or(Fault::Unauthenticated)?;
        if !sign_in.has_second_factor() {
            let mutations = vec![proven.proof(), make_room_for_session(actor)];
            let begun = self.begin_session(actor, mutations).await;
            return begun.map(SignedIn::Begun).inspect_err(|fault| {
                if *fault == Fault::Unauthenticated {
                    self.metrics.denied_tokens.inc();
                    tracing::info!(%actor, "a person's sign-in changed while their password was checked");
                }
            });
        }
        let factors = &self.sign_in.factors;
        let ticket = factors.put_half(self.pending(), &proven, sign_in.password_set);
        let ticket = ticket.await?;
        Ok(SignedIn::CodeWanted(ticket))
    }

    /// Begins a session for who gave the password before, and gives a code now.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where the code is wrong, [`Fault::Unauthenticated`] where the password must be
    /// given again.
    pub async fn sign_in_by_code(
        &self,
        from: IpAddr,
        ticket: &str,
        code: &str,
    ) -> Result<Begun, Fault> {
        let SignInState {
            limits, factors, ..
        } = &self.sign_in;
        let taken = limits.take_from(from, Instant::now());
        taken.map_err(|wait| self.limited(wait))?;
        let half = factors.half_for_code(self.pending(), ticket).await?;
        let half = half.ok_or(Fault::Unauthenticated)?;
        let actor = half.by.actor;
        let row: store::Actor = self.get(self.served.account, actor).await?;
        let sign_in = row.sign_in.filter(|_| !row.disabled);
        let sign_in = sign_in.ok_or(Fault::Unauthenticated)?;
        if sign_in.password_set != half.password_set {
            return Err(Fault::Unauthenticated);
        }
        let mutations = vec![
            half.by.proof(),
            make_room_for_session(actor),
            self.use_of(actor, code).await?,
        ];
        match self.begin_session(actor, mutations).await {
            Ok(begun) => {
                factors.forget_half(self.pending(), ticket).await;
                Ok(begun)
            }
            Err(Fault::Unauthenticated) => Err(self.wrong_code(actor)),
            Err(fault) => Err(fault),
        }
    }

    /// The mutation that uses up a code; it belongs to the write for which the code is given. That write
    /// finds out if the code was used before.
    pub(super) async fn use_of(&self, actor: ActorId, code: &str) -> Result<Mutation, Fault> {
        self.counted(Factors::take_code(self.pending(), actor).await)?;
        let code = plain(code);
        let change = if totp::is_code(&code) {
            let secret = self.database.store.totp_secret(self.served.account, actor);
            let secret = self.database.ask("totp_secret", secret).await?;
            let step = secret.and_then(|secret| {
                let step = totp::step_of(secret.expose(), &code, now())?;
                Some((secret, step))
            });
            step.map(|(secret, step)| FactorChange::UseStep { secret, step })
        } else {
            let is_long_enough = code.len() == RECOVERY_CODE_CHARS;
            is_long_enough.then(|| FactorChange::UseCode(digest_of(&code)))
        };
        match change {
            Some(change) => Ok(Mutation::ChangeFactor { actor, change }),
            None => Err(self.wrong_code(actor)),
        }
    }

    fn wrong_code(&self, actor: ActorId) -> Fault {
        self.metrics.denied_tokens.inc();
        tracing::info!(%actor, "a code was not accepted");
        Fault::invalid(
            "code",
            "it is wrong, or was used already: wait for the next one",
        )
    }

    /// The state of the caller's own factors.
    pub async fn own_factors(&self, caller: &Caller) -> Result<OwnFactors, Fault> {
        let sign_in = self.own_sign_in(caller).await?;
        Ok(OwnFactors {
            since: sign_in.second_factor,
            passkeys: sign_in.passkeys,
            has_password: sign_in.password_set.is_some(),
            recovery_codes: sign_in.recovery_codes,
            is_required: self.is_required_of(caller, sign_in).await?,
        })
    }

    pub(super) async fn own_sign_in(&self, caller: &Caller) -> Result<SignIn, Fault> {
        let (_, sign_in) = self.own_row(caller).await?;
        Ok(sign_in)
    }

    /// The caller's row, and that it signs in.
    pub(super) async fn own_row(&self, caller: &Caller) -> Result<(store::Actor, SignIn), Fault> {
        let row: store::Actor = self.get(caller.account(), caller.actor()?).await?;
        match row.sign_in {
            Some(sign_in) => Ok((row, sign_in)),
            None => Err(Fault::Conflict(
                "a second factor is beside a password, and there is none".to_owned(),
            )),
        }
    }

    /// The same for what stands beside a password.
    pub(super) async fn own_sign_in_by_password(&self, caller: &Caller) -> Result<SignIn, Fault> {
        let (_, sign_in) = self.own_row_by_password(caller).await?;
        Ok(sign_in)
    }

    /// The same with the caller's row.
    pub(super) async fn own_row_by_password(
        &self,
        caller: &Caller,
    ) -> Result<(store::Actor, SignIn), Fault> {
        let (row, sign_in) = self.own_row(caller).await?;
        match sign_in.password_set {
            Some(_) => Ok((row, sign_in)),
            None => Err(Fault::Conflict(
                "you sign in by an identity provider, which asks for what it wants: this portal has no password of yours"
                    .to_owned(),
            )),
        }
    }

    pub(super) async fn is_required_of(
        &self,
        caller: &Caller,
        sign_in: SignIn,
    ) -> Result<bool, Fault> {
        let account: store::Account = self.get(caller.account(), caller.account()).await?;
        Ok(account.settings.second_factor.binds(sign_in.role))
    }

    /// True if the caller must get a second factor before anything else.
    pub(super) async fn lacks_factor(&self, caller: &Caller) -> Result<bool, Fault> {
        let row: store::Actor = self.get(caller.account(), caller.actor()?).await?;
        match row.sign_in {
            // A person without a password signs in by a provider, which asks for the factors that
            // it wants.
            Some(sign_in) if sign_in.password_set.is_some() && !sign_in.has_second_factor() => {
                self.is_required_of(caller, sign_in).await
            }
            Some(_) | None => Ok(false),
        }
    }

    /// Makes a secret for the caller's app, which counts once a code has confirmed it. The previous
    /// factor holds until then.
    pub async fn begin_enrolment(&self, caller: &Caller) -> Result<Enrolment, Fault> {
        self.own_sign_in_by_password(caller).await?;
        let mut secret = Zeroizing::new([0; totp::SECRET_LEN]);
        getrandom::fill(secret.as_mut_slice())?;
        let shown = self.shown(caller, secret.as_slice()).await?;
        self.check_again(caller).await?;
        let secret = SecretBytes::new(secret.to_vec());
        let factors = &self.sign_in.factors;
        let (actor, session) = (caller.actor()?, caller.token());
        let put = factors.put_enrolment(self.pending(), actor, session, &secret);
        put.await?;
        Ok(shown)
    }

    /// The secret that the caller's session has begun with and no code has confirmed, for a page that asks for another
    /// code. None once its time is over.
    pub async fn begun_enrolment(&self, caller: &Caller) -> Result<Option<Enrolment>, Fault> {
        let factors = &self.sign_in.factors;
        match factors.enrolment(self.pending(), caller.token()).await? {
            Some(secret) => self.shown(caller, secret.expose()).await.map(Some),
            None => Ok(None),
        }
    }

    /// A secret as people and their apps read it.
    async fn shown(&self, caller: &Caller, secret: &[u8]) -> Result<Enrolment, Fault> {
        let name = self.own_name(caller).await?;
        let url = (self.portal)().url;
        let host = url.trim_start_matches("https://");
        Ok(Enrolment {
            secret: totp::as_text(secret),
            uri: totp::uri(secret, &format!("Culvert {host}"), &name),
        })
    }

    /// Has the secret count, since the app makes the right codes of it.
    pub async fn confirm_enrolment(
        &self,
        caller: &Caller,
        code: &str,
    ) -> Result<RecoveryCodes, Fault> {
        let actor = caller.actor()?;
        let factors = &self.sign_in.factors;
        self.counted(Factors::take_code(self.pending(), actor).await)?;
        let session = caller.token();
        let secret = factors.enrolment(self.pending(), session).await?;
        let secret = secret.ok_or_else(|| {
            Fault::Conflict("it took too long, or was confirmed already: begin again".to_owned())
        })?;
        let step = totp::step_of(secret.expose(), &plain(code), now());
        let step = step.ok_or_else(|| self.wrong_code(actor))?;
        let (shown, codes) = new_codes()?;
        let change = FactorChange::Set {
            secret,
            step,
            codes,
        };
        self.write_factor(caller, change).await?;
        factors.forget_enrolment(self.pending(), session).await;
        Ok(shown)
    }

    /// Makes recovery codes in the place of those that the caller has.
    pub async fn new_recovery_codes(&self, caller: &Caller) -> Result<RecoveryCodes, Fault> {
        if !self.own_sign_in(caller).await?.has_second_factor() {
            return Err(Fault::Conflict(
                "recovery codes stand in for an app or a passkey: set one up first".to_owned(),
            ));
        }
        let (shown, codes) = new_codes()?;
        self.write_factor(caller, FactorChange::NewCodes(codes))
            .await?;
        Ok(shown)
    }

    /// Ends that the caller is asked for codes.
    pub async fn remove_own_factor(&self, caller: &Caller) -> Result<(), Fault> {
        let mut attempts = Attempts::default();
        loop {
            let tried = self.try_remove_own_factor(caller).await;
            if let Some(end) = attempts.end(tried) {
                return end;
            }
        }
    }

    async fn try_remove_own_factor(&self, caller: &Caller) -> Result<(), Fault> {
        let (row, sign_in) = self.own_row(caller).await?;
        if sign_in.passkeys == 0 && self.is_required_of(caller, sign_in).await? {
            return Err(Fault::Conflict(
                "a second factor is required: set another app up in its place".to_owned(),
            ));
        }
        self.write_factor_of(caller, &row, FactorChange::RemoveApp)
            .await
    }

    /// Changes a factor, if the caller's row is still as it was read.
    pub(super) async fn write_factor_of(
        &self,
        caller: &Caller,
        row: &store::Actor,
        change: FactorChange,
    ) -> Result<(), Fault> {
        let actor = row.id;
        let mutations = vec![expect(row), Mutation::ChangeFactor { actor, change }];
        self.write(caller.account(), caller.author(), mutations)
            .await?;
        Ok(())
    }

    pub(super) async fn write_factor(
        &self,
        caller: &Caller,
        change: FactorChange,
    ) -> Result<(), Fault> {
        let actor = caller.actor()?;
        let mutations = vec![Mutation::ChangeFactor { actor, change }];
        self.write(caller.account(), caller.author(), mutations)
            .await?;
        Ok(())
    }

    /// Takes a person's second factor away, for who has lost it. The sessions that the person has end.
    pub async fn reset_factor(
        &self,
        caller: &Caller,
        actor: ActorId,
        expected: Option<u64>,
    ) -> Result<Actor, Fault> {
        let row: store::Actor = self.read(caller, actor).await?;
        self.may_touch_actor(caller, actor).await?;
        let mut mutations = vec![
            Mutation::Expect {
                id: actor.into(),
                version: expected.unwrap_or(row.stamp.version),
            },
            end_sessions_of(actor, None),
        ];
        if row.sign_in.is_some() {
            let change = FactorChange::RemoveAll;
            mutations.push(Mutation::ChangeFactor { actor, change });
        }
        let changes = self
            .write(caller.account(), caller.author(), mutations)
            .await?;
        Ok(show::actor(left(changes, row)))
    }
}
