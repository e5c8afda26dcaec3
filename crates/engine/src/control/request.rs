//! Requests to the control thread.

use super::peer_facts::StatusReport;
use crate::configuration::{Change, Configuration};
use crate::error::EngineError;
use crate::flows::TakenFlows;
use crate::status::WatchedPeer;
use culvert_base::PublicKey;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// A question or an order from outside, with the channel for the answer.
pub(crate) enum Request {
    Apply(Box<Change>, SyncSender<Result<(), EngineError>>),
    Configuration(SyncSender<Configuration>),
    Status(SyncSender<Box<StatusReport>>),
    HasSilentPeer(Range<Duration>, SyncSender<bool>),
    PinEndpoint(PublicKey, Option<SocketAddr>),
    MoveEndpoints {
        from: SocketAddr,
        to: SocketAddr,
    },
    RepeatInitiation(PublicKey, SocketAddr),
    Watched(SyncSender<Vec<WatchedPeer>>),
    Flows {
        with_lasting: bool,
        answer: SyncSender<TakenFlows>,
    },
}
