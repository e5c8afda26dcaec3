//! The messages that are not WireGuard, on the sockets of WireGuard.
//!
//! They begin with `CVR` and their kind; WireGuard's begin with 1 to 4 and two zeros. Numbers are big-endian. An answer
//! is never longer than its question, so nobody is flooded in the name of another.
//!
//! | kind | from, to | length |
//! |---|---|---|
//! | 1 [`Ask`] | end to relay or portal | 64 |
//! | 2 [`Challenge`] | its answer: a cookie, and the address that the end has from outside | 64 |
//! | 3 [`Register`] | end to relay, with that cookie and a token of the portal | up to 1,200 |
//! | 4 [`Registered`] | its answer | 38 |
//! | 5 [`Refused`] | its answer | 21 |
//! | 6 [`Unknown`] | relay to the sender of something that it does not know | 12 |
//! | 7 [`Refresh`] | end to relay: "I am still here, are you?" | 28 |
//! | 8 `Refreshed` | its answer | 28 |
//! | 9 [`Probe`] | end to end, direct or through a relay | 36 |
//! | 10 [`ProbeAnswer`](Message::ProbeAnswer) | its answer | 36 |

mod address;
mod parse;
mod refusal;
#[cfg(test)]
mod tests;

use crate::mac::{KEY_LEN, MAC_LEN, Mac, derive};
use std::net::SocketAddr;
use zeroize::Zeroizing;

pub use refusal::RefusalReason;

/// The first bytes of every message of Culvert's own.
pub const MAGIC: [u8; 3] = *b"CVR";

/// Bytes of an [`Ask`] and of its answer.
pub const ASK_LEN: usize = 64;
/// Bytes of a [`Register`] at most.
pub const REGISTER_MAX_LEN: usize = 1_200;
/// Bytes of a [`Registered`].
pub const REGISTERED_LEN: usize = 38;
/// Bytes of a [`Refused`].
pub const REFUSED_LEN: usize = 21;
/// Bytes of an [`Unknown`].
pub const UNKNOWN_LEN: usize = 12;
/// Bytes of a [`Refresh`] and of its answer.
pub const REFRESH_LEN: usize = 28;
/// Bytes of a [`Probe`] and of its answer.
pub const PROBE_LEN: usize = 36;

/// The kind byte of an [`Ask`].
pub const KIND_ASK: u8 = 1;
/// The kind byte of a [`Challenge`].
pub const KIND_CHALLENGE: u8 = 2;
/// The kind byte of a [`Register`].
pub const KIND_REGISTER: u8 = 3;
/// The kind byte of a [`Registered`].
pub const KIND_REGISTERED: u8 = 4;
/// The kind byte of a [`Refused`].
pub const KIND_REFUSED: u8 = 5;
/// The kind byte of an [`Unknown`].
pub const KIND_UNKNOWN: u8 = 6;
/// The kind byte of a [`Refresh`].
pub const KIND_REFRESH: u8 = 7;
/// The kind byte of a `Refreshed`.
pub const KIND_REFRESHED: u8 = 8;
/// The kind byte of a [`Probe`].
pub const KIND_PROBE: u8 = 9;
/// The kind byte of the answer to a [`Probe`].
pub const KIND_PROBE_ANSWER: u8 = 10;

/// Bytes of the magic and the kind.
pub(crate) const HEAD_LEN: usize = 4;
/// Bytes of a [`Register`] before its token.
const REGISTER_HEAD_LEN: usize = HEAD_LEN + 16 + 2 * MAC_LEN;

// An answer is never longer than its question.
const _: () = assert!(REGISTERED_LEN <= REGISTER_HEAD_LEN);
const _: () = assert!(REFUSED_LEN <= REGISTER_HEAD_LEN);

/// True for a datagram that is not WireGuard's: the first check of whoever receives one.
///
/// It says nothing of the rest; [`Message::parse`] does.
#[must_use]
pub fn is_culvert_message(datagram: &[u8]) -> bool {
    datagram.starts_with(&MAGIC)
}

/// The random number of a question, which its answer repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction(pub [u8; 16]);

impl Transaction {
    /// The key of the signs of life that follow this registration, of the token's key. Those of an earlier registration
    /// count no more.
    #[must_use]
    pub fn refresh_key(&self, key: &[u8; KEY_LEN]) -> Zeroizing<[u8; KEY_LEN]> {
        derive(key, &[b"culvert relay refresh", &self.0])
    }
}

/// Four bytes by which a probe's receiver is found, as a record is by its receiver index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub [u8; 4]);

/// A message of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// "From where do you see me, and what is my cookie?"
    Ask(Ask),
    /// The answer to [`Ask`].
    Challenge(Challenge),
    /// A registration.
    Register(Register<'a>),
    /// It counts.
    Registered(Registered),
    /// It does not count.
    Refused(Refused),
    /// The sender is not registered.
    Unknown(Unknown),
    /// A sign of life.
    Refresh(Refresh),
    /// Its answer.
    Refreshed(Refresh),
    /// A test of a path.
    Probe(Probe),
    /// Its answer.
    ProbeAnswer(Probe),
}

/// Asks for a cookie and for the sender's own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The number that the answer repeats.
    pub transaction: Transaction,
}

/// The answer to an [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// That of the question.
    pub transaction: Transaction,
    /// It shows, when it comes back, that the end receives at its address.
    pub cookie: Mac,
    /// The address from which the question came.
    pub mapped: SocketAddr,
}

/// Registers an end at a gateway port of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register<'a> {
    /// The number that the answer repeats.
    pub transaction: Transaction,
    /// The cookie of the relay's [`Challenge`].
    pub cookie: Mac,
    /// The PASETO of the portal.
    pub token: &'a str,
    /// Over all but itself.
    mac: Mac,
}

/// The answer to a [`Register`] that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// That of the question.
    pub transaction: Transaction,
    /// Seconds until the registration ends.
    pub lifetime_s: u16,
    mac: Mac,
}

/// The answer to a [`Register`] that does not count. It proves nothing: anybody who sees the question can send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// That of the question.
    pub transaction: Transaction,
    /// The reason.
    pub reason: RefusalReason,
}

/// The answer to a datagram of somebody who is not registered. It proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The first bytes of that datagram.
    pub beginning: [u8; 8],
}

/// A sign of life, or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// It rises with every sign of life of a registration, and begins again with the next one.
    pub counter: u64,
    mac: Mac,
}

/// A test of a path, or its answer. [`PairProbes`](crate::probe::PairProbes) authenticates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The end to which it goes.
    pub receiver: Tag,
    /// The end from which it comes.
    pub sender: Tag,
    /// A number that the answer repeats.
    pub nonce: [u8; 8],
    pub(crate) mac: Mac,
}

/// The kind's head.
const fn head(kind: u8) -> [u8; HEAD_LEN] {
    let [c, v, r] = MAGIC;
    [c, v, r, kind]
}

impl Ask {
    /// For the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; ASK_LEN] {
        let mut out = [0; ASK_LEN];
        out[..4].copy_from_slice(&head(KIND_ASK));
        out[4..20].copy_from_slice(&self.transaction.0);
        out
    }
}

impl Challenge {
    /// For the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; ASK_LEN] {
        let mut out = [0; ASK_LEN];
        out[..4].copy_from_slice(&head(KIND_CHALLENGE));
        out[4..20].copy_from_slice(&self.transaction.0);
        out[20..36].copy_from_slice(self.cookie.as_bytes());
        out[36..55].copy_from_slice(&address::encode(self.mapped));
        out
    }
}

impl Register<'_> {
    /// Writes a registration into `out`, and says how long it is.
    ///
    /// `None` if the token is too long for [`REGISTER_MAX_LEN`], or is not printable ASCII: the portal makes none such.
    pub fn write(
        transaction: Transaction,
        cookie: Mac,
        token: &str,
        key: &[u8; KEY_LEN],
        out: &mut [u8; REGISTER_MAX_LEN],
    ) -> Option<usize> {
        let len = REGISTER_HEAD_LEN + token.len();
        if !is_token(token.as_bytes()) || len > REGISTER_MAX_LEN {
            return None;
        }
        out[..4].copy_from_slice(&head(KIND_REGISTER));
        out[4..20].copy_from_slice(&transaction.0);
        out[20..36].copy_from_slice(cookie.as_bytes());
        let mac = Mac::of(key, &[&out[..36], token.as_bytes()]);
        out[36..52].copy_from_slice(mac.as_bytes());
        out[REGISTER_HEAD_LEN..len].copy_from_slice(token.as_bytes());
        Some(len)
    }

    /// A number that stands for this registration among those of one end: the beginning of its MAC.
    #[must_use]
    pub fn fingerprint(&self) -> u32 {
        let [a, b, c, d, ..] = *self.mac.as_bytes();
        u32::from_ne_bytes([a, b, c, d])
    }

    /// True if the sender has the key that the token names.
    #[must_use]
    pub fn is_by(&self, key: &[u8; KEY_LEN]) -> bool {
        let (head, Transaction(transaction)) = (head(KIND_REGISTER), &self.transaction);
        let parts: [&[u8]; 4] = [
            &head,
            transaction,
            self.cookie.as_bytes(),
            self.token.as_bytes(),
        ];
        self.mac == Mac::of(key, &parts)
    }
}

/// Printable ASCII without spaces, and some of it.
fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic)
}

impl Registered {
    /// With the proof of the relay, which has the key from the token.
    #[must_use]
    pub fn new(transaction: Transaction, lifetime_s: u16, key: &[u8; KEY_LEN]) -> Self {
        let mac = Self::mac(transaction, lifetime_s, key);
        Self {
            transaction,
            lifetime_s,
            mac,
        }
    }

    /// True if the sender has the key.
    #[must_use]
    pub fn is_by(&self, key: &[u8; KEY_LEN]) -> bool {
        self.mac == Self::mac(self.transaction, self.lifetime_s, key)
    }

    fn mac(transaction: Transaction, lifetime_s: u16, key: &[u8; KEY_LEN]) -> Mac {
        let head = head(KIND_REGISTERED);
        Mac::of(key, &[&head, &transaction.0, &lifetime_s.to_be_bytes()])
    }

    /// For the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; REGISTERED_LEN] {
        let mut out = [0; REGISTERED_LEN];
        out[..4].copy_from_slice(&head(KIND_REGISTERED));
        out[4..20].copy_from_slice(&self.transaction.0);
        out[20..22].copy_from_slice(&self.lifetime_s.to_be_bytes());
        out[22..].copy_from_slice(self.mac.as_bytes());
        out
    }
}

impl Refused {
    /// For the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; REFUSED_LEN] {
        let mut out = [0; REFUSED_LEN];
        out[..4].copy_from_slice(&head(KIND_REFUSED));
        out[4..20].copy_from_slice(&self.transaction.0);
        out[20] = self.reason.to_wire();
        out
    }
}

impl Unknown {
    /// The answer to a datagram; `None` where it is so short that the answer would be longer.
    #[must_use]
    pub fn to(datagram: &[u8]) -> Option<Self> {
        let beginning = *datagram.first_chunk()?;
        (datagram.len() >= UNKNOWN_LEN).then_some(Self { beginning })
    }

    /// For the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; UNKNOWN_LEN] {
        let mut out = [0; UNKNOWN_LEN];
        out[..4].copy_from_slice(&head(KIND_UNKNOWN));
        out[4..].copy_from_slice(&self.beginning);
        out
    }
}

impl Refresh {
    /// An end's sign of life.
    #[must_use]
    pub fn question(counter: u64, key: &[u8; KEY_LEN]) -> Self {
        let mac = Self::mac(KIND_REFRESH, counter, key);
        Self { counter, mac }
    }

    /// The relay's answer.
    #[must_use]
    pub fn answer(counter: u64, key: &[u8; KEY_LEN]) -> Self {
        let mac = Self::mac(KIND_REFRESHED, counter, key);
        Self { counter, mac }
    }

    /// True for a question whose sender has the key.
    #[must_use]
    pub fn is_question_by(&self, key: &[u8; KEY_LEN]) -> bool {
        self.mac == Self::mac(KIND_REFRESH, self.counter, key)
    }

    /// True for an answer whose sender has the key.
    #[must_use]
    pub fn is_answer_by(&self, key: &[u8; KEY_LEN]) -> bool {
        self.mac == Self::mac(KIND_REFRESHED, self.counter, key)
    }

    fn mac(kind: u8, counter: u64, key: &[u8; KEY_LEN]) -> Mac {
        Mac::of(key, &[&head(kind), &counter.to_be_bytes()])
    }

    fn write(&self, kind: u8) -> [u8; REFRESH_LEN] {
        let mut out = [0; REFRESH_LEN];
        out[..4].copy_from_slice(&head(kind));
        out[4..12].copy_from_slice(&self.counter.to_be_bytes());
        out[12..].copy_from_slice(self.mac.as_bytes());
        out
    }

    /// A question, for the wire.
    #[must_use]
    pub fn encode_question(&self) -> [u8; REFRESH_LEN] {
        self.write(KIND_REFRESH)
    }

    /// An answer, for the wire.
    #[must_use]
    pub fn encode_answer(&self) -> [u8; REFRESH_LEN] {
        self.write(KIND_REFRESHED)
    }
}

impl Probe {
    /// The bytes that its MAC covers: all before it.
    pub(crate) fn covered(&self, kind: u8) -> [u8; PROBE_LEN - MAC_LEN] {
        let mut out = [0; PROBE_LEN - MAC_LEN];
        out[..4].copy_from_slice(&head(kind));
        out[4..8].copy_from_slice(&self.receiver.0);
        out[8..12].copy_from_slice(&self.sender.0);
        out[12..20].copy_from_slice(&self.nonce);
        out
    }

    /// For the wire.
    pub(crate) fn write(&self, kind: u8) -> [u8; PROBE_LEN] {
        let mut out = [0; PROBE_LEN];
        out[..20].copy_from_slice(&self.covered(kind));
        out[20..].copy_from_slice(self.mac.as_bytes());
        out
    }
}
