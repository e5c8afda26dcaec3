//! The end of the portal that follows.

use super::frame::{Ask, FromLeader, Number, ToLeader, frame, hello_text, parse, session_of};
use crate::entry::Entry;
use crate::hub_actor::{Ending, Incoming, Joined, Leaving, Outgoing, max_queued};
use crate::pulse::Pulse;
use culvert_hub::SessionId;
use culvert_link::{Connection, Sender};
use culvert_portal_base::MAX_SESSIONS;
use culvert_store::{Leader, Store};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Questions that wait for an answer: as many as pages are made at a time, some times over.
const MAX_QUESTIONS: usize = 256;

/// The longest answer, in bytes: the views of [`MAX_SESSIONS`] clients, some 150 bytes each.
const MAX_ANSWER_LEN: usize = 256 * MAX_SESSIONS;

/// The longest wait for an answer: a page waits no longer for the database.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The hub of the portal that leads. A copy is the same link.
#[derive(Clone, Debug)]
pub(crate) struct RemoteHub(Arc<Remote>);

#[derive(Debug)]
struct Remote {
    leader: Leader,
    sender: Sender,
    next: AtomicU64,
    table: Mutex<Table>,
    leaving: mpsc::UnboundedSender<Leaving>,
}

/// The sessions and questions of a link. Once it is over there are none.
#[derive(Debug, Default)]
struct Table {
    is_over: bool,
    sessions: BTreeMap<Number, SessionEnd>,
    questions: BTreeMap<u64, Question>,
}

#[derive(Debug)]
struct SessionEnd {
    outgoing: mpsc::Sender<Outgoing>,
    /// Dropped, the session ends.
    _cut: oneshot::Sender<Infallible>,
}

#[derive(Debug)]
struct Question {
    answer: oneshot::Sender<String>,
    parts: String,
}

/// The link itself, to be run.
pub(crate) struct Link {
    hub: RemoteHub,
    connection: Connection,
    left: mpsc::UnboundedReceiver<Leaving>,
}

impl RemoteHub {
    /// The epoch of the leader at the other end.
    pub(crate) fn epoch(&self) -> u64 {
        self.0.leader.epoch
    }

    pub(crate) fn begin(connection: Connection, leader: Leader) -> (Self, Link) {
        let (leaving, left) = mpsc::unbounded_channel();
        let hub = Self(Arc::new(Remote {
            leader,
            sender: connection.sender(),
            next: AtomicU64::default(),
            table: Mutex::default(),
            leaving,
        }));
        let link = Link {
            hub: hub.clone(),
            connection,
            left,
        };
        (hub, link)
    }

    /// Hands a machine over; none where the link is over.
    pub(crate) async fn join(&self, entry: Entry) -> Option<Joined> {
        let session = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (outgoing, received) = mpsc::channel(max_queued(entry.machine));
        let (cut, is_cut) = oneshot::channel();
        let end = SessionEnd {
            outgoing,
            _cut: cut,
        };
        {
            let mut table = self.table();
            if table.is_over || table.sessions.len() >= MAX_SESSIONS {
                return None;
            }
            table.sessions.insert(session, end);
        }
        let joined = Joined::new(SessionId(session), received, is_cut, self.0.leaving.clone());
        let text = hello_text(&entry.hello);
        let join = ToLeader::Join {
            session,
            machine: entry.machine,
            token: entry.token,
            seen: entry.seen,
        };
        // Dropped, `joined` takes the session out of the table.
        self.send(&join, &text).await.then_some(joined)
    }

    /// Passes on what a machine said as this text; false where the link is over.
    pub(crate) async fn say(&self, session: SessionId, message: Incoming, text: &str) -> bool {
        let SessionId(session) = session;
        match message {
            Incoming::Unknown(kind) => self.send(&ToLeader::Unknown { session, kind }, "").await,
            Incoming::Client(_) | Incoming::Gateway(_) | Incoming::Relay(_) => {
                self.send(&ToLeader::Said { session }, text).await
            }
        }
    }

    /// The answer to a question, as JSON; none where there is none in time.
    pub(crate) async fn ask(&self, ask: Ask) -> Option<String> {
        let question = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        {
            let mut table = self.table();
            if table.is_over || table.questions.len() >= MAX_QUESTIONS {
                return None;
            }
            let parts = String::new();
            table.questions.insert(question, Question { answer, parts });
        }
        let text = serde_json::to_string(&ask).unwrap_or_default();
        let came = async {
            self.send(&ToLeader::Ask { question }, &text).await;
            answered.await.ok()
        };
        let answer = timeout(ANSWER_TIMEOUT, came).await.ok().flatten();
        self.table().questions.remove(&question);
        answer
    }

    async fn send(&self, line: &ToLeader, text: &str) -> bool {
        self.0.sender.send(frame(line, text)).await.is_ok()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message of the leader; false where the portal at the other end leads no more.
    fn hear(&self, message: &str, pulse: &Pulse) -> bool {
        let Some((line, text)) = parse::<FromLeader>(message) else {
            // Of a later version, which speaks to this one as well. A session that it closes for a reason of its own ends.
            if let Some(session) = session_of(message, "close") {
                self.table().sessions.remove(&session);
            }
            return true;
        };
        match line {
            FromLeader::Leads { epoch } if epoch < self.0.leader.epoch => {
                tracing::warn!(epoch, "a portal that leads no more has answered");
                return false;
            }
            FromLeader::Leads { .. } => {}
            FromLeader::Say { session } => self.post(session, Outgoing::Text(text.to_owned())),
            FromLeader::Close { session, reason } => self.post(session, Outgoing::Close(reason)),
            FromLeader::Cut { session } => drop(self.table().sessions.remove(&session)),
            FromLeader::Answer { question, is_last } => self.take_part(question, text, is_last),
            FromLeader::Beat => pulse.beat(),
        }
        true
    }

    /// A session that does not take its messages is cut, as it is by the hub.
    fn post(&self, session: Number, message: Outgoing) {
        let mut table = self.table();
        let Some(end) = table.sessions.get(&session) else {
            return;
        };
        if end.outgoing.try_send(message).is_err() {
            table.sessions.remove(&session);
        }
    }

    fn take_part(&self, question: u64, part: &str, is_last: bool) {
        let mut table = self.table();
        let Some(waiting) = table.questions.get_mut(&question) else {
            return;
        };
        waiting.parts.push_str(part);
        if !is_last && waiting.parts.len() <= MAX_ANSWER_LEN {
            return;
        }
        if let Some(done) = table.questions.remove(&question)
            && is_last
        {
            // The asker may be gone.
            let _ = done.answer.send(done.parts);
        }
    }
}

impl Link {
    /// Serves the link until it breaks, or until another portal leads, which `superseded` returns the epoch of. The former
    /// leader is told that. The sessions end with the link.
    pub(crate) async fn run(
        self,
        store: &dyn Store,
        pulse: &Pulse,
        superseded: impl Future<Output = u64>,
    ) {
        let Self {
            hub,
            mut connection,
            mut left,
        } = self;
        let _over = Over(hub.clone());
        let hear = async {
            loop {
                match connection.receive().await {
                    Ok(message) if hub.hear(&message, pulse) => {}
                    Ok(_) => return,
                    Err(closed) => {
                        tracing::warn!(%closed, "the link to the portal that leads has ended");
                        return;
                    }
                }
            }
        };
        // Apart from hearing: the leader may wait until it is heard before it hears.
        let mut commits = store.watch();
        let tell = async {
            loop {
                let line = tokio::select! {
                    Some(Leaving { session: SessionId(session), how }) = left.recv() => {
                        hub.table().sessions.remove(&session);
                        let is_broken = how == Ending::Broken;
                        ToLeader::Left { session, is_broken }
                    }
                    is_there = commits.changed() => {
                        if !is_there {
                            return;
                        }
                        pulse.beat();
                        ToLeader::Changed
                    }
                };
                if !hub.send(&line, "").await {
                    return;
                }
            }
        };
        let epoch = tokio::select! {
            () = hear => return,
            () = tell => return,
            epoch = superseded => epoch,
        };
        // A leader that takes nothing for a long time is told nothing.
        let _ = hub
            .0
            .sender
            .try_send(frame(&ToLeader::Superseded { epoch }, ""));
        // This portal may lead already, and does not wait for that.
        tokio::spawn(connection.close());
    }
}

/// Ends all sessions and questions, however the link ends.
struct Over(RemoteHub);

impl Drop for Over {
    fn drop(&mut self) {
        *self.0.table() = Table {
            is_over: true,
            ..Table::default()
        };
    }
}
