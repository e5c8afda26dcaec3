//! The dear part of handshake messages: multiplications on the curve. They need nothing of the handshaker's state, so any
//! thread may do them.

use crate::crypto::{Scalar, Secret};
use crate::drop_reason::DropReason;
use crate::ids::{Index, PeerId};
use crate::noise::{
    HandshakeRefusal, Identity, ReceivedInitiation, SentInitiation, SessionKeys, VerifiedInitiation,
};
use crate::parse::{INITIATION_LEN, Initiation, RESPONSE_LEN, Response};
use crate::time::Tai64n;
use core::fmt;
use culvert_aead::Suite;
use culvert_base::{PresharedKey, PublicKey};
use std::net::SocketAddr;
use std::sync::Arc;

/// The next step for a handshake message.
#[derive(Debug)]
pub enum Step {
    /// Nothing: the message was taken, or refused.
    Done(Result<PeerId, DropReason>),
    /// Some work, whose result goes to [`Handshaker::finish`](crate::Handshaker::finish).
    Work(Work),
}

/// Some 25 µs to 60 µs of work for one message.
pub struct Work {
    pub(super) era: u64,
    pub(super) source: SocketAddr,
    pub(super) task: Box<Task>,
}

/// The result of [`Work`].
pub struct Finished {
    pub(super) era: u64,
    pub(super) source: SocketAddr,
    pub(super) result: TaskResult,
}

pub(super) enum Task {
    /// es, by which the initiator's static key is read.
    Read {
        identity: Arc<Identity>,
        suites: Vec<Suite>,
        initiation: [u8; INITIATION_LEN],
    },
    /// ss, of a peer that has had no handshake before.
    Agree {
        identity: Arc<Identity>,
        received: ReceivedInitiation,
        initiation: [u8; INITIATION_LEN],
    },
    /// ee and se of a responder.
    Respond {
        responding: Responding,
        verified: VerifiedInitiation,
        ephemeral: Secret,
        preshared: PresharedKey,
    },
    /// ee and se of an initiator.
    Complete {
        completing: Completing,
        identity: Arc<Identity>,
        sent: Arc<SentInitiation>,
        preshared: PresharedKey,
        response: [u8; RESPONSE_LEN],
    },
}

pub(super) enum TaskResult {
    Read {
        received: Result<ReceivedInitiation, HandshakeRefusal>,
        initiation: [u8; INITIATION_LEN],
    },
    Agreed {
        secret: Option<Secret>,
        received: ReceivedInitiation,
        initiation: [u8; INITIATION_LEN],
    },
    Responded {
        responding: Responding,
        made: Result<(SessionKeys, [u8; RESPONSE_LEN]), HandshakeRefusal>,
    },
    Completed {
        completing: Completing,
        keys: Result<SessionKeys, HandshakeRefusal>,
    },
}

/// A response in the making.
pub(super) struct Responding {
    pub(super) peer: PeerId,
    /// The number may be another peer's by the time the response is made.
    pub(super) public_key: PublicKey,
    pub(super) suite: Suite,
    /// A later initiation supersedes this one.
    pub(super) timestamp: Tai64n,
    /// Ours, which is taken already.
    pub(super) index: Index,
    pub(super) initiation: [u8; INITIATION_LEN],
}

/// A handshake of ours that is about to be complete.
pub(super) struct Completing {
    pub(super) peer: PeerId,
    pub(super) public_key: PublicKey,
    /// Ours, by which the initiation is known.
    pub(super) index: Index,
    /// The peer's.
    pub(super) remote_index: Index,
}

impl Work {
    /// Does it.
    #[must_use]
    pub fn run(self) -> Finished {
        let result = match *self.task {
            Task::Read {
                identity,
                suites,
                initiation,
            } => TaskResult::Read {
                received: ReceivedInitiation::read(&identity, suites, &parsed(&initiation)),
                initiation,
            },
            Task::Agree {
                identity,
                received,
                initiation,
            } => TaskResult::Agreed {
                secret: identity.static_static(received.initiator()),
                received,
                initiation,
            },
            Task::Respond {
                responding,
                verified,
                ephemeral,
                preshared,
            } => TaskResult::Responded {
                made: verified.respond(
                    &preshared,
                    &Scalar::new(&ephemeral),
                    responding.index,
                    parsed(&responding.initiation).sender,
                ),
                responding,
            },
            Task::Complete {
                completing,
                identity,
                sent,
                preshared,
                response,
            } => {
                let response = Response::parse(&response);
                let response = response.expect("it was parsed before the work was made");
                TaskResult::Completed {
                    keys: sent.read_response(&identity, &preshared, &response),
                    completing,
                }
            }
        };
        Finished {
            era: self.era,
            source: self.source,
            result,
        }
    }
}

pub(super) fn parsed(initiation: &[u8; INITIATION_LEN]) -> Initiation<'_> {
    Initiation::parse(initiation).expect("it was parsed before the work was made")
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finished")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}
