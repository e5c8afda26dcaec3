//! Passkeys as a proof of who somebody is: alone, since they stand for two factors, and beside a password.

mod own;

pub use own::OwnPasskey;

use super::factors::HalfSignedIn;
use super::people::make_room_for_session;
use super::signed_in::Begun;
use super::{Caller, Service};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_ids::ActorId;
use culvert_portal_auth::webauthn::{Assertion, RelyingParty, WebauthnError};
use culvert_portal_auth::{CHALLENGE_WITHIN, Challenge, Challenges};
use culvert_portal_base::Fault;
use culvert_store::{self as store, FactorChange, Mutation, Passkey, SecretName};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::Instant;
use zeroize::Zeroizing;

/// The question that a page puts to an authenticator, as
/// `PublicKeyCredential.parse…OptionsFromJSON()` takes it.
pub struct Question(pub String);

/// Bytes of the key of challenges: as many as a SHA-256 has.
const CHALLENGE_KEY_LEN: usize = 32;

/// The purpose of a challenge: a challenge for another purpose is not valid.
const SIGN_IN: &[u8] = b"sign in";

fn proof_of(caller: &Caller) -> Vec<u8> {
    [b"proof ", caller.token().as_bytes().as_slice()].concat()
}

fn second_factor_of(ticket: &str) -> Vec<u8> {
    [b"second factor ", ticket.as_bytes()].concat()
}

impl Service {
    /// The relying party for which passkeys are made; none if the portal has no name.
    pub fn relying_party(&self) -> Option<RelyingParty> {
        RelyingParty::of(&(self.portal)().url)
    }

    fn party(&self) -> Result<RelyingParty, Fault> {
        self.relying_party().ok_or_else(|| {
            Fault::Conflict(
                "passkeys are bound to a name, and this portal is at an address: start it with a --url \
                 that has a name"
                    .to_owned(),
            )
        })
    }

    /// The challenges, by the key that all portals of the database have.
    pub(super) async fn challenges(&self) -> Result<&Challenges, Fault> {
        let made = self.sign_in.challenges.get_or_try_init(|| async {
            let mut candidate = Zeroizing::new(vec![0; CHALLENGE_KEY_LEN]);
            getrandom::fill(&mut candidate)?;
            let (account, name) = (self.served.account, SecretName::Challenges);
            let key = self.database.store.secret(account, name, candidate.into());
            let key = self.database.ask("secret", key).await?;
            Ok::<_, Fault>(Challenges::new(key.expose()))
        });
        made.await
    }

    /// Asks for any passkey of this portal.
    pub async fn ask_for_passkey(&self) -> Result<Question, Fault> {
        self.question(SIGN_IN, &[]).await
    }

    /// Asks for a passkey of the person whose password was right.
    pub async fn ask_for_passkey_after_password(
        &self,
        ticket: &str,
    ) -> Result<Option<Question>, Fault> {
        let factors = &self.sign_in.factors;
        let Some(half) = factors.half(self.pending(), ticket).await? else {
            return Ok(None);
        };
        let keys = self.passkeys_of(half.by.actor).await?;
        if keys.is_empty() || self.relying_party().is_none() {
            return Ok(None);
        }
        let purpose = second_factor_of(ticket);
        self.question(&purpose, &keys).await.map(Some)
    }

    /// Asks for a passkey of the caller, who has signed in.
    pub(super) async fn ask_for_own_passkey(
        &self,
        caller: &Caller,
    ) -> Result<Option<Question>, Fault> {
        let keys = self.passkeys_of(caller.actor()?).await?;
        if keys.is_empty() || self.relying_party().is_none() {
            return Ok(None);
        }
        self.question(&proof_of(caller), &keys).await.map(Some)
    }

    async fn question(&self, purpose: &[u8], keys: &[Passkey]) -> Result<Question, Fault> {
        let at = self.pending().clock().await?;
        let challenge = self.challenges().await?.make(purpose, at)?;
        let question = json!({
            "challenge": challenge,
            "rpId": self.party()?.id,
            "timeout": CHALLENGE_WITHIN.as_millis(),
            "userVerification": "required",
            "allowCredentials": descriptors(keys),
        });
        Ok(Question(question.to_string()))
    }

    async fn passkeys_of(&self, actor: ActorId) -> Result<Vec<Passkey>, Fault> {
        let found = self.database.store.passkeys(self.served.account, actor);
        Ok(self.database.ask("passkeys", found).await?)
    }

    /// Begins a session for whom a passkey shows to be who they are.
    pub async fn sign_in_by_passkey(&self, from: IpAddr, credential: &str) -> Result<Begun, Fault> {
        let (assertion, challenge) = self.assertion(from, SIGN_IN, credential).await?;
        self.begin_by_passkey(&assertion, &challenge, None).await
    }

    /// Begins a session for who gave the password before, and shows a passkey now.
    pub async fn sign_in_by_passkey_after_password(
        &self,
        from: IpAddr,
        ticket: &str,
        credential: &str,
    ) -> Result<Begun, Fault> {
        let factors = &self.sign_in.factors;
        let half = factors.half(self.pending(), ticket).await?;
        let half = half.ok_or(Fault::Unauthenticated)?;
        let purpose = second_factor_of(ticket);
        let (assertion, challenge) = self.assertion(from, &purpose, credential).await?;
        let begun = self
            .begin_by_passkey(&assertion, &challenge, Some(half))
            .await?;
        factors.forget_half(self.pending(), ticket).await;
        Ok(begun)
    }

    async fn assertion(
        &self,
        from: IpAddr,
        purpose: &[u8],
        credential: &str,
    ) -> Result<(Assertion, Challenge), Fault> {
        let taken = self.sign_in.limits.take_from(from, Instant::now());
        taken.map_err(|wait| self.limited(wait))?;
        let assertion = given(credential, Assertion::parse)?;
        let challenge = self.known(purpose, assertion.challenge()).await?;
        Ok((assertion, challenge))
    }

    async fn begin_by_passkey(
        &self,
        assertion: &Assertion,
        challenge: &Challenge,
        half: Option<HalfSignedIn>,
    ) -> Result<Begun, Fault> {
        let whose = half.as_ref().map(|half| half.by.actor);
        let (actor, used) = self.use_of_passkey(assertion, challenge, whose).await?;
        let row: store::Actor = self.get(self.served.account, actor).await?;
        let sign_in = row.sign_in.filter(|_| !row.disabled);
        let sign_in = sign_in.ok_or_else(unknown)?;
        if half
            .as_ref()
            .is_some_and(|half| half.password_set != sign_in.password_set)
        {
            return Err(Fault::Unauthenticated);
        }
        let mut mutations: Vec<_> = half.iter().map(|half| half.by.proof()).collect();
        mutations.extend([make_room_for_session(actor), used]);
        match self.begin_session(actor, mutations).await {
            Err(Fault::Unauthenticated) => {
                self.metrics.denied_tokens.inc();
                self.log_denied_passkey(actor, &assertion.credential)
                    .await?;
                Err(unknown())
            }
            begun => begun,
        }
    }

    /// The caller proves by a passkey who they are.
    pub async fn prove_by_passkey(
        &self,
        caller: &Caller,
        from: IpAddr,
        credential: &str,
    ) -> Result<(), Fault> {
        let purpose = proof_of(caller);
        let (assertion, challenge) = self.assertion(from, &purpose, credential).await?;
        let whose = Some(caller.actor()?);
        let (_, used) = self.use_of_passkey(&assertion, &challenge, whose).await?;
        self.renew_proof(caller, vec![used]).await
    }

    /// The actor whose passkey it is, and the mutation that uses it, which the store still has to accept. With `whose`,
    /// the passkey must be that person's.
    async fn use_of_passkey(
        &self,
        assertion: &Assertion,
        challenge: &Challenge,
        whose: Option<ActorId>,
    ) -> Result<(ActorId, Mutation), Fault> {
        let found = self
            .database
            .store
            .passkey(self.served.account, &assertion.credential);
        let key = self.database.ask("passkey", found).await?;
        // "Identify the user being authenticated and verify that this user is the owner of the public key
        // credential source".
        let key = key.filter(|key| whose.is_none_or(|whose| key.actor == whose));
        let is_owner = |key: &Passkey| match &assertion.user {
            Some(user) if !user.is_empty() => user.as_slice() == key.actor.as_bytes(),
            // If the person is known, the authenticator need not say who it is.
            _ => whose.is_some(),
        };
        let Some(key) = key.filter(is_owner) else {
            self.metrics.denied_tokens.inc();
            tracing::info!("a passkey that is not known was not accepted");
            return Err(unknown());
        };
        let actor = key.actor;
        let uses = assertion.check(&self.party()?, &key.public_key);
        let uses = uses.map_err(|why| self.not_accepted(actor, why))?;
        self.spend(actor, challenge).await?;
        let credential = key.credential;
        let change = FactorChange::UsePasskey { credential, uses };
        Ok((actor, Mutation::ChangeFactor { actor, change }))
    }

    async fn log_denied_passkey(&self, actor: ActorId, credential: &[u8]) -> Result<(), Fault> {
        let found = self.database.store.passkey(self.served.account, credential);
        if self.database.ask("passkey", found).await?.is_some() {
            tracing::warn!(%actor, "a passkey has not counted on: was it copied?");
        } else {
            tracing::info!(%actor, "a passkey was removed while it was used");
        }
        Ok(())
    }

    fn not_accepted(&self, actor: ActorId, why: WebauthnError) -> Fault {
        self.metrics.denied_tokens.inc();
        tracing::info!(%actor, %why, "a passkey was not accepted");
        unknown()
    }

    async fn known(&self, purpose: &[u8], challenge: &[u8]) -> Result<Challenge, Fault> {
        let at = self.pending().clock().await?;
        let known = self.challenges().await?.known(purpose, challenge, at);
        known.ok_or_else(stale)
    }

    async fn spend(&self, actor: ActorId, challenge: &Challenge) -> Result<(), Fault> {
        let spent = &self.sign_in.spent_challenges;
        match spent.spend(self.pending(), actor, challenge).await? {
            true => Ok(()),
            false => Err(stale()),
        }
    }
}

/// The value that a script put into the form.
fn given<T>(text: &str, parse: impl FnOnce(&str) -> Result<T, WebauthnError>) -> Result<T, Fault> {
    if text.is_empty() {
        return Err(Fault::invalid(
            "credential",
            "the browser brought no passkey: that takes a browser that knows passkeys and runs the page's script",
        ));
    }
    parse(text).map_err(refused)
}

fn refused(why: WebauthnError) -> Fault {
    Fault::invalid("credential", format!("it is not accepted: {why}"))
}

fn stale() -> Fault {
    Fault::invalid(
        "credential",
        "it took too long, or was used already: try again",
    )
}

fn unknown() -> Fault {
    Fault::invalid("credential", "this portal does not accept the passkey")
}

fn descriptors(keys: &[Passkey]) -> Vec<Value> {
    let descriptor = |key: &Passkey| {
        let id = URL_SAFE_NO_PAD.encode(&key.credential);
        json!({"type": "public-key", "id": id})
    };
    keys.iter().map(descriptor).collect()
}
