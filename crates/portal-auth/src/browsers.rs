//! Browsers in which a person has given the right password before: device cookies, as OWASP describes them.
//!
//! Anyone who knows a name can use up the guesses that everybody has under it, and those of an
//! address that many share. A browser with a mark has guesses of its own, so that the person still
//! gets in. No record of marks is kept.

use crate::pending::{Attempts, PendingDb};
use aws_lc_rs::{constant_time, hmac};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_ids::{ActorId, TokenId};
use culvert_portal_base::Fault;
use std::fmt;
use zeroize::Zeroizing;

/// Guesses of a browser: as many as an address has. They are of use for one name, and all portals count them together.
const GUESSES: Attempts = Attempts::new(
    "browsers",
    crate::ONE_SIGN_IN_EVERY,
    crate::SIGN_INS_AT_ONCE,
);

const NONCE_LEN: usize = 16;
const TAG_LEN: usize = 32;

/// Somebody who is known before the password is checked: a browser, a person who has signed in, or a set-up token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Known([u8; NONCE_LEN]);

impl From<ActorId> for Known {
    fn from(actor: ActorId) -> Self {
        Self(*actor.as_bytes())
    }
}

impl From<TokenId> for Known {
    fn from(token: TokenId) -> Self {
        Self(*token.as_bytes())
    }
}

/// Makes and checks the marks of browsers.
pub struct Browsers {
    key: hmac::Key,
}

impl fmt::Debug for Browsers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Browsers").finish_non_exhaustive()
    }
}

impl Browsers {
    /// With the key of all marks.
    pub fn new(key: &[u8; 32]) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
        }
    }

    /// The mark of a browser in which the password of this name was right.
    pub fn mark(&self, name: &str) -> Result<Zeroizing<String>, Fault> {
        let mut mark = Zeroizing::new([0; NONCE_LEN + TAG_LEN]);
        let (nonce, tag) = mark.split_at_mut(NONCE_LEN);
        getrandom::fill(nonce)?;
        tag.copy_from_slice(self.tag(nonce, name).as_ref());
        Ok(Zeroizing::new(URL_SAFE_NO_PAD.encode(*mark)))
    }

    /// The browser that shows a mark of this portal for this name.
    pub fn known(&self, mark: &str, name: &str) -> Option<Known> {
        let mut bytes = Zeroizing::new([0; NONCE_LEN + TAG_LEN]);
        let length = URL_SAFE_NO_PAD.decode_slice(mark, bytes.as_mut_slice());
        if length != Ok(NONCE_LEN + TAG_LEN) {
            return None;
        }
        let (nonce, tag) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let made = self.tag(nonce, name);
        constant_time::verify_slices_are_equal(made.as_ref(), tag).ok()?;
        Some(Known(*nonce))
    }

    /// Takes a guess of somebody who is known.
    ///
    /// # Errors
    /// [`Fault::TooMany`] where there were too many, and faults of the database.
    pub async fn take(db: PendingDb<'_>, known: Known) -> Result<(), Fault> {
        db.take_attempt(&GUESSES, &known.0).await
    }

    fn tag(&self, nonce: &[u8], name: &str) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        // Of a length that is always the same, so that nothing of it can be taken for a part of the name.
        context.update(nonce);
        context.update(name.as_bytes());
        context.sign()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_store::Memory;

    #[test]
    fn a_mark_is_good_for_its_name_at_its_portal_and_unchanged() {
        let browsers = Browsers::new(&[1; 32]);
        let mark = browsers.mark("ada").ok().unwrap();
        assert!(browsers.known(&mark, "ada").is_some());
        assert!(browsers.known(&mark, "bob").is_none());
        assert!(Browsers::new(&[2; 32]).known(&mark, "ada").is_none());
        let again = Browsers::new(&[1; 32]);
        assert!(again.known(&mark, "ada").is_some(), "after a restart too");
        let bytes = URL_SAFE_NO_PAD.decode(mark.as_str()).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let changed = URL_SAFE_NO_PAD.encode(changed);
            assert!(browsers.known(&changed, "ada").is_none(), "bit {bit}");
        }
        for text in ["", "!", &mark[1..], &format!("{}AAAA", *mark)] {
            assert!(browsers.known(text, "ada").is_none(), "{text}");
        }
    }

    #[tokio::test]
    async fn each_browser_has_guesses_of_its_own_and_no_more() {
        let browsers = Browsers::new(&[1; 32]);
        let [one, other] = [(), ()].map(|()| {
            let mark = browsers.mark("ada").ok().unwrap();
            browsers.known(&mark, "ada").unwrap()
        });
        let memory = Memory::default();
        for _ in 0..crate::SIGN_INS_AT_ONCE {
            assert_eq!(Browsers::take(memory.db(), one).await, Ok(()));
        }
        let refused = Browsers::take(memory.db(), one).await;
        assert!(matches!(refused, Err(Fault::TooMany { .. })), "{refused:?}");
        assert_eq!(Browsers::take(memory.db(), other).await, Ok(()));
    }
}
