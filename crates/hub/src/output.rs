//! Effects that the hub asks the shell to carry out, in this order.

use super::limits::{MAX_BATCH, MAX_QUEUED_MESSAGES, MAX_QUEUED_TO_GATEWAY};
use culvert_base::{LogLine, LogQueue};
use culvert_ids::GrantId;
use culvert_store::{AccessEntry, FlowBatch, Grant, SeenMachine};
use culvert_wire::messages::{ReasonCode, Sequenced, ToClient, ToGateway, ToRelay};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A session of a client, a gateway or a relay: the shell's number for it, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Something that the shell is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a message to a client.
    ToClient {
        /// The session over which it is sent.
        session: SessionId,
        /// The message.
        message: Sequenced<ToClient>,
    },
    /// Send a message to a gateway.
    ToGateway {
        /// The session over which it is sent.
        session: SessionId,
        /// The message.
        message: Sequenced<ToGateway>,
    },
    /// Send a message to a relay.
    ToRelay {
        /// The session over which it is sent.
        session: SessionId,
        /// The message.
        message: Sequenced<ToRelay>,
    },
    /// End a session, once earlier messages to it have left. The hub has forgotten it already.
    Close {
        /// The session to end.
        session: SessionId,
        /// The reason, as its last message told it.
        reason: ReasonCode,
    },
    /// Keep grants, so that the portal knows them when it starts anew; at most [`MAX_BATCH`].
    SaveGrants(Vec<Grant>),
    /// Forget grants; at most [`MAX_BATCH`].
    EndGrants(Vec<GrantId>),
    /// Append to the access log; at most [`MAX_BATCH`].
    AccessLog(Vec<AccessEntry>),
    /// Record where machines without a session were last seen; at most [`MAX_BATCH`].
    Seen(Vec<SeenMachine>),
    /// Append to the flow log; then [`handle_flows_written`](super::Hub::handle_flows_written).
    Flows {
        /// The session that told of them.
        session: SessionId,
        /// The flows.
        batch: FlowBatch,
    },
    /// Count the traffic of gateways.
    Traffic {
        /// In bytes, of both directions.
        bytes: u64,
    },
}

/// Outputs that wait to be polled.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    messages: VecDeque<(SessionId, Outgoing)>,
    links: BTreeMap<SessionId, Link>,
    overflowed: BTreeSet<SessionId>,
    saves: VecDeque<Grant>,
    ends: VecDeque<GrantId>,
    log: VecDeque<AccessEntry>,
    seen: VecDeque<SeenMachine>,
    /// Lines for the log of the process.
    lines: LogQueue,
    /// A gateway tells the next once the one before was taken.
    flows: VecDeque<(SessionId, FlowBatch)>,
    traffic_bytes: u64,
}

#[derive(Debug)]
enum Outgoing {
    Client(ToClient),
    Gateway(ToGateway),
    Relay(ToRelay),
    Close(ReasonCode),
}

#[derive(Debug)]
struct Link {
    epoch: u64,
    seq: u64,
    queued: usize,
    max_queued: usize,
}

impl Outbox {
    /// Messages of the session carry this epoch.
    pub(super) fn open(&mut self, session: SessionId, epoch: u64) {
        self.open_with(session, epoch, MAX_QUEUED_MESSAGES);
    }

    /// The same for a gateway.
    pub(super) fn open_gateway(&mut self, session: SessionId, epoch: u64) {
        self.open_with(session, epoch, MAX_QUEUED_TO_GATEWAY);
    }

    fn open_with(&mut self, session: SessionId, epoch: u64, max_queued: usize) {
        let link = Link {
            epoch,
            seq: 0,
            queued: 0,
            max_queued,
        };
        self.links.insert(session, link);
    }

    pub(super) fn tell_client(&mut self, session: SessionId, message: ToClient) {
        self.push(session, Outgoing::Client(message));
    }

    pub(super) fn tell_gateway(&mut self, session: SessionId, message: ToGateway) {
        self.push(session, Outgoing::Gateway(message));
    }

    pub(super) fn tell_relay(&mut self, session: SessionId, message: ToRelay) {
        self.push(session, Outgoing::Relay(message));
    }

    pub(super) fn close(&mut self, session: SessionId, reason: ReasonCode) {
        self.messages.push_back((session, Outgoing::Close(reason)));
    }

    /// The session is gone: its messages are not sent.
    pub(super) fn discard(&mut self, session: SessionId) {
        self.overflowed.remove(&session);
        if self
            .links
            .remove(&session)
            .is_some_and(|link| link.queued > 0)
        {
            self.messages.retain(|(to, _)| *to != session);
        }
    }

    /// Drops the messages that wait for the session, which gets a last message instead.
    pub(super) fn empty(&mut self, session: SessionId) {
        self.messages.retain(|(to, _)| *to != session);
        if let Some(link) = self.links.get_mut(&session) {
            link.queued = 0;
        }
    }

    /// A session whose queue of messages has overflowed.
    pub(super) fn take_overflowed(&mut self) -> Option<SessionId> {
        self.overflowed.pop_first()
    }

    pub(super) fn save(&mut self, grant: Grant) {
        self.saves.push_back(grant);
    }

    pub(super) fn end(&mut self, grant: GrantId) {
        self.ends.push_back(grant);
    }

    pub(super) fn log(&mut self, entry: AccessEntry) {
        self.log.push_back(entry);
    }

    pub(super) fn seen(&mut self, machine: SeenMachine) {
        self.seen.push_back(machine);
    }

    pub(super) fn push_line(&mut self, line: LogLine) {
        self.lines.push(line);
    }

    pub(super) fn poll_line(&mut self) -> Option<LogLine> {
        self.lines.pop()
    }

    pub(super) fn flows(&mut self, session: SessionId, batch: FlowBatch) {
        self.flows.push_back((session, batch));
    }

    pub(super) const fn traffic_bytes(&mut self, bytes: u64) {
        self.traffic_bytes += bytes;
    }

    pub(super) fn poll(&mut self) -> Option<Output> {
        while let Some((session, letter)) = self.messages.pop_front() {
            if let Some(output) = self.sequence(session, letter) {
                return Some(output);
            }
        }
        // Saves go first: a grant that ends was saved before.
        if !self.saves.is_empty() {
            return Some(Output::SaveGrants(batch(&mut self.saves)));
        }
        if !self.ends.is_empty() {
            return Some(Output::EndGrants(batch(&mut self.ends)));
        }
        if !self.log.is_empty() {
            return Some(Output::AccessLog(batch(&mut self.log)));
        }
        if !self.seen.is_empty() {
            return Some(Output::Seen(batch(&mut self.seen)));
        }
        if let Some((session, batch)) = self.flows.pop_front() {
            return Some(Output::Flows { session, batch });
        }
        if self.traffic_bytes > 0 {
            let bytes = std::mem::take(&mut self.traffic_bytes);
            return Some(Output::Traffic { bytes });
        }
        None
    }

    /// Messages are numbered as they leave, so that dropped messages leave no gap.
    fn sequence(&mut self, session: SessionId, letter: Outgoing) -> Option<Output> {
        if let Outgoing::Close(reason) = letter {
            self.links.remove(&session);
            return Some(Output::Close { session, reason });
        }
        let link = self.links.get_mut(&session)?;
        link.queued = link.queued.saturating_sub(1);
        link.seq += 1;
        let (epoch, seq) = (link.epoch, link.seq);
        Some(match letter {
            Outgoing::Client(message) => Output::ToClient {
                session,
                message: Sequenced {
                    epoch,
                    seq,
                    message,
                },
            },
            Outgoing::Gateway(message) => Output::ToGateway {
                session,
                message: Sequenced {
                    epoch,
                    seq,
                    message,
                },
            },
            Outgoing::Relay(message) => Output::ToRelay {
                session,
                message: Sequenced {
                    epoch,
                    seq,
                    message,
                },
            },
            Outgoing::Close(reason) => Output::Close { session, reason },
        })
    }

    fn push(&mut self, session: SessionId, letter: Outgoing) {
        let Some(link) = self.links.get_mut(&session) else {
            return;
        };
        if link.queued >= link.max_queued {
            self.overflowed.insert(session);
            return;
        }
        link.queued += 1;
        self.messages.push_back((session, letter));
    }
}

fn batch<T>(waiting: &mut VecDeque<T>) -> Vec<T> {
    let len = waiting.len().min(MAX_BATCH);
    waiting.drain(..len).collect()
}
