//! Who is on the way to a provider: from the page for signing in to the answer, once, in one browser.

use super::fault::SignInFault;
use crate::fault::Fault;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_ids::{ActorId, ProviderId, TokenId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// For how long somebody may be on the way: finding a second factor included.
const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// How many may be on the way at once. Of some 400 bytes each they take 1.6 MiB; an address begins 80 in
/// [`LIFETIME`] (`SIGN_INS_AT_ONCE`), so that fifty addresses are needed before somebody who is slow has to
/// begin anew.
const MAX_FLOWS: usize = 4_096;

/// Those on the way, by the hash of their state.
#[derive(Debug, Default)]
pub(crate) struct Flows(Mutex<HashMap<[u8; 32], Flow>>);

/// Somebody on the way.
pub(crate) struct Flow {
    pub(crate) provider: ProviderId,
    pub(crate) purpose: Purpose,
    pub(super) nonce: String,
    pub(super) verifier: Zeroizing<String>,
    /// The hash of what the browser keeps.
    browser: [u8; 32],
    began: Instant,
}

/// What somebody goes to a provider for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To sign in, and then to this page of the console.
    SignIn {
        /// A path of ours.
        next: String,
    },
    /// To be known by this provider as well, as somebody who has signed in.
    Link {
        /// Who.
        actor: ActorId,
        /// In which session.
        session: TokenId,
    },
}

/// A way that was begun.
pub(crate) struct Begun {
    /// Where the browser is sent.
    pub(crate) url: String,
    /// What it keeps, so that nobody else goes on.
    pub(crate) browser: Zeroizing<String>,
    pub(super) state: String,
    pub(super) nonce: String,
    pub(super) challenge: String,
}

impl Flows {
    pub(super) fn begin(&self, provider: ProviderId, purpose: Purpose) -> Result<Begun, Fault> {
        let (state, nonce) = (random()?, random()?);
        let (verifier, browser) = (random()?, random()?);
        let begun = Begun {
            url: String::new(),
            // RFC 7636 §4.2: the SHA-256 of the verifier's text.
            challenge: URL_SAFE_NO_PAD.encode(hash(&verifier)),
            browser: browser.clone(),
            state: state.to_string(),
            nonce: nonce.to_string(),
        };
        let flow = Flow {
            provider,
            purpose,
            nonce: nonce.to_string(),
            verifier,
            browser: hash(&browser),
            began: Instant::now(),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_FLOWS {
            all.retain(|_, flow| flow.began.elapsed() < LIFETIME);
        }
        if all.len() >= MAX_FLOWS {
            let oldest = all.iter().min_by_key(|(_, flow)| flow.began);
            let oldest = oldest.map(|(state, _)| *state);
            oldest.map(|oldest| all.remove(&oldest));
        }
        all.insert(hash(&state), flow);
        Ok(begun)
    }

    /// Who comes back. Whatever is wrong with it, the state is used up.
    pub(crate) fn take(&self, state: &str, browser: Option<&str>) -> Result<Flow, SignInFault> {
        self.take_at(state, browser, Instant::now())
    }

    fn take_at(
        &self,
        state: &str,
        browser: Option<&str>,
        now: Instant,
    ) -> Result<Flow, SignInFault> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let flow = all.remove(&hash(state));
        drop(all);
        let flow = flow.ok_or(SignInFault::UnknownState)?;
        if browser.map(hash) != Some(flow.browser) {
            return Err(SignInFault::ForeignState);
        }
        if now.saturating_duration_since(flow.began) >= LIFETIME {
            return Err(SignInFault::ExpiredState);
        }
        Ok(flow)
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Flow")
            .field("provider", &self.provider)
            .field("purpose", &self.purpose)
            .finish_non_exhaustive()
    }
}

fn hash(text: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    hash
}

/// 256 random bits, as text.
fn random() -> Result<Zeroizing<String>, Fault> {
    let mut random = Zeroizing::new([0; 32]);
    getrandom::fill(random.as_mut_slice())?;
    Ok(Zeroizing::new(URL_SAFE_NO_PAD.encode(*random)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(flows: &Flows) -> Begun {
        let next = "/".to_owned();
        let provider = ProviderId::from_bytes([1; 16]);
        flows
            .begin(provider, Purpose::SignIn { next })
            .ok()
            .unwrap()
    }

    #[test]
    fn a_state_is_good_once_in_the_browser_that_began_it() {
        let flows = Flows::default();
        let begun = begin(&flows);
        assert!(flows.take(&begun.state, Some(&begun.browser)).is_ok());
        let again = flows.take(&begun.state, Some(&begun.browser));
        assert!(matches!(again, Err(SignInFault::UnknownState)));
        let other = begin(&flows);
        for browser in [None, Some(&**begun.browser), Some("")] {
            let begun = begin(&flows);
            let foreign = flows.take(&begun.state, browser);
            assert!(
                matches!(foreign, Err(SignInFault::ForeignState)),
                "{browser:?}"
            );
            let spent = flows.take(&begun.state, Some(&begun.browser));
            assert!(matches!(spent, Err(SignInFault::UnknownState)));
        }
        assert!(flows.take(&other.state, Some(&other.browser)).is_ok());
    }

    #[test]
    fn a_state_is_good_for_ten_minutes() {
        let flows = Flows::default();
        for (after, is_good) in [(LIFETIME - Duration::from_secs(1), true), (LIFETIME, false)] {
            let begun = begin(&flows);
            let began = flows.0.lock().unwrap()[&hash(&begun.state)].began;
            let taken = flows.take_at(&begun.state, Some(&begun.browser), began + after);
            assert_eq!(taken.is_ok(), is_good);
        }
    }

    #[test]
    fn there_are_never_more_on_the_way_than_the_bound_and_the_oldest_give_way() {
        let flows = Flows::default();
        let first = begin(&flows);
        let mut last = begin(&flows);
        for _ in 0..MAX_FLOWS {
            last = begin(&flows);
        }
        assert_eq!(flows.0.lock().unwrap().len(), MAX_FLOWS);
        assert!(flows.take(&first.state, Some(&first.browser)).is_err());
        assert!(flows.take(&last.state, Some(&last.browser)).is_ok());
    }
}
