//! Signing in by an identity provider that speaks OpenID Connect: the authorization code flow with PKCE,
//! state and nonce (OpenID Connect Core 1.0, RFC 7636, RFC 9207). `docs/adr/0017` says why so.
//!
//! Everything that comes from a provider is bounded in bytes and in time, and means
//! nothing until the signature of its ID token is checked.

mod claims;
mod fault;
mod fetch;
mod flows;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod groups;
mod id_token;
mod known;
mod metadata;
mod redeem;
mod user_info;

pub use fault::SignInFault;
pub use fetch::{certificates, https};
pub use flows::{Begun, DEVICE_PAGE, Flow, Purpose};
pub use groups::Groups;
pub use redeem::{Claims, ClientTrial, Lookup, Proven};

use crate::pending::PendingDb;
use culvert_ids::ProviderId;
use culvert_portal_base::Fault;
use culvert_store::{Provider, SecretBytes};
use flows::Flows;
use known::Known;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Providers of an account: those of several subsidiaries. All stand on the page for signing in, and as many are
/// remembered.
pub const MAX_PROVIDERS: usize = 32;

/// The answers of a provider that was tried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The number of keys that it signs by.
    pub keys: usize,
    /// Its answer to the client.
    pub client: ClientTrial,
}

/// The known providers, and the people on the way to one.
#[derive(Debug, Default)]
pub struct Oidc {
    /// The people on the way to a provider.
    pub flows: Flows,
    known: Mutex<BTreeMap<ProviderId, Arc<Known>>>,
}

impl Oidc {
    /// The URL to which a browser is sent that signs in by `provider`, and the secret that it keeps
    /// meanwhile.
    pub async fn begin(
        &self,
        db: PendingDb<'_>,
        from: IpAddr,
        provider: &Provider,
        purpose: Purpose,
        redirect_uri: &str,
    ) -> Result<Begun, Fault> {
        let known = self.known(provider).await?;
        let asks_anew = purpose.asks_anew();
        let begun = self.flows.begin(db, from, provider.id, purpose).await?;
        let url = known
            .metadata
            .authorization_url(provider, &begun, redirect_uri, asks_anew);
        Ok(Begun { url, ..begun })
    }

    /// The person who came back with a code, by the ID token alone.
    pub async fn redeem(
        &self,
        provider: &Provider,
        secret: Option<&SecretBytes>,
        flow: &Flow,
        code: &str,
        issuer_said: Option<&str>,
        redirect_uri: &str,
    ) -> Result<Proven, SignInFault> {
        let known = self.known(provider).await?;
        known.metadata.check_issuer(issuer_said)?;
        redeem::redeem(known, provider, secret, flow, code, redirect_uri).await
    }

    /// Asks a provider that is not in use yet: for its metadata, its keys, and whether it takes the client. Nothing of it is
    /// remembered.
    pub async fn try_out(
        provider: &Provider,
        secret: Option<&SecretBytes>,
        redirect_uri: &str,
    ) -> Result<Trial, SignInFault> {
        let known = Known::fetch(provider).await?;
        let keys = known.count_keys().await?;
        if keys == 0 {
            let text = "it publishes no key to sign ID tokens by";
            return Err(SignInFault::Wrong(text.to_owned()));
        }
        let client = redeem::try_client(&known, provider, secret, redirect_uri).await?;
        Ok(Trial { keys, client })
    }

    async fn known(&self, provider: &Provider) -> Result<Arc<Known>, SignInFault> {
        let found = self.all().get(&provider.id).cloned();
        if let Some(found) = found.filter(|found| found.is_fresh(provider)) {
            return Ok(found);
        }
        let known = Arc::new(Known::fetch(provider).await?);
        let mut all = self.all();
        if all.len() >= MAX_PROVIDERS && !all.contains_key(&provider.id) {
            // Those that are gone are among them; the others are asked once more.
            all.clear();
        }
        all.insert(provider.id, Arc::clone(&known));
        Ok(known)
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<ProviderId, Arc<Known>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
