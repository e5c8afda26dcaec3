//! The state of second factors between a person's requests: sign-ins that lack a code, and secrets that no code has
//! confirmed.

use super::recovery_codes::sha256;
use super::signed_in::ByPassword;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_ids::{ActorId, TokenId};
use culvert_portal_auth::Waiting;
use culvert_portal_base::RateLimit;
use culvert_store::SecretBytes;
use culvert_wire::Timestamp;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The limit on codes tried for one person. Someone who has the password gets 288 guesses a day. Each
/// guess is right with a chance of three in a million, since three codes are good at any time: 0.09 % a
/// day.
const ONE_CODE_EVERY: Duration = Duration::from_secs(300);
const CODES_AT_ONCE: u32 = 10;

/// Codes that are tried with one password given before.
const CODES_PER_PASSWORD: u32 = 5;

/// From the password to the code: to find a phone and unlock it.
const CODE_WITHIN: Duration = Duration::from_secs(300);

/// From the picture to the code that confirms it: to install an app.
const ENROL_WITHIN: Duration = Duration::from_secs(900);

/// Random bytes of what stands for a password that was right.
const TICKET_LEN: usize = 32;

/// State that is kept between a person's requests.
#[derive(Debug)]
pub(super) struct Factors {
    /// Codes that were tried.
    codes_of: RateLimit,
    /// People whose password was right, under the SHA-256 of what their browser shows for it.
    half_signed_in: Waiting<[u8; 32], HalfSignedIn>,
    /// Secrets that no code has confirmed, under the session that asked for them.
    enrolments: Waiting<TokenId, SecretBytes>,
}

#[derive(Clone, Debug)]
pub(super) struct HalfSignedIn {
    pub(super) by: ByPassword,
    /// Since when it was the password.
    pub(super) password_set: Option<Timestamp>,
    attempts_left: u32,
}

impl Default for Factors {
    fn default() -> Self {
        Self {
            codes_of: RateLimit::new(ONE_CODE_EVERY, CODES_AT_ONCE),
            half_signed_in: Waiting::new("half_sign_ins", CODE_WITHIN),
            enrolments: Waiting::new("second_factor_enrolments", ENROL_WITHIN),
        }
    }
}

impl Factors {
    /// A code that is tried for a person; or the time to wait.
    pub(super) fn take_code(&self, actor: ActorId, at: Instant) -> Result<(), Duration> {
        self.codes_of.take_for(&actor, at)
    }

    /// Keeps that a password was right, which was set at `password_set`. Returns the ticket for the code.
    pub(super) fn put_half(
        &self,
        by: ByPassword,
        password_set: Option<Timestamp>,
    ) -> Result<Zeroizing<String>, getrandom::Error> {
        let mut random = Zeroizing::new([0; TICKET_LEN]);
        getrandom::fill(random.as_mut_slice())?;
        let ticket = Zeroizing::new(URL_SAFE_NO_PAD.encode(*random));
        let actor = by.actor;
        let half = HalfSignedIn {
            by,
            password_set,
            attempts_left: CODES_PER_PASSWORD,
        };
        let key = sha256(ticket.as_bytes());
        self.half_signed_in.put(&actor, key, half, Instant::now());
        Ok(ticket)
    }

    /// The half-finished sign-in of this ticket, whose password was right.
    pub(super) fn half(&self, ticket: &str) -> Option<HalfSignedIn> {
        let key = sha256(ticket.as_bytes());
        let half_signed_in = &self.half_signed_in;
        half_signed_in.with(&key, Instant::now(), |half| (half.clone(), true))
    }

    /// The same, for one more code. After the last one, the password must be given again.
    pub(super) fn half_for_code(&self, ticket: &str, at: Instant) -> Option<HalfSignedIn> {
        let key = sha256(ticket.as_bytes());
        self.half_signed_in.with(&key, at, |half| {
            half.attempts_left = half.attempts_left.saturating_sub(1);
            (half.clone(), half.attempts_left > 0)
        })
    }

    pub(super) fn forget_half(&self, ticket: &str) {
        self.half_signed_in.forget(&sha256(ticket.as_bytes()));
    }

    /// Keeps a secret until a code of the same session confirms it.
    pub(super) fn put_enrolment(&self, actor: ActorId, session: TokenId, secret: SecretBytes) {
        let enrolments = &self.enrolments;
        enrolments.put(&actor, session, secret, Instant::now());
    }

    /// The secret that the session has to confirm.
    pub(super) fn enrolment(&self, session: TokenId, at: Instant) -> Option<SecretBytes> {
        let enrolments = &self.enrolments;
        enrolments.with(&session, at, |secret| (secret.clone(), true))
    }

    pub(super) fn forget_enrolment(&self, session: TokenId) {
        self.enrolments.forget(&session);
    }

    /// The number of entries of each table that gave way to others.
    pub(super) fn evictions(&self) -> [(&'static str, u64); 2] {
        [self.half_signed_in.evictions(), self.enrolments.evictions()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gave_way_is_counted_for_each_table() {
        let factors = Factors::default();
        let at = Instant::now();
        // A person has 64 at once.
        for number in 0..66 {
            let session = TokenId::from_bytes([number; 16]);
            let secret = SecretBytes::new(vec![number]);
            factors.enrolments.put(&"ada", session, secret, at);
        }
        let counted = [("half_sign_ins", 0), ("second_factor_enrolments", 2)];
        assert_eq!(factors.evictions(), counted);
    }
}
