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

/// The keys whose tokens count, the newest first.
#[derive(Default)]
pub(crate) struct TokenKeys(Vec<SymmetricKey<V4>>);

impl TokenKeys {
    /// Puts a key first. Those before it count on, up to [`MAX_KEYS`].
    pub(crate) fn add(&mut self, key: &PresharedKey) {
        let Ok(key) = SymmetricKey::from(key.as_bytes()) else {
            return;
        };
        self.0.retain(|known| *known != key);
        self.0.insert(0, key);
        self.0.truncate(MAX_KEYS);
    }

    /// The claims of a token that was made with one of the keys, for this relay and port, and counts now.
    ///
    /// # Errors
    /// The reason for which it does not count.
    pub(crate) fn open(
        &self,
        token: &str,
        relay: Option<RelayId>,
        port: u16,
        now: UnixTime,
    ) -> Result<RelayClaims, RefusalReason> {
        let token =
            UntrustedToken::<Local, V4>::try_from(token).map_err(|_| RefusalReason::Token)?;
        let opened = self
            .0
            .iter()
            .find_map(|key| LocalToken::decrypt(key, &token, None, None).ok())
            .ok_or(RefusalReason::Token)?;
        let claims: RelayClaims =
            serde_json::from_str(opened.payload()).map_err(|_| RefusalReason::Token)?;
        if Some(claims.relay) != relay || claims.port != port {
            return Err(RefusalReason::OtherRelay);
        }
        if expiry(&claims) <= now || is_of_future(claims.iat, now) {
            return Err(RefusalReason::Expired);
        }
        Ok(claims)
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
