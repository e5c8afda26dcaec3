//! Challenges of passkeys: each is good for one purpose, for a while, and once.

use crate::pending::{PendingDb, PendingTable, person};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_ids::ActorId;
use culvert_portal_base::Fault;
use culvert_store::{PendingBounds, PendingKind, PutPending, WhenFull};
use culvert_wire::Timestamp;
use std::time::Duration;

/// From the page to what the authenticator makes of it: to find a key in a drawer.
pub const WITHIN: Duration = Duration::from_secs(300);

/// Random bytes of a challenge, of the time at which it was made, and of what shows that it was made here. Web
/// Authentication asks for 16 random bytes at least (section 13.4.3).
const NONCE_LEN: usize = 16;
const TIME_LEN: usize = 8;
const TAG_LEN: usize = 16;

/// By how much the clock of the database may go back while a challenge is answered: its server may fail over to another
/// one. The clocks of portals do not count: an answer may come to another portal than the one that made the challenge.
const CLOCK_BACK_MS: u64 = 60_000;

/// The time for which a used challenge is remembered. It is longer than any portal accepts it, as long as the clock of the
/// database goes back by less than half of [`WITHIN`].
const REMEMBERED: Duration = Duration::from_secs(2 * WITHIN.as_secs());

/// Used challenges at once: two for each of the 4,096 people of a large organisation who sign in within the same
/// minutes. One person has room for all tries of an address ([`crate::SIGN_INS_AT_ONCE`]) in that time. Of some 400
/// bytes each they take 3 MiB.
const BOUNDS: PendingBounds = PendingBounds {
    all: 8_192,
    of_one: 128,
    full: WhenFull::IsRefused,
};

/// The challenges of authenticators. An answer to one is of use once, for a while, and for one
/// thing.
///
/// A challenge itself proves that it was made by a portal of this database, and its purpose: pages may be asked for as
/// often as anyone likes, and no record of challenges is kept.
#[derive(Debug)]
pub struct Challenges {
    key: hmac::Key,
}

impl Challenges {
    /// With the key of all portals of the database.
    pub fn new(key: &[u8]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        Self { key }
    }

    /// One for a purpose, in base64url. `at` is the clock of the database ([`PendingDb::clock`]).
    ///
    /// # Errors
    /// [`Fault::Internal`]: the operating system gave no random bytes.
    pub fn make(&self, purpose: &[u8], at: Timestamp) -> Result<String, Fault> {
        let mut challenge = vec![0; NONCE_LEN];
        getrandom::fill(&mut challenge)?;
        challenge.extend(at.unix_ms().to_be_bytes());
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

    /// The challenge, where a portal of this database made it for this purpose, and lately. `at` as for [`Self::make`].
    pub fn known(&self, purpose: &[u8], challenge: &[u8], at: Timestamp) -> Option<Challenge> {
        let (nonce, rest) = challenge.split_first_chunk::<NONCE_LEN>()?;
        let (made_ms, tag) = rest.split_first_chunk::<TIME_LEN>()?;
        let made = self.tag(purpose, &challenge[..NONCE_LEN + TIME_LEN]);
        aws_lc_rs::constant_time::verify_slices_are_equal(&made, tag).ok()?;
        let (made_ms, now_ms) = (u64::from_be_bytes(*made_ms), at.unix_ms());
        let age = Duration::from_millis(now_ms.saturating_sub(made_ms));
        let is_recent = age < WITHIN && made_ms.saturating_sub(now_ms) <= CLOCK_BACK_MS;
        is_recent.then_some(Challenge(*nonce))
    }
}

/// A challenge that a portal of this database made.
#[derive(Debug)]
pub struct Challenge([u8; NONCE_LEN]);

/// The challenges that were used. None of them gives way: it could be used again.
#[derive(Debug)]
pub struct SpentChallenges(PendingTable);

impl Default for SpentChallenges {
    fn default() -> Self {
        let kind = PendingKind::SpentChallenge;
        Self(PendingTable::keeping(
            "passkey_challenges",
            kind,
            BOUNDS,
            REMEMBERED,
        ))
    }
}

impl SpentChallenges {
    /// The table's name, and the number of answers that were refused because there were too many.
    pub fn refusals(&self) -> (&'static str, u64) {
        self.0.evictions()
    }

    /// Uses a challenge up, once what answers it is known to be good: nobody else fills the memory of it. False where it was
    /// used before.
    ///
    /// # Errors
    /// [`Fault::TooMany`] where the person, or all together, used too many lately; faults of the database.
    pub async fn spend(
        &self,
        db: PendingDb<'_>,
        actor: ActorId,
        challenge: &Challenge,
    ) -> Result<bool, Fault> {
        match self.0.put(db, person(actor), &challenge.0, &()).await? {
            PutPending::Waits { .. } => Ok(true),
            PutPending::IsThere => Ok(false),
            PutPending::Refused { wait } if wait.is_zero() => {
                Err(Fault::TooMany { wait: REMEMBERED })
            }
            PutPending::Refused { wait } => Err(Fault::TooMany { wait }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_store::Memory;

    fn at(unix_ms: u64) -> Timestamp {
        Timestamp::from_unix_ms(unix_ms)
    }

    const NOW: u64 = 1_800_000_000_000;
    const WITHIN_MS: u64 = 300_000;

    #[tokio::test]
    async fn a_challenge_is_good_once_for_a_while_and_for_its_purpose() {
        let (one_portal, other_portal) = (Challenges::new(&[1; 32]), Challenges::new(&[1; 32]));
        let foreign = Challenges::new(&[2; 32]);
        let challenge = one_portal.make(b"this", at(NOW)).unwrap();
        let challenge = URL_SAFE_NO_PAD.decode(challenge).unwrap();
        let known = |of: &Challenges, purpose: &[u8], ms| of.known(purpose, &challenge, at(ms));
        assert!(known(&other_portal, b"that", NOW).is_none());
        assert!(known(&foreign, b"this", NOW).is_none());
        for (ms, is_good) in [
            (NOW, true),
            (NOW + WITHIN_MS - 1, true),
            (NOW + WITHIN_MS, false),
            (NOW - CLOCK_BACK_MS, true),
            (NOW - CLOCK_BACK_MS - 1, false),
        ] {
            assert_eq!(known(&other_portal, b"this", ms).is_some(), is_good, "{ms}");
        }
        let known = known(&other_portal, b"this", NOW).unwrap();
        let (memory, spent) = (Memory::default(), SpentChallenges::default());
        let [one, other] = [1, 2].map(|byte| ActorId::from_bytes([byte; 16]));
        let spend = |actor| spent.spend(memory.db(), actor, &known);
        assert_eq!(spend(one).await, Ok(true));
        assert_eq!(spend(one).await, Ok(false));
        assert_eq!(spend(other).await, Ok(false));
        memory.pass(WITHIN + Duration::from_millis(2 * CLOCK_BACK_MS));
        assert_eq!(spend(one).await, Ok(false), "the clock is past it by now");
        for bit in 0..challenge.len() * 8 {
            let mut changed = challenge.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let known = one_portal.known(b"this", &changed, at(NOW));
            assert!(known.is_none(), "bit {bit}");
        }
        let cut = one_portal.known(b"this", &challenge[..30], at(NOW));
        assert!(cut.is_none());
        assert!(one_portal.known(b"this", b"", at(NOW)).is_none());
    }

    #[tokio::test]
    async fn answers_that_are_refused_because_there_are_too_many_are_counted() {
        let (memory, spent) = (Memory::default(), SpentChallenges::default());
        let mut refused = 0;
        for number in 0..=u8::MAX {
            let challenge = Challenge([number; NONCE_LEN]);
            let actor = ActorId::from_bytes([1; 16]);
            match spent.spend(memory.db(), actor, &challenge).await {
                Err(Fault::TooMany { .. }) => refused += 1,
                spent => assert_eq!(spent, Ok(true)),
            }
        }
        let other = ActorId::from_bytes([2; 16]);
        let challenge = Challenge([0xff; NONCE_LEN]);
        let spent_by_other = spent.spend(memory.db(), other, &challenge).await;
        assert_eq!(
            spent_by_other,
            Ok(true),
            "everybody has a share of their own"
        );
        assert_eq!(
            refused,
            256 - BOUNDS.of_one as u64,
            "one person has a share"
        );
        assert_eq!(spent.refusals(), ("passkey_challenges", refused));
    }
}
