//! Challenges of passkeys: each is good for one purpose, for a while, and once.

use crate::waiting::Waiting;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_ids::ActorId;
use culvert_portal_base::Fault;
use std::time::{Duration, Instant};

/// From the page to what the authenticator makes of it: to find a key in a drawer.
pub const WITHIN: Duration = Duration::from_secs(300);

/// Random bytes of a challenge, of the seconds at which it was made, and of what shows that it was made here. Web
/// Authentication asks for 16 random bytes at least (section 13.4.3).
const NONCE_LEN: usize = 16;
const TIME_LEN: usize = 8;
const TAG_LEN: usize = 16;

/// The challenges of authenticators. An answer to one is of use once, for a while, and for one
/// thing.
///
/// A challenge itself proves that it was made here, and its purpose: pages may be asked for as
/// often as anyone likes, and no record of challenges is kept. Like all that waits, it is of one
/// process.
#[derive(Debug)]
pub struct Challenges {
    key: hmac::Key,
    began: Instant,
    /// Those that were used.
    spent: Waiting<[u8; NONCE_LEN], ()>,
}

impl Challenges {
    /// With a key of its own.
    ///
    /// # Errors
    /// The operating system gave no random bytes.
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            began: Instant::now(),
            spent: Waiting::refusing("passkey_challenges", WITHIN),
        })
    }

    /// The table's name, and the number of answers that were refused because there were too many.
    pub fn refusals(&self) -> (&'static str, u64) {
        self.spent.evictions()
    }

    /// One for a purpose, in base64url.
    ///
    /// # Errors
    /// [`Fault::Internal`]: the operating system gave no random bytes.
    pub fn make(&self, purpose: &[u8], at: Instant) -> Result<String, Fault> {
        let mut challenge = vec![0; NONCE_LEN];
        getrandom::fill(&mut challenge)?;
        let seconds = at.saturating_duration_since(self.began).as_secs();
        challenge.extend(seconds.to_be_bytes());
        let tag = self.tag(purpose, &challenge);
        challenge.extend(tag);
        Ok(URL_SAFE_NO_PAD.encode(challenge))
    }

    fn tag(&self, purpose: &[u8], what: &[u8]) -> [u8; TAG_LEN] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(what);
        context.update(purpose);
        let mut tag = [0; TAG_LEN];
        tag.copy_from_slice(&context.sign().as_ref()[..TAG_LEN]);
        tag
    }

    /// The challenge, where it was made here for this purpose, and lately.
    pub fn known(&self, purpose: &[u8], challenge: &[u8], at: Instant) -> Option<Challenge> {
        let (nonce, rest) = challenge.split_first_chunk::<NONCE_LEN>()?;
        let (seconds, tag) = rest.split_first_chunk::<TIME_LEN>()?;
        let made = self.tag(purpose, &challenge[..NONCE_LEN + TIME_LEN]);
        aws_lc_rs::constant_time::verify_slices_are_equal(&made, tag).ok()?;
        let made = self.began + Duration::from_secs(u64::from_be_bytes(*seconds));
        let is_recent = at.saturating_duration_since(made) < WITHIN;
        is_recent.then_some(Challenge(*nonce))
    }

    /// Uses it up, once what answers it is known to be good: nobody else fills the memory of it. False where it was
    /// used before.
    pub fn spend(&self, actor: ActorId, challenge: &Challenge, at: Instant) -> bool {
        self.spent.put_first(&actor, challenge.0, (), at)
    }
}

/// A challenge that was made here.
#[derive(Debug)]
pub struct Challenge([u8; NONCE_LEN]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_good_once_for_a_while_and_for_its_purpose() {
        let challenges = Challenges::new().unwrap();
        let foreign = Challenges::new().unwrap();
        let at = Instant::now();
        let challenge = challenges.make(b"this", at).unwrap();
        let challenge = URL_SAFE_NO_PAD.decode(challenge).unwrap();
        assert!(challenges.known(b"that", &challenge, at).is_none());
        assert!(foreign.known(b"this", &challenge, at).is_none());
        assert!(challenges.known(b"this", &challenge, at + WITHIN).is_none());
        let known = challenges.known(b"this", &challenge, at).unwrap();
        let [one, other] = [1, 2].map(|byte| ActorId::from_bytes([byte; 16]));
        assert!(challenges.spend(one, &known, at));
        assert!(!challenges.spend(one, &known, at));
        assert!(!challenges.spend(other, &known, at));
        for bit in 0..challenge.len() * 8 {
            let mut changed = challenge.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(
                challenges.known(b"this", &changed, at).is_none(),
                "bit {bit}"
            );
        }
        assert!(challenges.known(b"this", &challenge[..30], at).is_none());
        assert!(challenges.known(b"this", b"", at).is_none());
    }

    #[test]
    fn answers_that_are_refused_because_there_are_too_many_are_counted() {
        let challenges = Challenges::new().unwrap();
        let at = Instant::now();
        let spend = |number: u16| {
            let mut nonce = [0; NONCE_LEN];
            nonce[..2].copy_from_slice(&number.to_be_bytes());
            challenges.spend(ActorId::from_bytes([1; 16]), &Challenge(nonce), at)
        };
        assert!(spend(0));
        assert_eq!(challenges.refusals(), ("passkey_challenges", 0));
        let refused = (1..1_000).filter(|number| !spend(*number)).count();
        assert!(refused > 0, "one person has a share");
        let refused = u64::try_from(refused).unwrap();
        assert_eq!(challenges.refusals(), ("passkey_challenges", refused));
    }
}
