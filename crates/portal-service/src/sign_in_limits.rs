//! Limits on attempts to sign in: by the known browser, by the address, and under a name.

use culvert_policy::composed;
use culvert_portal_auth::{
    Attempts, Browsers, Known, ONE_SIGN_IN_EVERY, PendingDb, SIGN_INS_AT_ONCE,
};
use culvert_portal_base::{Fault, RateLimit};
use culvert_store::rules::name_key;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Attempts under one name from all addresses together, in browsers that are not known: as many as ten addresses
/// have at once, and five in the long run. It takes a botnet to use them up, and then 43,200 guesses a day. All portals
/// count them together.
const UNDER_A_NAME: Attempts = Attempts::new("names", Duration::from_secs(2), 200);

/// Limits on attempts to sign in. The one by address is of this portal: a balancer that spreads an address over several
/// portals multiplies it, and the limits under a name and of a browser still hold.
pub(super) struct SignInLimits {
    /// Browsers that are known, whose attempts count for themselves.
    browsers: Browsers,
    from_address: RateLimit,
}

impl SignInLimits {
    pub(super) fn new(browser_key: &[u8; 32]) -> Self {
        Self {
            browsers: Browsers::new(browser_key),
            from_address: RateLimit::new(ONE_SIGN_IN_EVERY, SIGN_INS_AT_ONCE),
        }
    }

    /// The browser that shows this mark of a sign-in under the name.
    pub(super) fn known(&self, mark: Option<&str>, name: &str) -> Option<Known> {
        mark.and_then(|mark| self.browsers.known(mark, &comparison_key(name)))
    }

    /// A mark for the browser in which somebody signs in under the name.
    pub(super) fn mark(&self, name: &str) -> Result<Zeroizing<String>, Fault> {
        self.browsers.mark(&comparison_key(name))
    }

    /// An attempt from an address; or the time to wait.
    pub(super) fn take_from(&self, from: IpAddr, at: Instant) -> Result<(), Duration> {
        self.from_address.take(from, at)
    }

    /// An attempt with a name and a password. A known browser has attempts of its own, which no
    /// stranger uses up.
    pub(super) async fn take(
        &self,
        db: PendingDb<'_>,
        known: Option<Known>,
        from: IpAddr,
        name: &str,
    ) -> Result<(), Fault> {
        if let Some(known) = known {
            return Browsers::take(db, known).await;
        }
        let too_early = |wait| Fault::TooMany { wait };
        self.take_from(from, Instant::now()).map_err(too_early)?;
        let key = comparison_key(name);
        db.take_attempt(&UNDER_A_NAME, key.as_bytes()).await
    }
}

/// The name in the form in which attempts to sign in are counted: one for all its spellings.
fn comparison_key(name: &str) -> String {
    composed(&name_key(&composed(name.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_under_all_spellings_of_a_name_are_counted_together() {
        for (name, others) in [
            (
                "M\u{fc}ller",
                ["M\u{dc}LLER", " mu\u{308}ller\t", "MU\u{308}LLER"],
            ),
            (
                "\u{1f0}\u{e9}",
                ["J\u{30c}\u{c9}", "j\u{30c}e\u{301}", "\u{1f0}E\u{301}"],
            ),
            (
                "\u{390}",
                ["\u{3aa}\u{301}", "\u{399}\u{308}\u{301}", "\u{3ca}\u{301}"],
            ),
        ] {
            for other in others {
                assert_eq!(comparison_key(other), comparison_key(name), "{other}");
            }
        }
    }
}
