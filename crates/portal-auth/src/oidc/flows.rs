//! The people on the way to a provider: from the page for signing in to the answer, once, in one
//! browser.

use super::fault::SignInFault;
use crate::pending::{PendingDb, PendingTable};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_fair::Subscriber;
use culvert_ids::{ActorId, ProviderId, TokenId};
use culvert_portal_base::Fault;
use culvert_store::{PendingBounds, PendingKind, WhenFull};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The page of the console that approves machines.
pub const DEVICE_PAGE: &str = "/device";

/// The longest time on the way: finding a second factor included.
const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// The time for which the portal remembers them: a person who is a little late is told that it was
/// too late.
const REMEMBERED: Duration = Duration::from_secs(2 * LIFETIME.as_secs());

/// The bounds of people on the way at once. Of some 1.4 KiB each they take 5.6 MiB of the database. One subscriber
/// begins 80 in [`LIFETIME`] (`SIGN_INS_AT_ONCE`) at each portal, and a /48 four times as many. If its share or all is
/// full, the oldest of the largest holder has to begin anew.
const BOUNDS: PendingBounds = PendingBounds {
    all: 4_096,
    of_one: 128,
    full: WhenFull::LargestGivesWay,
};

/// Those on the way, by their state. Each is kept for [`REMEMBERED`].
#[derive(Debug)]
pub struct Flows(PendingTable);

/// Somebody on the way.
pub struct Flow {
    /// The provider.
    pub provider: ProviderId,
    /// The purpose.
    pub purpose: Purpose,
    pub(super) nonce: String,
    pub(super) verifier: Zeroizing<String>,
    /// The time between leaving and coming back, by the database's clock.
    away: Duration,
    came_back: Instant,
}

/// Somebody on the way, as the database has it.
#[derive(Serialize, Deserialize)]
struct FlowRow {
    provider: ProviderId,
    purpose: Purpose,
    nonce: String,
    verifier: Zeroizing<String>,
    /// The hash of what the browser keeps.
    browser: [u8; 32],
}

/// The purpose for which somebody goes to a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        self.away + self.came_back.elapsed()
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
        let kind = PendingKind::ProviderFlow;
        Self(PendingTable::new(
            "provider_flows",
            kind,
            BOUNDS,
            REMEMBERED,
        ))
    }
}

impl Flows {
    pub(super) async fn begin(
        &self,
        db: PendingDb<'_>,
        from: IpAddr,
        provider: ProviderId,
        purpose: Purpose,
    ) -> Result<Begun, Fault> {
        let (state, nonce) = (random()?, random()?);
        let (verifier, browser) = (random()?, random()?);
        let flow = FlowRow {
            provider,
            purpose,
            nonce: nonce.to_string(),
            verifier: verifier.clone(),
            browser: hash(&browser),
        };
        let put = self
            .0
            .put(db, Subscriber::of(from), state.as_bytes(), &flow);
        // Nobody is refused: the oldest gives way.
        put.await?;
        Ok(Begun {
            url: String::new(),
            // RFC 7636 §4.2: the SHA-256 of the verifier's text.
            challenge: URL_SAFE_NO_PAD.encode(hash(&verifier)),
            browser,
            state: state.to_string(),
            nonce: nonce.to_string(),
        })
    }

    /// The number of flows that gave way to others.
    pub fn evictions(&self) -> (&'static str, u64) {
        self.0.evictions()
    }

    /// The flow of a browser that comes back. The state is used up even if something is wrong.
    pub async fn take(
        &self,
        db: PendingDb<'_>,
        state: &str,
        browser: Option<&str>,
    ) -> Result<Flow, SignInFault> {
        let taken = self.0.take::<FlowRow>(db, state.as_bytes()).await?;
        let taken = taken.ok_or(SignInFault::UnknownState)?;
        let flow = taken.value;
        if browser.map(hash) != Some(flow.browser) {
            return Err(SignInFault::ForeignState);
        }
        if taken.age >= LIFETIME {
            return Err(SignInFault::ExpiredState);
        }
        Ok(Flow {
            provider: flow.provider,
            purpose: flow.purpose,
            nonce: flow.nonce,
            verifier: flow.verifier,
            away: taken.age,
            came_back: Instant::now(),
        })
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
    use crate::memory_store::Memory;

    async fn begin(flows: &Flows, memory: &Memory) -> Begun {
        let next = "/".to_owned();
        let provider = ProviderId::from_bytes([1; 16]);
        let from = IpAddr::from([192, 0, 2, 1]);
        let purpose = Purpose::SignIn { next };
        flows
            .begin(memory.db(), from, provider, purpose)
            .await
            .unwrap()
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

    #[tokio::test]
    async fn a_state_is_good_once_in_the_browser_that_began_it() {
        let (flows, memory) = (Flows::default(), Memory::default());
        // Another portal on the same database.
        let other_portal = Flows::default();
        let begun = begin(&flows, &memory).await;
        let take = async |begun: &Begun, browser: Option<&str>| {
            let taken = other_portal.take(memory.db(), &begun.state, browser);
            taken.await
        };
        let flow = take(&begun, Some(&begun.browser)).await.unwrap();
        assert_eq!(flow.nonce, begun.nonce);
        assert_eq!(
            URL_SAFE_NO_PAD.encode(hash(&flow.verifier)),
            begun.challenge
        );
        let again = take(&begun, Some(&begun.browser)).await;
        assert!(matches!(again, Err(SignInFault::UnknownState)));
        let other = begin(&flows, &memory).await;
        for browser in [None, Some(&**begun.browser), Some("")] {
            let begun = begin(&flows, &memory).await;
            let foreign = take(&begun, browser).await;
            assert!(
                matches!(foreign, Err(SignInFault::ForeignState)),
                "{browser:?}"
            );
            let spent = take(&begun, Some(&begun.browser)).await;
            assert!(matches!(spent, Err(SignInFault::UnknownState)));
        }
        assert!(take(&other, Some(&other.browser)).await.is_ok());
    }

    #[tokio::test]
    async fn a_state_is_good_for_ten_minutes() {
        let (flows, memory) = (Flows::default(), Memory::default());
        let second = Duration::from_secs(1);
        for (after, is_good) in [
            (LIFETIME - second, Ok(())),
            (LIFETIME, Err(SignInFault::ExpiredState)),
            (REMEMBERED - second, Err(SignInFault::ExpiredState)),
            (REMEMBERED, Err(SignInFault::UnknownState)),
        ] {
            let begun = begin(&flows, &memory).await;
            memory.pass(after);
            let taken = flows.take(memory.db(), &begun.state, Some(&begun.browser));
            let taken = taken.await.map(|flow| assert!(flow.age() >= after));
            assert_eq!(format!("{taken:?}"), format!("{is_good:?}"), "{after:?}");
        }
    }
}
