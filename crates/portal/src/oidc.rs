//! Signing in by an identity provider that speaks OpenID Connect: the authorization code flow with PKCE,
//! state and nonce (OpenID Connect Core 1.0, RFC 7636, RFC 9207). `docs/adr/0017` says why so.
//!
//! Everything that comes from a provider is bounded in bytes and in time, and means
//! nothing until the signature of its ID token is checked.

mod fault;
mod fetch;
mod flows;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod id_token;
mod metadata;
mod redeem;

pub(crate) use fault::SignInFault;
pub(crate) use fetch::{certificates, https};
pub(crate) use flows::{Begun, DEVICE_PAGE, Flow, Purpose};
pub(crate) use redeem::Claims;

use crate::fault::Fault;
use culvert_ids::ProviderId;
use culvert_store::{Provider, SecretBytes};
use fetch::Fetcher;
use flows::Flows;
use metadata::{Keys, Metadata};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For how long a provider is believed to be as it said.
const METADATA_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// How often a provider is asked for its keys because a token names one that it did not have: whoever makes
/// up tokens has nobody else bothered.
const KEYS_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Providers that are remembered: as many as an account has.
const MAX_KNOWN: usize = crate::service::MAX_PROVIDERS;

/// What is known of providers, and who is on the way to one.
#[derive(Debug, Default)]
pub(crate) struct Oidc {
    pub(crate) flows: Flows,
    known: Mutex<BTreeMap<ProviderId, Arc<Known>>>,
}

/// A provider as it said it is.
#[derive(Debug)]
struct Known {
    /// The version of the row by which it was asked.
    version: u64,
    fetcher: Fetcher,
    metadata: Metadata,
    asked: Instant,
    keys: tokio::sync::Mutex<Option<(Keys, Instant)>>,
}

impl Oidc {
    /// Where a browser is sent that signs in by `provider`, and what it is to keep meanwhile.
    pub(crate) async fn begin(
        &self,
        from: IpAddr,
        provider: &Provider,
        purpose: Purpose,
        redirect_uri: &str,
    ) -> Result<Begun, Fault> {
        let known = self.known(provider).await?;
        let asks_anew = purpose.asks_anew();
        let begun = self.flows.begin(from, provider.id, purpose)?;
        let url = known
            .metadata
            .authorization_url(provider, &begun, redirect_uri, asks_anew);
        Ok(Begun { url, ..begun })
    }

    /// Who came back with a code.
    pub(crate) async fn redeem(
        &self,
        provider: &Provider,
        secret: Option<&SecretBytes>,
        flow: &Flow,
        code: &str,
        issuer_said: Option<&str>,
        redirect_uri: &str,
    ) -> Result<Claims, SignInFault> {
        let known = self.known(provider).await?;
        known.metadata.check_issuer(issuer_said)?;
        redeem::redeem(&known, provider, secret, flow, code, redirect_uri).await
    }

    async fn known(&self, provider: &Provider) -> Result<Arc<Known>, SignInFault> {
        let found = self.all().get(&provider.id).cloned();
        if let Some(found) = found
            && found.version == provider.stamp.version
            && found.asked.elapsed() < METADATA_LIFETIME
        {
            return Ok(found);
        }
        let fetcher = Fetcher::trusting(provider.settings.ca.as_deref())?;
        let metadata = Metadata::fetch(&fetcher, &provider.issuer).await?;
        let known = Arc::new(Known {
            version: provider.stamp.version,
            fetcher,
            metadata,
            asked: Instant::now(),
            keys: tokio::sync::Mutex::default(),
        });
        let mut all = self.all();
        if all.len() >= MAX_KNOWN && !all.contains_key(&provider.id) {
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

impl Known {
    /// The keys that tokens of this provider are signed by; asked for anew where they lack `wanted`.
    async fn keys(&self, wanted: Option<&str>) -> Result<Keys, SignInFault> {
        let mut kept = self.keys.lock().await;
        if let Some((keys, asked)) = &*kept {
            let age = asked.elapsed();
            let serves = wanted.is_none_or(|kid| keys.have(kid)) && age < METADATA_LIFETIME;
            if serves || age < KEYS_AGAIN_AFTER {
                return Ok(keys.clone());
            }
        }
        let keys = Keys::fetch(&self.fetcher, &self.metadata.jwks_uri).await?;
        *kept = Some((keys.clone(), Instant::now()));
        Ok(keys)
    }
}
