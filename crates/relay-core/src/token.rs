//! The portal's tokens: PASETO v4.local, opened before a claim of theirs is believed.

use crate::message::RefusalReason;
use culvert_base::{PresharedKey, UnixTime};
use culvert_ids::RelayId;
use culvert_wire::Timestamp;
use culvert_wire::messages::RelayClaims;
use pasetors::Local;
use pasetors::keys::SymmetricKey;
use pasetors::token::UntrustedToken;
use pasetors::version4::{LocalToken, V4};
use std::time::Duration;

/// The most keys of tokens at once: the portal's newest and those before it, whose tokens are in use still.
pub const MAX_KEYS: usize = 4;

/// A token counts no longer than this, whatever it says: so a withdrawal may be forgotten after it.
pub const TOKEN_LIFETIME_MOST: Duration = Duration::from_secs(2 * 60 * 60);

/// A token may be dated this far ahead of this machine's clock.
pub const CLOCK_SKEW: Duration = Duration::from_secs(60);

/// The place of a token among all that the portal has issued: first by its key, then by the portal's clock.
///
/// The portal makes a key at each connection of the relay, and tokens with the last one alone. So keys tell the order of tokens
/// where the clock was set back, or another portal's shows an earlier time (ADR 0063).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Issue {
    /// The number of the key, as the relay counts them.
    pub(crate) key: u64,
    /// The time in the token.
    pub(crate) at: Timestamp,
}

/// The keys whose tokens count, the newest first.
#[derive(Default)]
pub(crate) struct TokenKeys {
    keys: Vec<(u64, SymmetricKey<V4>)>,
    /// The number of the newest key. Numbers are never used again.
    newest: u64,
}

impl TokenKeys {
    /// Puts a key first. Those before it count on, up to [`MAX_KEYS`]. One that was there keeps its number: its tokens may have
    /// been withdrawn.
    pub(crate) fn add(&mut self, key: &PresharedKey) {
        let Ok(key) = SymmetricKey::from(key.as_bytes()) else {
            return;
        };
        let known = self.keys.iter().position(|(_, known)| *known == key);
        let entry = match known {
            Some(at) => self.keys.remove(at),
            None => {
                self.newest += 1;
                (self.newest, key)
            }
        };
        self.keys.insert(0, entry);
        self.keys.truncate(MAX_KEYS);
    }

    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
    }

    /// The place of the tokens with a time of issue up to `at` among all that may have been issued by now.
    pub(crate) const fn issue_until(&self, at: Timestamp) -> Issue {
        let key = self.newest;
        Issue { key, at }
    }

    /// The claims of a token that was made with one of the keys, for this relay and port, and counts now. Also returns its place
    /// among all tokens.
    ///
    /// # Errors
    /// The reason for which it does not count.
    pub(crate) fn open(
        &self,
        token: &str,
        relay: Option<RelayId>,
        port: u16,
        now: UnixTime,
    ) -> Result<(RelayClaims, Issue), RefusalReason> {
        let token =
            UntrustedToken::<Local, V4>::try_from(token).map_err(|_| RefusalReason::Token)?;
        let (number, opened) = self
            .keys
            .iter()
            .find_map(|(number, key)| {
                let opened = LocalToken::decrypt(key, &token, None, None).ok()?;
                Some((*number, opened))
            })
            .ok_or(RefusalReason::Token)?;
        let claims: RelayClaims =
            serde_json::from_str(opened.payload()).map_err(|_| RefusalReason::Token)?;
        if Some(claims.relay) != relay || claims.port != port {
            return Err(RefusalReason::OtherRelay);
        }
        if expiry(&claims) <= now || is_of_future(claims.iat, now) {
            return Err(RefusalReason::Expired);
        }
        let issue = Issue {
            key: number,
            at: claims.iat,
        };
        Ok((claims, issue))
    }
}

/// True if the issue of a token lies in the future, whatever two clocks may differ by.
pub(crate) fn is_of_future(issued: Timestamp, now: UnixTime) -> bool {
    issued.unix_time() > now.saturating_add(CLOCK_SKEW)
}

/// The instant from which a token counts no more, [`TOKEN_LIFETIME_MOST`] after its issue at the latest.
pub(crate) fn expiry(claims: &RelayClaims) -> UnixTime {
    let latest = claims.iat.unix_time().saturating_add(TOKEN_LIFETIME_MOST);
    claims.exp.unix_time().min(latest)
}
