//! The state of second factors between a person's requests: sign-ins that lack a code, and secrets that no code has
//! confirmed.

use super::signed_in::ByPassword;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_ids::{ActorId, TokenId};
use culvert_portal_auth::totp::SECRET_LEN;
use culvert_portal_auth::{Attempts, PendingDb, PendingTable, person};
use culvert_portal_base::Fault;
use culvert_store::{PendingBounds, PendingKind, SecretBytes, WhenFull};
use culvert_wire::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use zeroize::Zeroizing;

/// The limit on codes tried for one person. Someone who has the password gets 288 guesses a day. Each
/// guess is right with a chance of three in a million, since three codes are good at any time: 0.09 % a
/// day.
const CODES: Attempts = Attempts::new("codes", Duration::from_secs(300), 10);

/// Codes that are tried with one password given before.
const CODES_PER_PASSWORD: u32 = 5;

/// From the password to the code: to find a phone and unlock it.
const CODE_WITHIN: Duration = Duration::from_secs(300);

/// From the picture to the code that confirms it: to install an app.
const ENROL_WITHIN: Duration = Duration::from_secs(900);

/// Random bytes of what stands for a password that was right.
const TICKET_LEN: usize = 32;

/// Things of one kind at once: everybody of a large organisation in the same minutes. Of some 800 bytes each they take
/// 3 MiB of the database. Of one person: a few browsers, each of which began a few times.
const BOUNDS: PendingBounds = PendingBounds {
    all: 4_096,
    of_one: 64,
    full: WhenFull::LargestGivesWay,
};

/// State that is kept between a person's requests.
#[derive(Debug)]
pub(super) struct Factors {
    /// People whose password was right, under what their browser shows for it.
    half_signed_in: PendingTable,
    /// Secrets that no code has confirmed, under the session that asked for them.
    enrolments: PendingTable,
}

#[derive(Clone, Debug)]
pub(super) struct HalfSignedIn {
    pub(super) by: ByPassword,
    /// Since when it was the password.
    pub(super) password_set: Option<Timestamp>,
}

/// The same as the database has it.
#[derive(Serialize, Deserialize)]
struct HalfRow {
    actor: ActorId,
    /// The verifier, which the database has anyway.
    verifier: Zeroizing<Vec<u8>>,
    password_set: Option<Timestamp>,
    attempts_left: u32,
}

impl From<HalfRow> for HalfSignedIn {
    fn from(row: HalfRow) -> Self {
        let by = ByPassword {
            actor: row.actor,
            verifier: SecretBytes::from(row.verifier),
        };
        let password_set = row.password_set;
        Self { by, password_set }
    }
}

impl Default for Factors {
    fn default() -> Self {
        let table = |name, kind, lifetime| PendingTable::new(name, kind, BOUNDS, lifetime);
        Self {
            half_signed_in: table("half_sign_ins", PendingKind::HalfSignIn, CODE_WITHIN),
            enrolments: table(
                "second_factor_enrolments",
                PendingKind::Enrolment,
                ENROL_WITHIN,
            ),
        }
    }
}

impl Factors {
    /// A code that is tried for a person.
    ///
    /// # Errors
    /// [`Fault::TooMany`], and faults of the database.
    pub(super) async fn take_code(db: PendingDb<'_>, actor: ActorId) -> Result<(), Fault> {
        db.take_attempt(&CODES, actor.as_bytes()).await
    }

    /// Keeps that a password was right, which was set at `password_set`. Returns the ticket for the code.
    pub(super) async fn put_half(
        &self,
        db: PendingDb<'_>,
        by: &ByPassword,
        password_set: Option<Timestamp>,
    ) -> Result<Zeroizing<String>, Fault> {
        let mut random = Zeroizing::new([0; TICKET_LEN]);
        getrandom::fill(random.as_mut_slice())?;
        let ticket = Zeroizing::new(URL_SAFE_NO_PAD.encode(*random));
        let half = HalfRow {
            actor: by.actor,
            verifier: Zeroizing::new(by.verifier.expose().to_vec()),
            password_set,
            attempts_left: CODES_PER_PASSWORD,
        };
        let put = self
            .half_signed_in
            .put(db, person(by.actor), ticket.as_bytes(), &half);
        put.await?;
        Ok(ticket)
    }

    /// The half-finished sign-in of this ticket, whose password was right.
    pub(super) async fn half(
        &self,
        db: PendingDb<'_>,
        ticket: &str,
    ) -> Result<Option<HalfSignedIn>, Fault> {
        let found = self
            .half_signed_in
            .get::<HalfRow>(db, ticket.as_bytes())
            .await?;
        Ok(found.map(|found| found.value.into()))
    }

    /// The same, for one more code. After the last one, the password must be given again.
    pub(super) async fn half_for_code(
        &self,
        db: PendingDb<'_>,
        ticket: &str,
    ) -> Result<Option<HalfSignedIn>, Fault> {
        let shown = ticket.as_bytes();
        // Each other caller who comes first leaves one code less, so that one of these is the first or there is none.
        for _ in 0..=CODES_PER_PASSWORD {
            let Some(found) = self.half_signed_in.get::<HalfRow>(db, shown).await? else {
                return Ok(None);
            };
            let attempts_left = found.value.attempts_left.saturating_sub(1);
            let half = HalfRow {
                attempts_left,
                ..found.value
            };
            let version = found.version;
            let is_counted = match attempts_left {
                0 => self.half_signed_in.end(db, shown, version).await?,
                _ => {
                    self.half_signed_in
                        .replace(db, shown, version, &half)
                        .await?
                }
            };
            if is_counted {
                return Ok(Some(half.into()));
            }
        }
        Ok(None)
    }

    pub(super) async fn forget_half(&self, db: PendingDb<'_>, ticket: &str) {
        self.half_signed_in.forget(db, ticket.as_bytes()).await;
    }

    /// Keeps a secret until a code of the same session confirms it.
    pub(super) async fn put_enrolment(
        &self,
        db: PendingDb<'_>,
        actor: ActorId,
        session: TokenId,
        secret: &SecretBytes,
    ) -> Result<(), Fault> {
        let (shown, secret) = (session.as_bytes(), secret.expose());
        let put = self.enrolments.put(db, person(actor), shown, &secret);
        put.await.map(drop)
    }

    /// The secret that the session has to confirm.
    pub(super) async fn enrolment(
        &self,
        db: PendingDb<'_>,
        session: TokenId,
    ) -> Result<Option<SecretBytes>, Fault> {
        let found = self
            .enrolments
            .get::<[u8; SECRET_LEN]>(db, session.as_bytes())
            .await?;
        Ok(found.map(|found| {
            let secret = Zeroizing::new(found.value);
            SecretBytes::new(secret.to_vec())
        }))
    }

    pub(super) async fn forget_enrolment(&self, db: PendingDb<'_>, session: TokenId) {
        self.enrolments.forget(db, session.as_bytes()).await;
    }

    /// The number of entries of each table that gave way to others.
    pub(super) fn evictions(&self) -> [(&'static str, u64); 2] {
        [self.half_signed_in.evictions(), self.enrolments.evictions()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_db::TestDb;

    fn by(byte: u8) -> ByPassword {
        ByPassword {
            actor: ActorId::from_bytes([byte; 16]),
            verifier: SecretBytes::new(b"verifier".to_vec()),
        }
    }

    #[tokio::test]
    async fn what_gave_way_is_counted_for_each_table() {
        let (test, factors) = (TestDb::new().await, Factors::default());
        let actor = ActorId::from_bytes([1; 16]);
        // A person has 64 at once.
        for number in 0..66 {
            let session = TokenId::from_bytes([number; 16]);
            let secret = SecretBytes::new(vec![number; SECRET_LEN]);
            let put = factors.put_enrolment(test.db(), actor, session, &secret);
            put.await.unwrap();
        }
        let counted = [("half_sign_ins", 0), ("second_factor_enrolments", 2)];
        assert_eq!(factors.evictions(), counted);
        let stored = async |number: u8| {
            let session = TokenId::from_bytes([number; 16]);
            factors.enrolment(test.db(), session).await.unwrap()
        };
        assert_eq!(stored(1).await, None, "the oldest gave way");
        assert_eq!(stored(2).await, Some(SecretBytes::new(vec![2; SECRET_LEN])));
    }

    #[tokio::test]
    async fn one_password_is_good_for_five_codes_whoever_counts_them() {
        let test = TestDb::new().await;
        // Two portals on one database.
        let (one, other) = (Factors::default(), Factors::default());
        let ticket = one.put_half(test.db(), &by(1), None).await.unwrap();
        let half = other.half(test.db(), &ticket).await.unwrap().unwrap();
        assert_eq!(half.by.actor, by(1).actor);
        assert_eq!(half.by.verifier, by(1).verifier);
        let mut counted = 0;
        for _ in 0..5 {
            let (a, b) = tokio::join!(
                one.half_for_code(test.db(), &ticket),
                other.half_for_code(test.db(), &ticket),
            );
            counted += [a, b].into_iter().filter_map(|half| half.unwrap()).count();
        }
        assert_eq!(counted, 5);
        assert!(one.half(test.db(), &ticket).await.unwrap().is_none());
    }
}
