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
mod metadata;
mod redeem;
mod user_info;

pub use fault::SignInFault;
pub use fetch::{certificates, https};
pub use flows::{Begun, DEVICE_PAGE, Flow, Purpose};
pub use groups::Groups;
pub use redeem::{Claims, Lookup, Proven};

use culvert_ids::ProviderId;
use culvert_portal_base::Fault;
use culvert_store::{Provider, SecretBytes};
use fetch::Fetcher;
use flows::Flows;
use metadata::{Keys, Metadata};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time for which a provider's metadata is believed.
const METADATA_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The shortest interval between requests for a provider's keys after a signature failed under all known ones: whoever makes
/// up tokens has nobody else bothered.
const KEYS_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Providers of an account: those of several subsidiaries. All stand on the page for signing in, and as many are
/// remembered.
pub const MAX_PROVIDERS: usize = 32;

/// The known providers, and the people on the way to one.
#[derive(Debug, Default)]
pub struct Oidc {
    /// The people on the way to a provider.
    pub flows: Flows,
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
    keys: tokio::sync::Mutex<Option<CachedKeys>>,
}

/// Keys, as a provider published them.
#[derive(Clone, Debug)]
struct CachedKeys {
    keys: Keys,
    asked: Instant,
    /// The last time that it was asked because of a token that none of its keys had signed.
    again: Option<Instant>,
}

impl Oidc {
    /// The URL to which a browser is sent that signs in by `provider`, and the secret that it keeps
    /// meanwhile.
    pub async fn begin(
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

impl Known {
    /// The result of `check` for a token, by the keys of this provider. Providers change keys, some
    /// without changing their ids. If no key has signed the token, keys are asked for anew, at most
    /// once a minute.
    async fn verified<T>(
        &self,
        check: impl Fn(&Keys) -> Result<T, SignInFault>,
    ) -> Result<T, SignInFault> {
        let kept = self.keys().await?;
        let fault = match check(&kept.keys) {
            Err(fault @ SignInFault::Signature(_)) => fault,
            checked => return checked,
        };
        match self.keys_after(kept.asked).await? {
            Some(newer) => check(&newer),
            None => Err(fault),
        }
    }

    async fn keys(&self) -> Result<CachedKeys, SignInFault> {
        let mut kept = self.keys.lock().await;
        if let Some(kept) = &*kept
            && kept.asked.elapsed() < METADATA_LIFETIME
        {
            return Ok(kept.clone());
        }
        let keys = Keys::fetch(&self.fetcher, &self.metadata.jwks_uri).await?;
        let new = CachedKeys {
            keys,
            asked: Instant::now(),
            again: None,
        };
        Ok(kept.insert(new).clone())
    }

    /// Keys that were asked for later than `asked`; none where that was done a moment ago.
    async fn keys_after(&self, asked: Instant) -> Result<Option<Keys>, SignInFault> {
        let mut kept = self.keys.lock().await;
        let Some(kept) = &mut *kept else {
            return Ok(None);
        };
        if kept.asked > asked {
            return Ok(Some(kept.keys.clone()));
        }
        if kept.again.is_some_and(|at| at.elapsed() < KEYS_AGAIN_AFTER) {
            return Ok(None);
        }
        kept.again = Some(Instant::now());
        kept.keys = Keys::fetch(&self.fetcher, &self.metadata.jwks_uri).await?;
        kept.asked = Instant::now();
        Ok(Some(kept.keys.clone()))
    }
}
