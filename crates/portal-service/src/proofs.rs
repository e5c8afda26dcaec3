//! A fresh proof of who sits there: asked for before acts that give access or weaken a proof, and given by whatever
//! the person has.
//!
//! A browser that somebody left open, and a link that was sent to somebody (RFC 8628, §5.4), are no such proof. The store
//! keeps with a session when its person was last proven; a form that comes later waits until that was done again.

use super::authenticate::EndedSession;
use super::claims::proof_by;
use super::passkeys::Question;
use super::pending_forms::{FormOwner, PendingForm};
use super::{Caller, Service};
use culvert_ids::{ActorId, ProviderId};
use culvert_portal_auth::oidc::{self, Claims, Purpose, SignInFault};
use culvert_portal_base::{Fault, now};
use culvert_store::{self as store, Denial, Mutation, StoreError};
use std::net::IpAddr;
use std::time::Duration;
use zeroize::Zeroizing;

/// For how long a proof is fresh: to do some things one after the other, and not until after a break.
const FRESH: Duration = Duration::from_secs(10 * 60);

/// By what the caller can prove who they are.
pub struct WaysToProve {
    /// There is a password.
    pub password: bool,
    /// A code is asked for beside the password.
    pub code: bool,
    /// The question for a passkey.
    pub passkey: Option<Question>,
    /// Identity providers that know the caller.
    pub providers: Vec<(ProviderId, String)>,
}

impl Service {
    /// True if the caller was proven lately.
    pub async fn is_proven(&self, caller: &Caller) -> Result<bool, Fault> {
        let session: store::Token = self.get(caller.account(), caller.token()).await?;
        let age = session.proven.map(|proven| {
            let age_ms = now().unix_ms().saturating_sub(proven.unix_ms());
            Duration::from_millis(age_ms)
        });
        Ok(age.is_some_and(|age| age < FRESH))
    }

    /// Has a form wait. Returns what it is known by.
    pub async fn keep_form(
        &self,
        caller: &Caller,
        path: String,
        fields: Vec<(String, Zeroizing<String>)>,
    ) -> Result<String, Fault> {
        let forms = &self.sign_in.pending_forms;
        let owner = FormOwner::Session(caller.token());
        let put = forms.put(self.pending(), caller.actor()?, owner, path, fields);
        put.await
    }

    /// Has a form wait that came after its session had ended. Returns what it is known by.
    pub async fn keep_late_form(
        &self,
        ended: &EndedSession,
        path: String,
        fields: Vec<(String, Zeroizing<String>)>,
    ) -> Result<String, Fault> {
        let forms = &self.sign_in.pending_forms;
        let owner = FormOwner::Person(ended.actor);
        let put = forms.put(self.pending(), ended.actor, owner, path, fields);
        put.await
    }

    /// A form that waits for the caller, in this session or from one that has ended.
    pub async fn pending_form(
        &self,
        caller: &Caller,
        ticket: &str,
    ) -> Result<Option<PendingForm>, Fault> {
        let forms = &self.sign_in.pending_forms;
        let (actor, session) = (caller.actor()?, caller.token());
        forms.get(self.pending(), actor, session, ticket).await
    }

    /// By what the caller can prove who they are.
    pub async fn ways_to_prove(&self, caller: &Caller) -> Result<WaysToProve, Fault> {
        let sign_in = self.own_sign_in(caller).await?;
        let known = self.own_identities(caller).await?;
        let enabled = self.ways_to_sign_in().await?.into_iter();
        let providers = enabled.filter(|(id, _)| known.iter().any(|one| one.provider == *id));
        Ok(WaysToProve {
            password: sign_in.password_set.is_some(),
            code: sign_in.has_second_factor(),
            passkey: self.ask_for_own_passkey(caller).await?,
            providers: providers.collect(),
        })
    }

    /// The caller proves who they are by the password, and by a code where there is a second factor.
    pub async fn prove_by_password(
        &self,
        caller: &Caller,
        from: IpAddr,
        password: &str,
        code: &str,
    ) -> Result<(), Fault> {
        let proven = self.prove_own(caller, from, password).await?;
        let mut mutations = vec![proven.proof()];
        if self.own_sign_in(caller).await?.has_second_factor() {
            mutations.push(self.use_of(proven.actor, code).await?);
        }
        self.renew_proof(caller, mutations).await
    }

    /// Notes the proof that the mutations are.
    pub(super) async fn renew_proof(
        &self,
        caller: &Caller,
        mut mutations: Vec<Mutation>,
    ) -> Result<(), Fault> {
        let session = caller.token();
        mutations.push(Mutation::RenewProof { session });
        let written = self
            .write(caller.account(), caller.author(), mutations)
            .await;
        match written {
            Ok(_) => Ok(()),
            // Of the proof, and not of the session.
            Err(StoreError::Denied(Denial::Used | Denial::WrongSecret | Denial::Unproven)) => {
                self.metrics.denied_tokens.inc();
                tracing::info!(actor = %caller.actor()?, "a fresh proof was not accepted");
                Err(Fault::invalid(
                    "code",
                    "it was used already, or how you sign in has changed meanwhile: try again",
                ))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Sends the caller to a provider that knows them, to sign in there anew.
    pub async fn begin_proof(
        &self,
        caller: &Caller,
        from: IpAddr,
        provider: ProviderId,
        form: String,
    ) -> Result<oidc::Begun, Fault> {
        self.check_again(caller).await?;
        let known = self.own_identities(caller).await?;
        if !known.iter().any(|one| one.provider == provider) {
            let detail = format!("you are not known by {provider}");
            return Err(Fault::NotFound(detail));
        }
        // Nothing of any length is kept for who is on the way.
        let form = match self.pending_form(caller, &form).await? {
            Some(_) => form,
            None => String::new(),
        };
        let purpose = Purpose::Prove {
            actor: caller.actor()?,
            session: caller.token(),
            form,
        };
        self.begin_way(from, provider, purpose).await
    }

    /// The caller comes back from the provider.
    pub(super) async fn finish_proof(
        &self,
        caller: &Caller,
        actor: ActorId,
        known: Option<store::Identity>,
        claims: &Claims,
    ) -> Result<(), SignInFault> {
        let identity = known.filter(|known| known.actor == actor);
        let identity = identity.ok_or(SignInFault::OtherPerson)?;
        let mutations = vec![proof_by(&identity, claims)];
        Ok(self.renew_proof(caller, mutations).await?)
    }
}
