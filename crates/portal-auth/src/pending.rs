//! Things that wait for the next step of a person or a machine, in the database, since the next request may reach
//! another portal.
//!
//! A thing is found by what its browser or machine shows. The database has a digest of that alone, and the value is
//! sealed by a key that is made of it. If it is a secret, the database by itself opens nothing.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::digest::{Context, SHA256};
use culvert_fair::Subscriber;
use culvert_ids::{AccountId, ActorId};
use culvert_portal_base::{Evictions, Fault, Metrics};
use culvert_store::{
    AttemptKey, AttemptLimit, MAX_PENDING_LEN, NewPending, Pending, PendingBounds, PendingKey,
    PendingKind, PendingStore, PutPending, SecretBytes, StoreError, WhenThere,
};
use culvert_wire::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Write};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The name in the log for a person whose share was too large: the log names no person.
const PERSON: &str = "a person";

/// Bytes of a seal besides the value: a nonce and the tag.
const SEAL_LEN: usize = NONCE_LEN + 16;

/// The database, and whose rows these are.
#[derive(Clone, Copy, Debug)]
pub struct PendingDb<'a> {
    store: &'a dyn PendingStore,
    account: AccountId,
    metrics: &'a Metrics,
}

impl<'a> PendingDb<'a> {
    /// The rows of an account.
    pub fn new(store: &'a dyn PendingStore, account: AccountId, metrics: &'a Metrics) -> Self {
        Self {
            store,
            account,
            metrics,
        }
    }

    /// Counts a try of a secret, whichever portal it came to.
    ///
    /// # Errors
    /// [`Fault::TooMany`] where there were too many, and faults of the database.
    pub async fn take_attempt(self, limit: &Attempts, of: &[u8]) -> Result<(), Fault> {
        let key = AttemptKey::from_bytes(digest(&["attempt", limit.name], of));
        let taken = self.store.take_attempt(self.account, key, limit.limit);
        match self.ask("take_attempt", taken).await? {
            None => Ok(()),
            Some(wait) => Err(Fault::TooMany { wait }),
        }
    }

    /// The clock of the database, which is the same for all its portals.
    ///
    /// # Errors
    /// Faults of the database.
    pub async fn clock(self) -> Result<Timestamp, Fault> {
        Ok(self.ask("clock", self.store.clock()).await?)
    }

    async fn ask<T>(
        self,
        operation: &'static str,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.metrics.timed(operation, answer).await
    }
}

/// A limit on tries of a secret that all portals count together.
#[derive(Clone, Copy, Debug)]
pub struct Attempts {
    name: &'static str,
    limit: AttemptLimit,
}

impl Attempts {
    /// One try in `one_every` in the long run, and `at_once`. No other limit has the name.
    pub const fn new(name: &'static str, one_every: Duration, at_once: u32) -> Self {
        let limit = AttemptLimit { one_every, at_once };
        Self { name, limit }
    }
}

/// The pending things of one kind.
#[derive(Debug)]
pub struct PendingTable {
    kind: PendingKind,
    bounds: PendingBounds,
    lifetime: Duration,
    there: WhenThere,
    evictions: Evictions,
}

/// A thing that waits.
#[derive(Debug)]
pub struct Found<T> {
    /// Its value.
    pub value: T,
    /// Its version, for [`PendingTable::replace`].
    pub version: u64,
    /// The time since it was put there.
    pub age: Duration,
}

impl PendingTable {
    /// Of a kind, each for `lifetime`. Metrics and log call the table so. A new thing takes the place of one with its
    /// key.
    pub fn new(
        table: &'static str,
        kind: PendingKind,
        bounds: PendingBounds,
        lifetime: Duration,
    ) -> Self {
        Self {
            kind,
            bounds,
            lifetime,
            there: WhenThere::Replace,
            evictions: Evictions::of(table),
        }
    }

    /// The same. A thing that is there already stays.
    pub(super) fn keeping(
        table: &'static str,
        kind: PendingKind,
        bounds: PendingBounds,
        lifetime: Duration,
    ) -> Self {
        Self {
            there: WhenThere::Keep,
            ..Self::new(table, kind, bounds, lifetime)
        }
    }

    /// The table's name, and how many gave way to others or were refused by this portal.
    pub fn evictions(&self) -> (&'static str, u64) {
        self.evictions.counted()
    }

    /// Has something wait under what its browser or machine shows.
    ///
    /// # Errors
    /// [`Fault::TooLarge`], and faults of the database.
    pub async fn put(
        &self,
        db: PendingDb<'_>,
        subscriber: Subscriber,
        shown: &[u8],
        value: &impl Serialize,
    ) -> Result<PutPending, Fault> {
        let new = NewPending {
            kind: self.kind,
            key: self.key(shown),
            subscriber,
            value: self.seal(shown, value)?,
            lifetime: self.lifetime,
        };
        let put = db
            .store
            .put_pending(db.account, new, self.there, self.bounds);
        let put = db.ask("put_pending", put).await?;
        let too_large = match put {
            PutPending::Waits { gave_way } => gave_way,
            PutPending::Refused { .. } => Some(subscriber),
            PutPending::IsThere => None,
        };
        if let Some(holder) = too_large {
            let address = holder.address().map(|address| address.to_string());
            let whose = address.as_deref().unwrap_or(PERSON);
            self.evictions.note(whose, Instant::now());
        }
        Ok(put)
    }

    /// The thing that waits.
    pub async fn get<T: DeserializeOwned>(
        &self,
        db: PendingDb<'_>,
        shown: &[u8],
    ) -> Result<Option<Found<T>>, Fault> {
        let found = db.store.pending(db.account, self.key(shown));
        let found = db.ask("pending", found).await?;
        Ok(found.and_then(|pending| self.open(shown, &pending)))
    }

    /// Takes it: of several callers at once one gets it.
    pub async fn take<T: DeserializeOwned>(
        &self,
        db: PendingDb<'_>,
        shown: &[u8],
    ) -> Result<Option<Found<T>>, Fault> {
        let taken = db.store.take_pending(db.account, self.key(shown));
        let taken = db.ask("take_pending", taken).await?;
        Ok(taken.and_then(|pending| self.open(shown, &pending)))
    }

    /// Gives it another value, if it still has this version. Says whether it had.
    pub async fn replace(
        &self,
        db: PendingDb<'_>,
        shown: &[u8],
        version: u64,
        value: &impl Serialize,
    ) -> Result<bool, Fault> {
        let value = Some(self.seal(shown, value)?);
        self.change(db, shown, version, value).await
    }

    /// Ends it, if it still has this version. Says whether it had.
    pub async fn end(&self, db: PendingDb<'_>, shown: &[u8], version: u64) -> Result<bool, Fault> {
        self.change(db, shown, version, None).await
    }

    async fn change(
        &self,
        db: PendingDb<'_>,
        shown: &[u8],
        version: u64,
        value: Option<SecretBytes>,
    ) -> Result<bool, Fault> {
        let key = self.key(shown);
        let changed = db.store.replace_pending(db.account, key, version, value);
        Ok(db.ask("replace_pending", changed).await?)
    }

    /// Has nothing wait there. An error is just logged: it ends by itself.
    pub async fn forget(&self, db: PendingDb<'_>, shown: &[u8]) {
        let taken = db.store.take_pending(db.account, self.key(shown));
        if let Err(error) = db.ask("take_pending", taken).await {
            tracing::warn!(%error, kind = self.kind.as_str(), "forgetting what no longer waits");
        }
    }

    fn key(&self, shown: &[u8]) -> PendingKey {
        PendingKey::from_bytes(digest(&["pending key", self.kind.as_str()], shown))
    }

    fn sealing_key(&self, shown: &[u8]) -> Result<RandomizedNonceKey, Fault> {
        let parts = ["pending value", self.kind.as_str()];
        let key = Zeroizing::new(digest(&parts, shown));
        RandomizedNonceKey::new(&AES_256_GCM, key.as_slice()).map_err(Fault::internal)
    }

    fn seal(&self, shown: &[u8], value: &impl Serialize) -> Result<SecretBytes, Fault> {
        let mut length = Length(0);
        serde_json::to_writer(&mut length, value).map_err(Fault::internal)?;
        let sealed_len = length.0 + SEAL_LEN;
        if sealed_len > MAX_PENDING_LEN {
            let limit = MAX_PENDING_LEN;
            return Err(Fault::TooLarge { limit });
        }
        // Of its whole length from the beginning: a buffer that grows leaves copies behind.
        let mut sealed = Zeroizing::new(Vec::with_capacity(sealed_len));
        serde_json::to_writer(&mut *sealed, value).map_err(Fault::internal)?;
        let key = self.sealing_key(shown)?;
        let nonce = key.seal_in_place_append_tag(Aad::empty(), &mut *sealed);
        let nonce = nonce.map_err(Fault::internal)?;
        sealed.extend_from_slice(nonce.as_ref());
        Ok(SecretBytes::from(sealed))
    }

    /// A value that can't be read was written by another version of the portal: its person begins anew.
    fn open<T: DeserializeOwned>(&self, shown: &[u8], pending: &Pending) -> Option<Found<T>> {
        let value = self.opened(shown, pending.value.expose());
        if value.is_none() {
            let kind = self.kind.as_str();
            tracing::warn!(
                kind,
                "what waited was written by another version of the portal"
            );
        }
        Some(Found {
            value: value?,
            version: pending.version,
            age: pending.age,
        })
    }

    fn opened<T: DeserializeOwned>(&self, shown: &[u8], sealed: &[u8]) -> Option<T> {
        let (sealed, nonce) = sealed.split_last_chunk::<NONCE_LEN>()?;
        let mut sealed = Zeroizing::new(sealed.to_vec());
        let key = self.sealing_key(shown).ok()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = key.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
        serde_json::from_slice(plain).ok()
    }
}

/// A person as a holder of things.
#[must_use]
pub fn person(actor: ActorId) -> Subscriber {
    let [a, b, c, d, e, f, g, h, ..] = digest(&["person"], actor.as_bytes());
    Subscriber::key(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
}

/// A digest of one purpose: no other purpose has the same for anything. Names have no zero.
fn digest(purpose: &[&str], of: &[u8]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in ["culvert"].iter().chain(purpose) {
        context.update(part.as_bytes());
        context.update(&[0]);
    }
    context.update(of);
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// Counts bytes.
struct Length(usize);

impl Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_store::Memory;
    use culvert_store::WhenFull;

    const BOUNDS: PendingBounds = PendingBounds {
        all: 10,
        of_one: 10,
        full: WhenFull::LargestGivesWay,
    };

    fn table(kind: PendingKind) -> PendingTable {
        PendingTable::new("test", kind, BOUNDS, Duration::from_secs(60))
    }

    #[tokio::test]
    async fn what_waits_is_opened_by_what_is_shown_for_it_alone() {
        let memory = Memory::default();
        let forms = table(PendingKind::Form);
        let planted = "planted-password";
        let subscriber = Subscriber::key(1);
        let put = forms.put(memory.db(), subscriber, b"ticket", &planted);
        assert_eq!(put.await, Ok(PutPending::Waits { gave_way: None }));
        let found = forms.get::<String>(memory.db(), b"ticket").await.unwrap();
        assert_eq!(found.unwrap().value, planted);
        let other = forms.get::<String>(memory.db(), b"ticket2").await.unwrap();
        assert!(other.is_none());
        let kind = table(PendingKind::Enrolment);
        let other = kind.get::<String>(memory.db(), b"ticket").await.unwrap();
        assert!(other.is_none(), "each kind has keys of its own");

        let rows = memory.values();
        let [stored] = rows.as_slice() else {
            panic!("one row");
        };
        let holds = |part: &str| {
            stored
                .windows(part.len())
                .any(|bytes| bytes == part.as_bytes())
        };
        assert!(!holds("planted") && !holds("ticket"));
        let opened = |shown: &[u8], stored: &[u8]| forms.opened::<String>(shown, stored);
        assert_eq!(opened(b"ticket", stored).as_deref(), Some(planted));
        assert_eq!(opened(b"tickef", stored), None);
        for bit in 0..stored.len() * 8 {
            let mut changed = stored.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opened(b"ticket", &changed), None, "bit {bit}");
        }
        assert_eq!(opened(b"ticket", b""), None);
    }

    #[tokio::test]
    async fn a_value_of_another_form_is_as_if_it_were_not_there() {
        let memory = Memory::default();
        let table = table(PendingKind::Form);
        let put = table.put(memory.db(), Subscriber::key(1), b"ticket", &"text");
        put.await.unwrap();
        let found = table.get::<u64>(memory.db(), b"ticket").await.unwrap();
        assert!(found.is_none());
    }

    #[tokio::test]
    async fn a_value_that_is_too_long_is_refused() {
        let memory = Memory::default();
        let table = table(PendingKind::Form);
        // Two quotation marks are of it.
        for (len, fits) in [
            (MAX_PENDING_LEN - SEAL_LEN - 2, true),
            (MAX_PENDING_LEN - SEAL_LEN - 1, false),
        ] {
            let value = "x".repeat(len);
            let put = table.put(memory.db(), Subscriber::key(1), b"ticket", &value);
            let put = put.await;
            let limit = MAX_PENDING_LEN;
            match fits {
                true => assert!(put.is_ok(), "{put:?}"),
                false => assert_eq!(put, Err(Fault::TooLarge { limit })),
            }
        }
    }

    #[tokio::test]
    async fn tries_of_two_limits_and_of_two_names_are_counted_apart() {
        let memory = Memory::default();
        let [codes, names] =
            ["codes", "names"].map(|name| Attempts::new(name, Duration::from_secs(60), 1));
        let db = memory.db();
        assert_eq!(db.take_attempt(&codes, b"ada").await, Ok(()));
        let wait = Duration::from_secs(60);
        let again = db.take_attempt(&codes, b"ada").await;
        assert_eq!(again, Err(Fault::TooMany { wait }));
        assert_eq!(db.take_attempt(&codes, b"bob").await, Ok(()));
        assert_eq!(db.take_attempt(&names, b"ada").await, Ok(()));
    }
}
