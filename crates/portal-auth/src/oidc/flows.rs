//! The people on the way to a provider: from the page for signing in to the answer, once, in one
//! browser.

use super::fault::SignInFault;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_base::Uptime;
use culvert_fair::{Bounds, FairMap, Subscriber};
use culvert_ids::{ActorId, ProviderId, TokenId};
use culvert_portal_base::{Evictions, Fault};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The page of the console that approves machines.
pub const DEVICE_PAGE: &str = "/device";

/// The longest time on the way: finding a second factor included.
const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// The time for which the portal remembers them: a person who is a little late is told that it was
/// too late.
const REMEMBERED: Duration = Duration::from_secs(2 * LIFETIME.as_secs());

/// The bounds of people on the way at once. Of some 1.4 KiB each with their places in the table
/// they take 5.6 MiB. One subscriber begins 80 in [`LIFETIME`] (`SIGN_INS_AT_ONCE`), and a /48 four
/// times as many. If its share or all is full, the oldest of the largest holder has to begin anew.
const BOUNDS: Bounds = Bounds {
    capacity: 4_096,
    per_subscriber: 128,
    settling: Duration::ZERO,
};

/// Those on the way, by the hash of their state. Each is kept for [`REMEMBERED`].
#[derive(Debug)]
pub struct Flows {
    all: Mutex<FairMap<[u8; 32], Flow>>,
    start: Instant,
    evictions: Evictions,
}

/// Somebody on the way.
pub struct Flow {
    /// The provider.
    pub provider: ProviderId,
    /// The purpose.
    pub purpose: Purpose,
    pub(super) nonce: String,
    pub(super) verifier: Zeroizing<String>,
    /// The hash of what the browser keeps.
    browser: [u8; 32],
    began: Instant,
}

/// The purpose for which somebody goes to a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To sign in, and then to this page of the console.
    SignIn {
        /// A path of ours.
        next: String,
    },
    /// To prove once more who they are, as somebody who has signed in.
    Prove {
        /// The actor.
        actor: ActorId,
        /// The session in which they have signed in.
        session: TokenId,
        /// The form that waits for it.
        form: String,
    },
    /// To be known by this provider as well, as somebody who has signed in.
    Link {
        /// The actor.
        actor: ActorId,
        /// The session in which they have signed in.
        session: TokenId,
    },
}

impl Purpose {
    /// The provider is told to ask, even if it has a session with the person. A person on the way
    /// to the page that approves machines is asked at once, and not a second time there.
    pub(super) fn asks_anew(&self) -> bool {
        match self {
            Self::Prove { .. } => true,
            Self::SignIn { next } => next.starts_with(DEVICE_PAGE),
            Self::Link { .. } => false,
        }
    }

    /// Nothing else than a new question will do. A session that begins without one is not proven.
    pub(super) const fn must_be_anew(&self) -> bool {
        matches!(self, Self::Prove { .. })
    }
}

impl Flow {
    /// The time since the person left for the provider.
    pub(super) fn age(&self) -> Duration {
        self.began.elapsed()
    }
}

/// A way that was begun.
pub struct Begun {
    /// The URL to which the browser is sent.
    pub url: String,
    /// The secret that the browser keeps, so that nobody else goes on.
    pub browser: Zeroizing<String>,
    pub(super) state: String,
    pub(super) nonce: String,
    pub(super) challenge: String,
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            all: Mutex::new(FairMap::new(BOUNDS, REMEMBERED)),
            start: Instant::now(),
            evictions: Evictions::of("provider_flows"),
        }
    }
}

impl Flows {
    pub(super) fn begin(
        &self,
        from: IpAddr,
        provider: ProviderId,
        purpose: Purpose,
    ) -> Result<Begun, Fault> {
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
        let began = Instant::now();
        let flow = Flow {
            provider,
            purpose,
            nonce: nonce.to_string(),
            verifier,
            browser: hash(&browser),
            began,
        };
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let inserted = all.insert(Subscriber::of(from), hash(&state), flow, self.since(began));
        // Nobody is refused where nothing settles.
        let evicted = inserted.map_err(|_| Fault::TooMany { wait: LIFETIME })?;
        if evicted.is_some() {
            self.evictions.note(&from.to_string(), began);
        }
        Ok(begun)
    }

    /// The number of flows that gave way to others.
    pub fn evictions(&self) -> (&'static str, u64) {
        self.evictions.counted()
    }

    /// The flow of a browser that comes back. The state is used up even if something is wrong.
    pub fn take(&self, state: &str, browser: Option<&str>) -> Result<Flow, SignInFault> {
        self.take_at(state, browser, Instant::now())
    }

    fn take_at(
        &self,
        state: &str,
        browser: Option<&str>,
        now: Instant,
    ) -> Result<Flow, SignInFault> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let flow = all.remove(&hash(state), self.since(now));
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

    fn since(&self, now: Instant) -> Uptime {
        Uptime::after(now.saturating_duration_since(self.start))
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

    const HOME: &str = "192.0.2.1";

    fn begin(flows: &Flows) -> Begun {
        begin_at(flows, HOME)
    }

    fn begin_at(flows: &Flows, from: &str) -> Begun {
        let next = "/".to_owned();
        let provider = ProviderId::from_bytes([1; 16]);
        let begun = flows.begin(from.parse().unwrap(), provider, Purpose::SignIn { next });
        begun.ok().unwrap()
    }

    fn count(flows: &Flows) -> usize {
        let now = flows.since(Instant::now());
        flows.all.lock().unwrap().len(now)
    }

    #[test]
    fn who_signs_in_to_approve_a_machine_is_asked_anew_and_only_a_proof_must_be() {
        let signing_in = |next: &str| Purpose::SignIn {
            next: next.to_owned(),
        };
        let to_device = signing_in("/device?code=BCDF-GHJK");
        assert!(to_device.asks_anew() && !to_device.must_be_anew());
        assert!(!signing_in("/clients").asks_anew());
        let proof = Purpose::Prove {
            actor: ActorId::from_bytes([1; 16]),
            session: TokenId::from_bytes([1; 16]),
            form: String::new(),
        };
        assert!(proof.asks_anew() && proof.must_be_anew());
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
            let began = {
                let now = flows.since(Instant::now());
                let mut all = flows.all.lock().unwrap();
                all.get_mut(&hash(&begun.state), now).unwrap().began
            };
            let taken = flows.take_at(&begun.state, Some(&begun.browser), began + after);
            assert_eq!(taken.is_ok(), is_good);
        }
    }

    #[test]
    fn a_site_that_begins_without_end_has_nobody_else_begin_anew() {
        let flows = Flows::default();
        let person = begin(&flows);
        for number in 0..=u16::MAX {
            begin_at(&flows, &format!("2001:db8:1:{number:x}::1"));
        }
        assert_eq!(count(&flows), 1 + 4 * BOUNDS.per_subscriber);
        // As many networks as it takes.
        for number in 0..2 * BOUNDS.capacity {
            begin_at(&flows, &format!("198.51.{}.{}", number / 256, number % 8));
        }
        assert_eq!(count(&flows), BOUNDS.capacity);
        let newest = begin_at(&flows, "203.0.113.1");
        for begun in [person, newest] {
            assert!(flows.take(&begun.state, Some(&begun.browser)).is_ok());
        }
    }

    #[test]
    fn of_one_address_the_oldest_give_way() {
        let flows = Flows::default();
        let first = begin(&flows);
        let second = begin(&flows);
        for _ in 1..BOUNDS.per_subscriber {
            begin(&flows);
        }
        assert_eq!(count(&flows), BOUNDS.per_subscriber);
        assert_eq!(flows.evictions(), ("provider_flows", 1));
        assert!(flows.take(&first.state, Some(&first.browser)).is_err());
        assert!(flows.take(&second.state, Some(&second.browser)).is_ok());
    }
}
