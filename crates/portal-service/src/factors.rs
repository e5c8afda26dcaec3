//! The second factor of people who sign in with a password: codes of an authenticator app, and recovery
//! codes for when it is lost.

use super::changes::left;
use super::people::{Begun, ByPassword};
use super::{Caller, Service, show};
use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_ids::{ActorId, TokenId};
use culvert_portal_auth::{Waiting, totp};
use culvert_portal_base::{Fault, RateLimit, now};
use culvert_store::{
    self as store, FactorChange, MAX_RECOVERY_CODES, Mutation, SecretBytes, SignIn,
};
use culvert_wire::Timestamp;
use culvert_wire::api::Actor;
use culvert_wire::token::SecretDigest;
use data_encoding::BASE32_NOPAD;
use std::net::IpAddr;
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

/// Random bytes of a recovery code: 80 bits, 16 characters.
const RECOVERY_CODE_LEN: usize = 10;
const RECOVERY_CODE_CHARS: usize = 16;

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
    /// The number of entries of each table that gave way to others.
    pub(super) fn evictions(&self) -> [(&'static str, u64); 2] {
        [self.half_signed_in.evictions(), self.enrolments.evictions()]
    }
}

/// The result of a name and a password that belong together.
pub enum SignedIn {
    /// A session.
    Begun(Begun),
    /// A code is asked for as well. This stands for the password until then.
    CodeWanted(Zeroizing<String>),
}

/// A secret for an app, shown this once.
pub struct Enrolment {
    /// As people type it.
    pub secret: Zeroizing<String>,
    /// As apps read it out of a picture.
    pub uri: Zeroizing<String>,
}

/// Codes that are shown this once.
pub type RecoveryCodes = Vec<Zeroizing<String>>;

/// The state of the caller's own factors.
pub struct OwnFactors {
    /// Since when there is an app.
    pub since: Option<Timestamp>,
    /// The number of passkeys.
    pub passkeys: u32,
    /// There is a password that a factor can stand beside.
    pub has_password: bool,
    /// The number of recovery codes that are left.
    pub recovery_codes: u32,
    /// The account has the caller have one.
    pub is_required: bool,
}

impl OwnFactors {
    /// True if something is asked for beside the password.
    pub const fn has_any(&self) -> bool {
        self.since.is_some() || self.passkeys > 0
    }
}

impl Service {
    /// The step after the password: a session, or the question for a code.
    pub(super) async fn after_password(&self, proven: ByPassword) -> Result<SignedIn, Fault> {
        let actor = proven.actor;
        let row: store::Actor = self.get(self.served, actor).await?;
        let sign_in = row.sign_in.ok_or(Fault::Unauthenticated)?;
        if !sign_in.has_second_factor() {
            let mut mutations = vec![proven.proof()];
            mutations.extend(self.crowded_out(actor).await?);
            let begun = self.begin_session(actor, mutations).await;
            return begun.map(SignedIn::Begun).inspect_err(|fault| {
                if *fault == Fault::Unauthenticated {
                    self.metrics.denied_tokens.inc();
                    tracing::info!(%actor, "a person's sign-in changed while their password was checked");
                }
            });
        }
        let mut random = Zeroizing::new([0; TICKET_LEN]);
        getrandom::fill(random.as_mut_slice())?;
        let ticket = Zeroizing::new(URL_SAFE_NO_PAD.encode(*random));
        let half = HalfSignedIn {
            by: proven,
            password_set: sign_in.password_set,
            attempts_left: CODES_PER_PASSWORD,
        };
        let key = sha256(ticket.as_bytes());
        let now = Instant::now();
        self.factors.half_signed_in.put(&actor, key, half, now);
        Ok(SignedIn::CodeWanted(ticket))
    }

    /// Begins a session for who gave the password before, and gives a code now.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where the code is wrong, [`Fault::Unauthenticated`] where the password must be
    /// given again.
    pub async fn sign_in_by_code(
        &self,
        from: IpAddr,
        ticket: &str,
        code: &str,
    ) -> Result<Begun, Fault> {
        let at = Instant::now();
        self.sign_ins_from
            .take(from, at)
            .map_err(|wait| self.limited(wait))?;
        let key = sha256(ticket.as_bytes());
        let half = self.factors.half_signed_in.with(&key, at, |half| {
            half.attempts_left = half.attempts_left.saturating_sub(1);
            (half.clone(), half.attempts_left > 0)
        });
        let half = half.ok_or(Fault::Unauthenticated)?;
        let actor = half.by.actor;
        let row: store::Actor = self.get(self.served, actor).await?;
        let sign_in = row.sign_in.filter(|_| !row.disabled);
        let sign_in = sign_in.ok_or(Fault::Unauthenticated)?;
        if sign_in.password_set != half.password_set {
            return Err(Fault::Unauthenticated);
        }
        let mut mutations = vec![half.by.proof()];
        mutations.extend(self.crowded_out(actor).await?);
        mutations.push(self.use_of(actor, code).await?);
        match self.begin_session(actor, mutations).await {
            Ok(begun) => {
                self.factors.half_signed_in.forget(&key);
                Ok(begun)
            }
            Err(Fault::Unauthenticated) => Err(self.wrong_code(actor)),
            Err(fault) => Err(fault),
        }
    }

    /// The half-finished sign-in of this ticket, whose password was right.
    pub(super) fn half_signed_in(&self, ticket: &str) -> Option<HalfSignedIn> {
        let key = sha256(ticket.as_bytes());
        let half_signed_in = &self.factors.half_signed_in;
        half_signed_in.with(&key, Instant::now(), |half| (half.clone(), true))
    }

    pub(super) fn forget_half(&self, ticket: &str) {
        self.factors
            .half_signed_in
            .forget(&sha256(ticket.as_bytes()));
    }

    /// The mutation that uses up a code; it belongs to the write for which the code is given. That write
    /// finds out if the code was used before.
    pub(super) async fn use_of(&self, actor: ActorId, code: &str) -> Result<Mutation, Fault> {
        let taken = self.factors.codes_of.take_for(&actor, Instant::now());
        taken.map_err(|wait| self.limited(wait))?;
        let code = plain(code);
        let change = if totp::is_code(&code) {
            let secret = self.store.totp_secret(self.served, actor);
            let secret = self.ask("totp_secret", secret).await?;
            let step = secret.and_then(|secret| {
                let step = totp::step_of(secret.expose(), &code, now())?;
                Some((secret, step))
            });
            step.map(|(secret, step)| FactorChange::UseStep { secret, step })
        } else {
            let is_long_enough = code.len() == RECOVERY_CODE_CHARS;
            is_long_enough.then(|| FactorChange::UseCode(digest_of(&code)))
        };
        match change {
            Some(change) => Ok(Mutation::ChangeFactor { actor, change }),
            None => Err(self.wrong_code(actor)),
        }
    }

    fn wrong_code(&self, actor: ActorId) -> Fault {
        self.metrics.denied_tokens.inc();
        tracing::info!(%actor, "a code was not accepted");
        Fault::invalid(
            "code",
            "it is wrong, or was used already: wait for the next one",
        )
    }

    /// The state of the caller's own factors.
    pub async fn own_factors(&self, caller: &Caller) -> Result<OwnFactors, Fault> {
        let sign_in = self.own_sign_in(caller).await?;
        Ok(OwnFactors {
            since: sign_in.second_factor,
            passkeys: sign_in.passkeys,
            has_password: sign_in.password_set.is_some(),
            recovery_codes: sign_in.recovery_codes,
            is_required: self.is_required_of(caller, sign_in).await?,
        })
    }

    pub(super) async fn own_sign_in(&self, caller: &Caller) -> Result<SignIn, Fault> {
        let row: store::Actor = self.get(caller.account(), caller.actor()?).await?;
        row.sign_in.ok_or_else(|| {
            Fault::Conflict("a second factor is beside a password, and there is none".to_owned())
        })
    }

    /// The same for what stands beside a password.
    pub(super) async fn own_sign_in_by_password(&self, caller: &Caller) -> Result<SignIn, Fault> {
        let sign_in = self.own_sign_in(caller).await?;
        match sign_in.password_set {
            Some(_) => Ok(sign_in),
            None => Err(Fault::Conflict(
                "you sign in by an identity provider, which asks for what it wants: this portal has no password of yours"
                    .to_owned(),
            )),
        }
    }

    pub(super) async fn is_required_of(
        &self,
        caller: &Caller,
        sign_in: SignIn,
    ) -> Result<bool, Fault> {
        let account: store::Account = self.get(caller.account(), caller.account()).await?;
        Ok(account.settings.second_factor.binds(sign_in.role))
    }

    /// True if the caller must get a second factor before anything else.
    pub(super) async fn lacks_factor(&self, caller: &Caller) -> Result<bool, Fault> {
        let row: store::Actor = self.get(caller.account(), caller.actor()?).await?;
        match row.sign_in {
            // A person without a password signs in by a provider, which asks for the factors that
            // it wants.
            Some(sign_in) if sign_in.password_set.is_some() && !sign_in.has_second_factor() => {
                self.is_required_of(caller, sign_in).await
            }
            Some(_) | None => Ok(false),
        }
    }

    /// Makes a secret for the caller's app, which counts once a code has confirmed it. The previous
    /// factor holds until then.
    pub async fn begin_enrolment(&self, caller: &Caller) -> Result<Enrolment, Fault> {
        self.own_sign_in_by_password(caller).await?;
        let mut secret = Zeroizing::new([0; totp::SECRET_LEN]);
        getrandom::fill(secret.as_mut_slice())?;
        let name = self.own_name(caller).await?;
        self.check_again(caller).await?;
        let url = (self.portal)().url;
        let host = url.trim_start_matches("https://");
        let shown = Enrolment {
            secret: totp::as_text(secret.as_slice()),
            uri: totp::uri(secret.as_slice(), &format!("Culvert {host}"), &name),
        };
        let secret = SecretBytes::new(secret.to_vec());
        let enrolments = &self.factors.enrolments;
        enrolments.put(&caller.actor()?, caller.token(), secret, Instant::now());
        Ok(shown)
    }

    /// Has the secret count, since the app makes the right codes of it.
    pub async fn confirm_enrolment(
        &self,
        caller: &Caller,
        code: &str,
    ) -> Result<RecoveryCodes, Fault> {
        let actor = caller.actor()?;
        let at = Instant::now();
        let taken = self.factors.codes_of.take_for(&actor, at);
        taken.map_err(|wait| self.limited(wait))?;
        let key = caller.token();
        let enrolments = &self.factors.enrolments;
        let secret = enrolments.with(&key, at, |secret| (secret.clone(), true));
        let secret = secret.ok_or_else(|| {
            Fault::Conflict("it took too long, or was confirmed already: begin again".to_owned())
        })?;
        let step = totp::step_of(secret.expose(), &plain(code), now());
        let step = step.ok_or_else(|| self.wrong_code(actor))?;
        let (shown, codes) = new_codes()?;
        let change = FactorChange::Set {
            secret,
            step,
            codes,
        };
        self.write_factor(caller, change).await?;
        enrolments.forget(&key);
        Ok(shown)
    }

    /// Makes recovery codes in the place of those that the caller has.
    pub async fn new_recovery_codes(&self, caller: &Caller) -> Result<RecoveryCodes, Fault> {
        if !self.own_sign_in(caller).await?.has_second_factor() {
            return Err(Fault::Conflict(
                "recovery codes stand in for an app or a passkey: set one up first".to_owned(),
            ));
        }
        let (shown, codes) = new_codes()?;
        self.write_factor(caller, FactorChange::NewCodes(codes))
            .await?;
        Ok(shown)
    }

    /// Ends that the caller is asked for codes.
    pub async fn remove_own_factor(&self, caller: &Caller) -> Result<(), Fault> {
        let _alone = self.shutting_out.lock().await;
        let sign_in = self.own_sign_in(caller).await?;
        if sign_in.passkeys == 0 && self.is_required_of(caller, sign_in).await? {
            return Err(Fault::Conflict(
                "a second factor is required: set another app up in its place".to_owned(),
            ));
        }
        self.write_factor(caller, FactorChange::RemoveApp).await
    }

    pub(super) async fn write_factor(
        &self,
        caller: &Caller,
        change: FactorChange,
    ) -> Result<(), Fault> {
        let actor = caller.actor()?;
        let mutations = vec![Mutation::ChangeFactor { actor, change }];
        self.write(caller.account(), caller.author(), mutations)
            .await?;
        Ok(())
    }

    /// Takes a person's second factor away, for who has lost it. The sessions that the person has end.
    pub async fn reset_factor(
        &self,
        caller: &Caller,
        actor: ActorId,
        expected: Option<u64>,
    ) -> Result<Actor, Fault> {
        let _alone = self.shutting_out.lock().await;
        let row: store::Actor = self.read(caller, actor).await?;
        self.may_touch_actor(caller, actor).await?;
        let signs_in = row.sign_in.is_some();
        let version = row.stamp.version;
        let mut mutations = self.ends_of(actor).await?;
        // It changes nothing, and is refused where the row is at another version.
        mutations.push(Mutation::Update {
            entity: row.clone().into(),
            expected_version: expected.or(Some(version)),
        });
        if signs_in {
            let change = FactorChange::RemoveAll;
            mutations.push(Mutation::ChangeFactor { actor, change });
        }
        let changes = self
            .write(caller.account(), caller.author(), mutations)
            .await?;
        Ok(show::actor(left(changes, row)))
    }
}

/// A code without what people write between its characters.
fn plain(code: &str) -> Zeroizing<String> {
    let kept = code.chars().filter(|letter| !" -\t".contains(*letter));
    // No code is longer, and nothing is read further.
    let kept = kept.take(RECOVERY_CODE_CHARS + 1);
    Zeroizing::new(kept.collect::<String>().to_uppercase())
}

/// Recovery codes as people keep them, and as the store does.
pub(super) fn new_codes() -> Result<(RecoveryCodes, Vec<SecretDigest>), Fault> {
    let mut shown = Vec::with_capacity(MAX_RECOVERY_CODES);
    let mut kept = Vec::with_capacity(MAX_RECOVERY_CODES);
    for _ in 0..MAX_RECOVERY_CODES {
        let mut random = Zeroizing::new([0; RECOVERY_CODE_LEN]);
        getrandom::fill(random.as_mut_slice())?;
        let code = Zeroizing::new(BASE32_NOPAD.encode(random.as_slice()));
        kept.push(digest_of(&code));
        let mut groups = Zeroizing::new(String::with_capacity(RECOVERY_CODE_CHARS + 3));
        for (at, letter) in code.chars().enumerate() {
            if at > 0 && at % 4 == 0 {
                groups.push('-');
            }
            groups.push(letter.to_ascii_lowercase());
        }
        shown.push(groups);
    }
    Ok((shown, kept))
}

fn digest_of(code: &str) -> SecretDigest {
    SecretDigest::from_bytes(sha256(code.as_bytes()))
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn recovery_codes_are_known_however_they_are_typed() {
        let (shown, kept) = new_codes().unwrap();
        assert_eq!((shown.len(), kept.len()), (10, 10));
        let different: BTreeSet<&str> = shown.iter().map(|code| code.as_str()).collect();
        assert_eq!(different.len(), 10);
        for (code, digest) in shown.iter().zip(&kept) {
            let groups: Vec<usize> = code.split('-').map(str::len).collect();
            assert_eq!(groups, [4; 4], "{}", **code);
            for typed in [
                code.to_uppercase(),
                code.replace('-', ""),
                format!(" {} ", code.replace('-', " ")),
            ] {
                assert_eq!(digest_of(&plain(&typed)), *digest);
            }
        }
        assert_eq!(plain(&"x".repeat(1_000)).len(), RECOVERY_CODE_CHARS + 1);
    }

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
