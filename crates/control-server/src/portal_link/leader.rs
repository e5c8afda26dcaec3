//! The end of the portal that leads.

use super::frame::{
    ANSWER_PART_LEN, Ask, FromLeader, MAX_FRAME_LEN, Number, ToLeader, frame, hello_of, known,
    parse, session_of,
};
use crate::conductor::CLOSE_TIMEOUT;
use crate::election::Objection;
use crate::entry::Entry;
use crate::http_refusal::Refused;
use crate::hub_access::{HubAccess, LocalHub};
use crate::hub_actor::{Ending, Incoming, Joined, Outgoing};
use crate::session::in_time;
use crate::shared::Shared;
use crate::upgrade::{Socket, Upgrade};
use axum::extract::Request;
use axum::response::Response;
use culvert_ids::{PortalId, TokenId};
use culvert_portal_base::{Fault, MAX_SESSIONS, PublicAddress, bearer};
use culvert_store::MachineId;
use culvert_wire::{PortalKey, encode};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_tungstenite::tungstenite::Message;

/// Links at once: more portals than a database has connections for.
pub(crate) const MAX_LINKS: usize = 64;

/// The time until a portal tries again where this one does not lead, or has no room.
const COME_BACK: Duration = Duration::from_secs(1);

/// The key by which all attempts of an address are counted, whichever portal they name.
const ANY_PORTAL: TokenId = TokenId::from_bytes([0; 16]);

/// Messages that wait for a link: those behind wait in the queues of their sessions.
const MAX_WAITING: usize = 1_024;

/// Messages of a machine that wait for the hub: it is read again once there is room.
const MAX_SAID: usize = 64;

/// Questions that are answered at once: each waits for the hub alone.
const MAX_QUESTIONS: usize = 64;

/// Messages that are written before the socket is flushed.
const MESSAGES_AT_ONCE: usize = 64;

/// The interval of pings, and the silence after which a portal is given up, as for machines.
const PING_EVERY: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(12);

/// The least time between two signs that something has happened.
const BEAT_REST: Duration = Duration::from_millis(100);

/// Lets a portal in that shows the key of its row.
pub(crate) async fn enter(shared: Arc<Shared>, mut request: Request) -> Result<Response, Refused> {
    if shared.stopping.load(Ordering::Relaxed) {
        return Err(Refused::later(COME_BACK, "the portal is stopping"));
    }
    let upgrade = Upgrade::of(&mut request).map_err(|error| Fault::Malformed(error.to_string()))?;
    let key = bearer(request.headers()).and_then(PortalKey::parse);
    let key = key.ok_or(Fault::Unauthenticated)?;
    let Some(PublicAddress(from)) = request.extensions().get().copied() else {
        return Err(Fault::internal("a request without the address that it comes from").into());
    };
    // Each look costs a read of the database, and a stranger may name another portal each time.
    shared
        .token_pace
        .take((from, ANY_PORTAL), Instant::now())
        .map_err(|wait| Refused::later(wait, "portals come too often from this address"))?;
    let known = shared.store.portal_key(key.portal).await;
    match known {
        Ok(Some(digest)) if digest == key.digest() => {}
        Ok(_) => return Err(Fault::Unauthenticated.into()),
        Err(error) => {
            tracing::error!(%error, "the database");
            return Err(Refused::later(
                COME_BACK,
                "the portal's database does not answer",
            ));
        }
    }
    // Only portals take these places.
    let place = Arc::clone(&shared.link_places).try_acquire_owned();
    let place = place.map_err(|_| Refused::later(COME_BACK, "there are too many portals"))?;
    let Some(HubAccess::Local(hub)) = shared.access() else {
        return Err(Refused::later(COME_BACK, "this portal does not lead"));
    };
    let (response, socket) = upgrade.accept(MAX_FRAME_LEN);
    let portal = key.portal;
    tokio::spawn(async move {
        if let Some(socket) = socket.await {
            serve(&shared, hub, socket, (portal, from)).await;
        }
        drop(place);
    });
    Ok(response)
}

async fn serve(shared: &Shared, hub: LocalHub, socket: Socket, (portal, from): (PortalId, IpAddr)) {
    tracing::info!(%portal, %from, "a portal brings its sessions");
    let (sink, stream) = socket.split();
    let (messages, waiting) = mpsc::channel(MAX_WAITING);
    let leads = FromLeader::Leads { epoch: hub.epoch };
    // The queue is empty.
    let _ = messages.try_send(frame(&leads, ""));
    let beats = tell_beats(shared, messages.clone());
    let mut link = Link {
        hub,
        messages,
        sessions: BTreeMap::new(),
        questions: Arc::new(Semaphore::new(MAX_QUESTIONS)),
        is_over: Arc::default(),
    };
    let mut lease = link.hub.hub.lease();
    tokio::select! {
        () = link.read(stream) => {}
        () = write(sink, waiting) => {}
        () = beats => {}
        // The hub's last words pass: when each machine is to come back.
        () = async { lease.over().await; sleep(CLOSE_TIMEOUT).await } => {}
    }
    // Before the sessions are dropped.
    link.is_over.store(true, Ordering::Release);
    tracing::info!(%portal, "a portal is gone, and with it its sessions");
}

struct Link {
    hub: LocalHub,
    messages: mpsc::Sender<String>,
    /// The sessions of the portal. One that is dropped here is over.
    sessions: BTreeMap<Number, BroughtSession>,
    questions: Arc<Semaphore>,
    /// True once the portal is gone: its sessions end by no doing of their machines.
    is_over: Arc<AtomicBool>,
}

/// A session of a machine that another portal brings.
struct BroughtSession {
    machine: MachineId,
    said: mpsc::Sender<Incoming>,
    /// True once its connection broke.
    is_broken: Arc<AtomicBool>,
}

impl Link {
    /// Takes messages until the portal is gone, silent, or breaks the protocol.
    async fn read(&mut self, mut stream: SplitStream<Socket>) {
        loop {
            match timeout(SILENCE, stream.next()).await {
                Ok(Some(Ok(Message::Text(text)))) => self.hear(&text).await,
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
                Ok(Some(Ok(_) | Err(_)) | None) | Err(_) => return,
            }
        }
    }

    async fn hear(&mut self, message: &str) {
        let Some((line, text)) = parse::<ToLeader>(message) else {
            // Of a later version, which speaks to this one as well. A session that would wait for ever is cut.
            if let Some(session) = session_of(message, "join") {
                self.tell(&FromLeader::Cut { session }, "").await;
            }
            return;
        };
        match line {
            ToLeader::Join {
                session,
                machine,
                token,
                seen,
            } => {
                let hello = hello_of(machine, text);
                let entry = hello.map(|hello| Entry {
                    machine,
                    token,
                    seen,
                    hello,
                });
                self.join(session, machine, entry).await;
            }
            ToLeader::Said { session } => {
                let message = self.machine_of(session).and_then(|machine| match machine {
                    MachineId::Client(_) => known(text).map(Incoming::Client),
                    MachineId::Gateway(_) => known(text).map(Incoming::Gateway),
                    MachineId::Relay(_) => known(text).map(Incoming::Relay),
                });
                match message {
                    Some(message) => self.pass(session, message).await,
                    // The other portal understood it; this one is older.
                    None => tracing::debug!("a machine's message is not understood here"),
                }
            }
            ToLeader::Unknown { session, kind } => {
                self.pass(session, Incoming::Unknown(kind)).await;
            }
            ToLeader::Left { session, is_broken } => {
                if let Some(ended) = self.sessions.remove(&session) {
                    ended.is_broken.store(is_broken, Ordering::Release);
                }
            }
            ToLeader::Ask { question } => {
                match serde_json::from_str(text) {
                    Ok(ask) => self.answer(question, ask).await,
                    // A question of a later version has no answer here, and its page need not wait for one.
                    Err(_) => {
                        let is_last = true;
                        self.tell(&FromLeader::Answer { question, is_last }, "null")
                            .await;
                    }
                }
            }
            ToLeader::Changed => self.hub.feed.wake(),
            ToLeader::Superseded { epoch } => {
                self.hub.objections.make(Objection::Superseded(epoch));
            }
        }
    }

    async fn join(&mut self, session: Number, machine: MachineId, entry: Option<Entry>) {
        let Some(entry) = entry.filter(|_| self.sessions.len() < MAX_SESSIONS) else {
            self.tell(&FromLeader::Cut { session }, "").await;
            return;
        };
        let (said, saying) = mpsc::channel(MAX_SAID);
        let is_broken = Arc::<AtomicBool>::default();
        let brought = BroughtSession {
            machine,
            said,
            is_broken: Arc::clone(&is_broken),
        };
        self.sessions.insert(session, brought);
        let relayed = relay(
            self.hub.clone(),
            entry,
            session,
            saying,
            self.messages.clone(),
        );
        let is_over = Arc::clone(&self.is_over);
        tokio::spawn(async move {
            let Some(joined) = relayed.await else {
                return;
            };
            if is_over.load(Ordering::Acquire) {
                joined.end(Ending::Interrupted);
            } else if is_broken.load(Ordering::Acquire) {
                joined.end(Ending::Broken);
            }
        });
    }

    fn machine_of(&self, session: Number) -> Option<MachineId> {
        self.sessions.get(&session).map(|brought| brought.machine)
    }

    /// Waits while a machine says more than the hub takes.
    async fn pass(&mut self, session: Number, message: Incoming) {
        if let Some(brought) = self.sessions.get(&session)
            && brought.said.send(message).await.is_err()
        {
            self.sessions.remove(&session);
        }
    }

    async fn answer(&self, question: u64, ask: Ask) {
        let Ok(place) = Arc::clone(&self.questions).acquire_owned().await else {
            return;
        };
        let (hub, messages) = (self.hub.clone(), self.messages.clone());
        tokio::spawn(async move {
            let answer = hub.answer(ask).await;
            for (part, is_last) in parts(&answer) {
                let line = FromLeader::Answer { question, is_last };
                if messages.send(frame(&line, part)).await.is_err() {
                    break;
                }
            }
            drop(place);
        });
    }

    async fn tell(&self, line: &FromLeader, text: &str) {
        // A link that has ended is noticed by the others.
        let _ = self.messages.send(frame(line, text)).await;
    }
}

/// The session of one machine: from the link to the hub and back, until one of them ends it. Returns the session if nobody
/// brings it any more.
async fn relay(
    hub: LocalHub,
    entry: Entry,
    session: Number,
    mut said: mpsc::Receiver<Incoming>,
    messages: mpsc::Sender<String>,
) -> Option<Joined> {
    let mut joined = match hub.join(entry).await {
        Ok(joined) => joined,
        Err(refused) => {
            tracing::info!(
                text = refused.reason.text,
                "a machine of another portal is refused"
            );
            // A link that has ended needs no word.
            let _ = messages.send(cut(session)).await;
            return None;
        }
    };
    loop {
        let message = tokio::select! {
            message = said.recv() => match message {
                Some(message) => match hub.hub.say(joined.session, message).await {
                    true => continue,
                    false => break,
                },
                // The machine is gone, or the portal that brought it.
                None => return Some(joined),
            },
            message = joined.outgoing.recv() => match message {
                Some(Outgoing::Client(message)) => say(session, &encode(&message)),
                Some(Outgoing::Gateway(message)) => say(session, &encode(&message)),
                Some(Outgoing::Relay(message)) => say(session, &encode(&message)),
                Some(Outgoing::Text(text)) => say(session, &text),
                Some(Outgoing::Close(reason)) => {
                    let close = frame(&FromLeader::Close { session, reason }, "");
                    let _ = messages.send(close).await;
                    return None;
                }
                None => break,
            },
            _ = &mut joined.cut => break,
        };
        if messages.send(message).await.is_err() {
            joined.end(Ending::Interrupted);
            return None;
        }
    }
    let _ = messages.send(cut(session)).await;
    None
}

fn cut(session: Number) -> String {
    frame(&FromLeader::Cut { session }, "")
}

fn say(session: Number, text: &str) -> String {
    frame(&FromLeader::Say { session }, text)
}

/// The parts of an answer, and whether each is the last.
fn parts(answer: &str) -> Vec<(&str, bool)> {
    let mut parts = Vec::new();
    let mut rest = answer;
    while rest.len() > ANSWER_PART_LEN {
        let (part, behind) = rest.split_at(rest.floor_char_boundary(ANSWER_PART_LEN));
        parts.push((part, false));
        rest = behind;
    }
    parts.push((rest, true));
    parts
}

/// Writes what waits, and pings.
async fn write(mut sink: SplitSink<Socket, Message>, mut waiting: mpsc::Receiver<String>) {
    let mut ping = interval(PING_EVERY);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_written = tokio::select! {
            message = waiting.recv() => match message {
                Some(message) => in_time(feed(&mut sink, message, &mut waiting)).await,
                None => return,
            },
            _ = ping.tick() => in_time(sink.send(Message::Ping(Vec::new().into()))).await,
        };
        if !is_written {
            return;
        }
    }
}

/// Writes a message and some of those behind it.
async fn feed(
    sink: &mut SplitSink<Socket, Message>,
    message: String,
    waiting: &mut mpsc::Receiver<String>,
) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    let mut next = Some(message);
    for _ in 0..MESSAGES_AT_ONCE {
        let Some(message) = next else { break };
        sink.feed(Message::text(message)).await?;
        next = waiting.try_recv().ok();
    }
    if let Some(message) = next {
        sink.feed(Message::text(message)).await?;
    }
    sink.flush().await
}

/// Tells the portal when its pages are out of date.
async fn tell_beats(shared: &Shared, messages: mpsc::Sender<String>) {
    let mut pulse = shared.pulse.listen();
    while pulse.next().await {
        let beat = frame(&FromLeader::Beat, "");
        if messages.send(beat).await.is_err() {
            return;
        }
        sleep(BEAT_REST).await;
    }
    // The portal stops, and the hub has last words yet.
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_in_parts_that_fit_into_a_message() {
        assert_eq!(parts("null"), [("null", true)]);
        let long = "\u{e9}".repeat(ANSWER_PART_LEN + 1);
        let told = parts(&long);
        assert_eq!(told.len(), 3);
        assert!(told.iter().all(|(part, _)| part.len() <= ANSWER_PART_LEN));
        assert_eq!(told.iter().filter(|(_, is_last)| *is_last).count(), 1);
        let whole: String = told.into_iter().map(|(part, _)| part).collect();
        assert_eq!(whole, long);
    }
}
