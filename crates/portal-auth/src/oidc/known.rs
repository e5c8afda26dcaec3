//! A provider as it said it is, with its keys: asked for once, and again when that is old.

use super::fault::SignInFault;
use super::fetch::Fetcher;
use super::metadata::{Keys, Metadata};
use culvert_store::Provider;
use std::time::{Duration, Instant};

/// The time for which a provider's metadata is believed.
const METADATA_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The shortest interval between requests for a provider's keys after a signature failed under all known ones: whoever
/// makes up tokens has nobody else bothered.
const KEYS_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A provider as it said it is.
#[derive(Debug)]
pub(super) struct Known {
    /// The version of the row by which it was asked.
    version: u64,
    pub(super) fetcher: Fetcher,
    pub(super) metadata: Metadata,
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

impl Known {
    /// Asks the provider.
    pub(super) async fn fetch(provider: &Provider) -> Result<Self, SignInFault> {
        let fetcher = Fetcher::trusting(provider.settings.ca.as_deref())?;
        let metadata = Metadata::fetch(&fetcher, &provider.issuer).await?;
        Ok(Self {
            version: provider.stamp.version,
            fetcher,
            metadata,
            asked: Instant::now(),
            keys: tokio::sync::Mutex::default(),
        })
    }

    /// The number of keys that it signs by.
    pub(super) async fn count_keys(&self) -> Result<usize, SignInFault> {
        Ok(self.keys().await?.keys.len())
    }

    /// True if it was asked by this row, and lately.
    pub(super) fn is_fresh(&self, provider: &Provider) -> bool {
        self.version == provider.stamp.version && self.asked.elapsed() < METADATA_LIFETIME
    }

    /// The result of `check` for a token, by the keys of this provider. Providers change keys, some
    /// without changing their ids. If no key has signed the token, keys are asked for anew, at most
    /// once a minute.
    pub(super) async fn verified<T>(
        &self,
        check: impl Fn(&Keys) -> Result<T, SignInFault>,
    ) -> Result<T, SignInFault> {
        let cached = self.keys().await?;
        let fault = match check(&cached.keys) {
            Err(fault @ SignInFault::Signature(_)) => fault,
            checked => return checked,
        };
        match self.keys_after(cached.asked).await? {
            Some(newer) => check(&newer),
            None => Err(fault),
        }
    }

    async fn keys(&self) -> Result<CachedKeys, SignInFault> {
        let mut cached = self.keys.lock().await;
        if let Some(cached) = &*cached
            && cached.asked.elapsed() < METADATA_LIFETIME
        {
            return Ok(cached.clone());
        }
        let keys = Keys::fetch(&self.fetcher, &self.metadata.jwks_uri).await?;
        let new = CachedKeys {
            keys,
            asked: Instant::now(),
            again: None,
        };
        Ok(cached.insert(new).clone())
    }

    /// Keys that were asked for later than `asked`; none where that was done a moment ago.
    async fn keys_after(&self, asked: Instant) -> Result<Option<Keys>, SignInFault> {
        let mut cached = self.keys.lock().await;
        let Some(cached) = &mut *cached else {
            return Ok(None);
        };
        if cached.asked > asked {
            return Ok(Some(cached.keys.clone()));
        }
        if cached
            .again
            .is_some_and(|at| at.elapsed() < KEYS_AGAIN_AFTER)
        {
            return Ok(None);
        }
        cached.again = Some(Instant::now());
        cached.keys = Keys::fetch(&self.fetcher, &self.metadata.jwks_uri).await?;
        cached.asked = Instant::now();
        Ok(Some(cached.keys.clone()))
    }
}
