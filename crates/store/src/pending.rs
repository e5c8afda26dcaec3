//! Things that wait for a person's or a machine's next step, and tries of secrets. All portals of a database have
//! it in common, since the next request may reach another one.
//!
//! Time is that of the database: the clock that sets an expiry also compares it, however far the clocks of portals
//! are apart.

use crate::{SecretBytes, StoreError};
use async_trait::async_trait;
use culvert_fair::Subscriber;
use culvert_ids::AccountId;
use culvert_wire::Timestamp;
use std::fmt::Debug;
use std::time::Duration;

/// Bytes of a pending value: a form of 64 KiB, which is up to twice as long as JSON, and its seal.
pub const MAX_PENDING_LEN: usize = 128 << 10;

/// The kind of a pending thing. Each has bounds of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PendingKind {
    /// A sign-in that lacks the second factor.
    HalfSignIn,
    /// The answer to a passkey's challenge that was used.
    SpentChallenge,
    /// Somebody on the way to an identity provider.
    ProviderFlow,
    /// A machine that waits for a person to approve it.
    Device,
    /// A form that waits for a proof.
    Form,
    /// The secret of an authenticator app that no code has confirmed.
    Enrolment,
}

impl PendingKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::HalfSignIn,
        Self::SpentChallenge,
        Self::ProviderFlow,
        Self::Device,
        Self::Form,
        Self::Enrolment,
    ];

    /// Its name in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HalfSignIn => "half-sign-in",
            Self::SpentChallenge => "spent-challenge",
            Self::ProviderFlow => "provider-flow",
            Self::Device => "device",
            Self::Form => "form",
            Self::Enrolment => "enrolment",
        }
    }
}

/// The key of a pending thing: a SHA-256 of its kind and of what the browser or the machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PendingKey([u8; 32]);

/// The key of tries of a secret: a SHA-256 of the limit and of what is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptKey([u8; 32]);

macro_rules! digest {
    ($name:ident) => {
        impl $name {
            /// From a digest.
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// The digest.
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }
    };
}

digest!(PendingKey);
digest!(AttemptKey);

/// A thing that is to wait.
#[derive(Clone, Debug)]
pub struct NewPending {
    /// Its kind.
    pub kind: PendingKind,
    /// Its key.
    pub key: PendingKey,
    /// The holder whose share it counts in.
    pub subscriber: Subscriber,
    /// Its value, of [`MAX_PENDING_LEN`] bytes at most.
    pub value: SecretBytes,
    /// The time for which it waits.
    pub lifetime: Duration,
}

/// The bounds of the things of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingBounds {
    /// Things at once.
    pub all: usize,
    /// Things of one subscriber; a wider network has a multiple of it ([`culvert_fair::MULTIPLES`]).
    pub of_one: usize,
    /// The rule for a thing beyond these bounds.
    pub full: WhenFull,
}

/// The rule for a thing that does not fit its bounds. The largest holder is the one that
/// [`culvert_fair::FairTable`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest thing of the largest holder gives way.
    LargestGivesWay,
    /// The same, unless the newcomer is of the largest holder itself: it is refused then.
    OwnIsRefused,
    /// It is refused, whoever holds the others.
    IsRefused,
}

/// The meaning of a key under which something waits already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenThere {
    /// The new thing takes its place.
    Replace,
    /// It stays, and the new one is not put there.
    Keep,
}

/// The result of [`PendingStore::put_pending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutPending {
    /// It waits. The other thing that gave way to it was of this holder.
    Waits {
        /// The holder.
        gave_way: Option<Subscriber>,
    },
    /// Something waits under the key already.
    IsThere,
    /// There is no room for it.
    Refused {
        /// The time until the oldest thing of its subscriber ends.
        wait: Duration,
    },
}

/// A thing that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its value.
    pub value: SecretBytes,
    /// Its version, which a change counts up.
    pub version: u64,
    /// The time since it was put there, by the clock of the database.
    pub age: Duration,
}

/// A limit on tries of a secret, by the generic cell rate algorithm (ITU-T I.371): a bucket of `at_once` tries that
/// gets one back in `one_every`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptLimit {
    /// One in this time, in the long run.
    pub one_every: Duration,
    /// So many at once.
    pub at_once: u32,
}

/// The part of the portal's database that is about sign-ins under way. None of it is configuration: it waits for no
/// change of that, and no change of that waits for it.
///
/// # Errors
/// As those of [`crate::Store`].
#[async_trait]
pub trait PendingStore: Debug + Send + Sync + 'static {
    /// Has something wait within the bounds of its kind. Things whose time is over count no more.
    ///
    /// # Errors
    /// [`StoreError::TooMany`] where the value is longer than [`MAX_PENDING_LEN`].
    async fn put_pending(
        &self,
        account: AccountId,
        new: NewPending,
        there: WhenThere,
        bounds: PendingBounds,
    ) -> Result<PutPending, StoreError>;

    /// The thing that waits under a key, until its time is over.
    async fn pending(
        &self,
        account: AccountId,
        key: PendingKey,
    ) -> Result<Option<Pending>, StoreError>;

    /// Takes what waits under a key: of any number of callers at once exactly one gets it.
    async fn take_pending(
        &self,
        account: AccountId,
        key: PendingKey,
    ) -> Result<Option<Pending>, StoreError>;

    /// Gives what waits under a key another value, or ends it, if it still has this version. False if it has another
    /// one, or is gone.
    ///
    /// # Errors
    /// As [`Self::put_pending`].
    async fn replace_pending(
        &self,
        account: AccountId,
        key: PendingKey,
        version: u64,
        value: Option<SecretBytes>,
    ) -> Result<bool, StoreError>;

    /// The clock of the database, which is the same for all its portals.
    async fn clock(&self) -> Result<Timestamp, StoreError>;

    /// Counts a try. The answer is the time to wait where there were too many; such a try is not counted.
    async fn take_attempt(
        &self,
        account: AccountId,
        key: AttemptKey,
        limit: AttemptLimit,
    ) -> Result<Option<Duration>, StoreError>;
}
