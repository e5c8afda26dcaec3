//! The one task that has the hub: what happens goes to it one after the other, and what comes out
//! it hands to the sessions and to the database, waiting for neither.

use super::clock_watch::ClockWatch;
use super::lease::Lease;
use super::pulse::Pulse;
use super::recorder::{Record, Recorder, Told, WrittenFlows};
use culvert_base::{BootTime, UnixTime};
use culvert_hub::limits::{MAX_QUEUED_MESSAGES, MAX_QUEUED_TO_GATEWAY};
use culvert_hub::{
    ClientJoin, ClientView, DeviceEndpointView, Explained, GatewayJoin, GatewayView, Hub,
    HubStatus, Output, RelayJoin, RelayView, SessionId,
};
use culvert_ids::{ClientId, GatewayId, ResourceId};
use culvert_link::write_log;
use culvert_portal_base::{boot_time, now};
use culvert_store::{Change, Grant, MachineId, Seen, SeenMachine};
use culvert_wire::messages::{
    FromClient, FromGateway, FromRelay, PortalSet, ReasonCode, Sequenced, ToClient, ToGateway,
    ToRelay,
};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Commands that wait for the hub: while it is busy, sessions wait before they read on.
const MAX_COMMANDS: usize = 1_024;

/// Questions that wait for the hub: they are answered at once, whatever else it waits for.
const MAX_QUESTIONS: usize = 256;

/// Reports of flows that were written and whose gateways do not know it yet: one a gateway. The
/// gateway asks again about reports that do not fit.
const MAX_WRITTEN: usize = 1_024;

/// The longest sleep until the hub's next timeout: the wall clock may be set in between.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The clock counts as set once it differs by this from what it was at the last look and the time since. Gateways allow
/// for twice as much.
const CLOCK_SET: Duration = Duration::from_secs(30);

/// The interval at which it is recorded that machines are still there.
const SEEN_EVERY: Duration = Duration::from_secs(60);

/// The time over which machines come back after the portal has stopped: at 12,000 sessions, 1,200 a
/// second.
const COME_BACK_WITHIN_S: u32 = 10;

/// A message on its way to a session's socket.
#[derive(Debug)]
pub(super) enum Outgoing {
    Client(Sequenced<ToClient>),
    Gateway(Sequenced<ToGateway>),
    Relay(Sequenced<ToRelay>),
    /// A message of a hub that is at another portal.
    Text(String),
    Close(ReasonCode),
}

/// A message from a session.
#[derive(Debug)]
pub(super) enum Incoming {
    Client(FromClient),
    Gateway(FromGateway),
    Relay(FromRelay),
    Unknown(String),
}

/// A machine that joins.
#[derive(Debug)]
pub(super) enum Join {
    Client(ClientJoin),
    Gateway(GatewayJoin),
    Relay(RelayJoin),
}

impl Join {
    const fn machine(&self) -> MachineId {
        match self {
            Self::Client(join) => MachineId::Client(join.client),
            Self::Gateway(join) => MachineId::Gateway(join.gateway),
            Self::Relay(join) => MachineId::Relay(join.relay),
        }
    }
}

/// Messages that may wait for a machine.
pub(super) const fn max_queued(machine: MachineId) -> usize {
    match machine {
        MachineId::Gateway(_) => MAX_QUEUED_TO_GATEWAY,
        MachineId::Client(_) | MachineId::Relay(_) => MAX_QUEUED_MESSAGES,
    }
}

/// The session's end of what the hub has of it.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) session: SessionId,
    pub(super) outgoing: mpsc::Receiver<Outgoing>,
    /// Resolves when the session is to end at once, without its last messages.
    pub(super) cut: oneshot::Receiver<Infallible>,
    leaving: mpsc::UnboundedSender<Leaving>,
    how: Ending,
}

/// The end of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) session: SessionId,
    pub(super) how: Ending,
}

/// The way in which a session ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ending {
    /// The machine said goodbye or was silent for too long, or the portal ended it.
    #[default]
    Left,
    /// Its connection broke: the machine itself may be well.
    Broken,
    /// The portal that brought it is gone: the machine itself may be well.
    Interrupted,
}

impl Joined {
    pub(super) const fn new(
        session: SessionId,
        outgoing: mpsc::Receiver<Outgoing>,
        cut: oneshot::Receiver<Infallible>,
        leaving: mpsc::UnboundedSender<Leaving>,
    ) -> Self {
        Self {
            session,
            outgoing,
            cut,
            leaving,
            how: Ending::Left,
        }
    }

    /// Ends the session in this way.
    pub(super) fn end(mut self, how: Ending) {
        self.how = how;
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let leaving = Leaving {
            session: self.session,
            how: self.how,
        };
        // Without a hub there is nobody to tell.
        let _ = self.leaving.send(leaving);
    }
}

#[derive(Debug)]
enum Command {
    Join {
        session: SessionId,
        join: Join,
        seen: Seen,
        outgoing: mpsc::Sender<Outgoing>,
        cut: oneshot::Sender<Infallible>,
    },
    Said {
        session: SessionId,
        message: Incoming,
    },
    Apply {
        changes: Vec<Change>,
        done: oneshot::Sender<Result<(), String>>,
    },
    DrainNow {
        gateway: GatewayId,
        done: oneshot::Sender<Option<usize>>,
    },
    Portals(PortalSet),
    Stop,
}

/// Something that the API wants to know.
#[derive(Debug)]
enum Question {
    Status(oneshot::Sender<HubStatus>),
    Clients(oneshot::Sender<Vec<ClientView>>),
    ClientsAmong {
        clients: Vec<ClientId>,
        answer: oneshot::Sender<Vec<ClientView>>,
    },
    ClientsAfter {
        after: Option<ClientId>,
        limit: usize,
        answer: oneshot::Sender<Vec<ClientView>>,
    },
    ClientIds(oneshot::Sender<Vec<ClientId>>),
    Gateways(oneshot::Sender<Vec<GatewayView>>),
    Relays(oneshot::Sender<Vec<RelayView>>),
    IsDispensable {
        gateway: GatewayId,
        answer: oneshot::Sender<bool>,
    },
    GrantsOf {
        machine: MachineId,
        limit: usize,
        answer: oneshot::Sender<Vec<Grant>>,
    },
    DeviceEndpoints {
        client: ClientId,
        answer: oneshot::Sender<Vec<DeviceEndpointView>>,
    },
    Explain {
        client: ClientId,
        resource: ResourceId,
        answer: oneshot::Sender<Option<Explained>>,
    },
}

/// A handle to the hub.
#[derive(Clone, Debug)]
pub(super) struct HubHandle {
    commands: mpsc::Sender<Command>,
    questions: mpsc::Sender<Question>,
    /// Not bounded as a channel, but by the sessions, each of which leaves once.
    leaving: mpsc::UnboundedSender<Leaving>,
    next_session: Arc<AtomicU64>,
    lease: Lease,
}

impl HubHandle {
    /// Starts the task. It ends after [`Self::stop`], or once all copies of the handle are gone.
    pub(super) fn start(
        hub: Hub,
        recorder: Recorder,
        pulse: Pulse,
        lease: Lease,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (commands, received) = mpsc::channel(MAX_COMMANDS);
        let (questions, asked) = mpsc::channel(MAX_QUESTIONS);
        let (leaving, left) = mpsc::unbounded_channel();
        let handle = Self {
            commands,
            questions,
            leaving,
            next_session: Arc::default(),
            lease: lease.clone(),
        };
        let (written, flows) = mpsc::channel(MAX_WRITTEN);
        let actor = HubActor {
            hub,
            recorder,
            pulse,
            sessions: BTreeMap::new(),
            written,
            lease,
            clock: ClockWatch::new(CLOCK_SET, clocks()),
        };
        (handle, actor.work((received, asked), left, flows))
    }

    /// Hands a session over; none where the portal is stopping.
    pub(super) async fn join(&self, join: Join, seen: Seen) -> Option<Joined> {
        let session = SessionId(self.next_session.fetch_add(1, Ordering::Relaxed));
        let (outgoing, received) = mpsc::channel(max_queued(join.machine()));
        let (cut, is_cut) = oneshot::channel();
        let command = Command::Join {
            session,
            join,
            seen,
            outgoing,
            cut,
        };
        self.commands.send(command).await.ok()?;
        Some(Joined::new(session, received, is_cut, self.leaving.clone()))
    }

    /// The lease by which the hub acts.
    pub(super) fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Passes a session's message on; false where the portal is stopping.
    pub(super) async fn say(&self, session: SessionId, message: Incoming) -> bool {
        let command = Command::Said { session, message };
        self.commands.send(command).await.is_ok()
    }

    /// Applies changes of the configuration.
    pub(super) async fn apply(&self, changes: Vec<Change>) -> Result<(), String> {
        let (done, answer) = oneshot::channel();
        let stopping = || "the portal is stopping".to_owned();
        let command = Command::Apply { changes, done };
        self.commands.send(command).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    pub(super) async fn status(&self) -> Option<HubStatus> {
        self.ask(Question::Status).await
    }

    pub(super) async fn clients(&self) -> Option<Vec<ClientView>> {
        self.ask(Question::Clients).await
    }

    pub(super) async fn clients_among(&self, clients: Vec<ClientId>) -> Option<Vec<ClientView>> {
        self.ask(|answer| Question::ClientsAmong { clients, answer })
            .await
    }

    pub(super) async fn clients_after(
        &self,
        after: Option<ClientId>,
        limit: usize,
    ) -> Option<Vec<ClientView>> {
        let clients_after = |answer| Question::ClientsAfter {
            after,
            limit,
            answer,
        };
        self.ask(clients_after).await
    }

    pub(super) async fn client_ids(&self) -> Option<Vec<ClientId>> {
        self.ask(Question::ClientIds).await
    }

    pub(super) async fn gateways(&self) -> Option<Vec<GatewayView>> {
        self.ask(Question::Gateways).await
    }

    pub(super) async fn relays(&self) -> Option<Vec<RelayView>> {
        self.ask(Question::Relays).await
    }

    pub(super) async fn grants_of(&self, machine: MachineId, limit: usize) -> Option<Vec<Grant>> {
        let grants_of = |answer| Question::GrantsOf {
            machine,
            limit,
            answer,
        };
        self.ask(grants_of).await
    }

    pub(super) async fn device_endpoints(
        &self,
        client: ClientId,
    ) -> Option<Vec<DeviceEndpointView>> {
        self.ask(|answer| Question::DeviceEndpoints { client, answer })
            .await
    }

    /// True if the clients of a gateway keep their access without it.
    pub(super) async fn is_dispensable(&self, gateway: GatewayId) -> Option<bool> {
        self.ask(|answer| Question::IsDispensable { gateway, answer })
            .await
    }

    /// Moves the clients of a gateway that drains to others.
    pub(super) async fn drain_now(&self, gateway: GatewayId) -> Option<usize> {
        let (done, answer) = oneshot::channel();
        let command = Command::DrainNow { gateway, done };
        self.commands.send(command).await.ok()?;
        answer.await.ok()?
    }

    /// The portal is reached in these ways from now on.
    pub(super) async fn set_portals(&self, portals: PortalSet) {
        // A portal that is stopping tells nobody.
        let _ = self.commands.send(Command::Portals(portals)).await;
    }

    pub(super) async fn explain(
        &self,
        client: ClientId,
        resource: ResourceId,
    ) -> Option<Explained> {
        let explain = |answer| Question::Explain {
            client,
            resource,
            answer,
        };
        self.ask(explain).await.flatten()
    }

    /// Tells every session to come back later, and ends.
    pub(super) async fn stop(&self) {
        // An earlier caller may have stopped it already.
        let _ = self.commands.send(Command::Stop).await;
        self.commands.closed().await;
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        self.questions.send(question(sender)).await.ok()?;
        answer.await.ok()
    }
}

/// The wall clock and the time since the boot.
fn clocks() -> (UnixTime, BootTime) {
    (now().unix_time(), boot_time())
}

/// The task's own.
struct HubActor {
    hub: Hub,
    recorder: Recorder,
    pulse: Pulse,
    sessions: BTreeMap<SessionId, SessionEnd>,
    written: mpsc::Sender<WrittenFlows>,
    lease: Lease,
    clock: ClockWatch,
}

/// Something that the hub has to do.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Event {
    Obey(Command),
    Leave(Leaving),
    Timeout,
    NoteSeen,
    Written(WrittenFlows),
}

/// A session, as the hub has it.
struct SessionEnd {
    machine: MachineId,
    seen: Seen,
    outgoing: mpsc::Sender<Outgoing>,
    /// Dropped, the session ends.
    _cut: oneshot::Sender<Infallible>,
}

impl HubActor {
    async fn work(
        mut self,
        (mut commands, mut questions): (mpsc::Receiver<Command>, mpsc::Receiver<Question>),
        mut left: mpsc::UnboundedReceiver<Leaving>,
        mut written: mpsc::Receiver<WrittenFlows>,
    ) {
        let mut seen = interval(SEEN_EVERY);
        seen.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.hand_out();
        loop {
            let wait = self.until_timeout();
            let event = tokio::select! {
                command = commands.recv() => match command {
                    None | Some(Command::Stop) => break,
                    Some(command) => Event::Obey(command),
                },
                // The hub's own handle keeps the channel open.
                Some(leaving) = left.recv() => Event::Leave(leaving),
                () = sleep(wait) => Event::Timeout,
                _ = seen.tick() => Event::NoteSeen,
                () = self.lease.over() => break,
                Some(flows) = written.recv() => Event::Written(flows),
                Some(question) = questions.recv() => {
                    self.answer(question);
                    continue;
                }
            };
            // While the lease does not hold, another portal may lead: nothing is decided.
            if !self.may_act(&mut questions).await {
                break;
            }
            if self.clock.was_set(clocks()) {
                self.hub.handle_clock_set(COME_BACK_WITHIN_S, now());
            }
            self.handle(event);
            self.hand_out();
        }
        self.hub.handle_stop(COME_BACK_WITHIN_S);
        self.hand_out();
        self.note_seen();
        // Tells those who wait for the end: everything is recorded by now.
        drop(commands);
        // A session whose end is dropped is cut: each has its last messages first.
        for end in self.sessions.values() {
            end.outgoing.closed().await;
        }
    }

    /// Returns true once the lease holds, and false if it never will again. Questions are answered meanwhile.
    async fn may_act(&mut self, questions: &mut mpsc::Receiver<Question>) -> bool {
        loop {
            tokio::select! {
                biased;
                holds = self.lease.holds() => return holds,
                Some(question) = questions.recv() => self.answer(question),
            }
        }
    }

    fn until_timeout(&self) -> Duration {
        let Some(at) = self.hub.poll_timeout() else {
            return LONGEST_SLEEP;
        };
        let ms = at.unix_ms().saturating_sub(now().unix_ms());
        Duration::from_millis(ms).min(LONGEST_SLEEP)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Obey(command) => self.obey(command),
            Event::Leave(leaving) => self.leave(leaving),
            Event::Timeout => self.hub.handle_timeout(now()),
            Event::NoteSeen => self.note_seen(),
            Event::Written(flows) => {
                self.hub
                    .handle_flows_written(flows.session, flows.run, flows.batch);
            }
        }
    }

    fn obey(&mut self, command: Command) {
        let now = now();
        match command {
            Command::Join {
                session,
                join,
                seen,
                outgoing,
                cut,
            } => {
                let end = SessionEnd {
                    machine: join.machine(),
                    seen,
                    outgoing,
                    _cut: cut,
                };
                // A machine that comes again as it was has written nothing.
                self.recorder.record(Record::Seen(vec![end.seen_now()]));
                self.sessions.insert(session, end);
                match join {
                    Join::Client(join) => self.hub.handle_client_joined(session, join, now),
                    Join::Gateway(join) => self.hub.handle_gateway_joined(session, join, now),
                    Join::Relay(join) => self.hub.handle_relay_joined(session, join, now),
                }
                self.pulse.beat();
            }
            Command::Said { session, message } => {
                match message {
                    Incoming::Client(message) => {
                        self.hub.handle_client_message(session, message, now);
                    }
                    Incoming::Gateway(message) => {
                        self.hub.handle_gateway_message(session, message, now);
                    }
                    Incoming::Relay(message) => {
                        self.hub.handle_relay_message(session, message, now);
                    }
                    Incoming::Unknown(kind) => self.hub.handle_unknown(session, kind, now),
                }
                self.pulse.beat();
            }
            Command::Apply { changes, done } => {
                let applied = self.hub.handle_changes(&changes, now);
                self.pulse.beat();
                // The requester may be gone.
                let _ = done.send(applied.map_err(|error| error.to_string()));
            }
            Command::DrainNow { gateway, done } => {
                let clients = self.hub.handle_drain_now(gateway, now);
                self.pulse.beat();
                // The requester may be gone.
                let _ = done.send(clients);
            }
            Command::Portals(portals) => self.hub.handle_portals(portals),
            Command::Stop => {}
        }
    }

    /// The asker may be gone.
    fn answer(&self, question: Question) {
        match question {
            Question::Status(answer) => drop(answer.send(self.hub.status())),
            Question::Clients(answer) => drop(answer.send(self.hub.clients().collect())),
            Question::ClientsAmong { clients, answer } => {
                let _gone = answer.send(self.hub.clients_among(&clients));
            }
            Question::ClientsAfter {
                after,
                limit,
                answer,
            } => {
                let clients = self.hub.clients_after(after).take(limit);
                let _gone = answer.send(clients.collect());
            }
            Question::ClientIds(answer) => drop(answer.send(self.hub.client_ids().collect())),
            Question::Gateways(answer) => drop(answer.send(self.hub.gateways().collect())),
            Question::Relays(answer) => drop(answer.send(self.hub.relays().collect())),
            Question::IsDispensable { gateway, answer } => {
                let _gone = answer.send(self.hub.is_dispensable(gateway));
            }
            Question::GrantsOf {
                machine,
                limit,
                answer,
            } => drop(answer.send(self.hub.grants_of(machine, limit))),
            Question::DeviceEndpoints { client, answer } => {
                let _gone = answer.send(self.hub.device_endpoints(client, now()));
            }
            Question::Explain {
                client,
                resource,
                answer,
            } => drop(answer.send(self.hub.explain(client, resource, now()))),
        }
    }

    fn leave(&mut self, leaving: Leaving) {
        let session = leaving.session;
        if let Some(end) = self.sessions.remove(&session) {
            self.recorder.record(Record::Seen(vec![end.seen_now()]));
        }
        match leaving.how {
            Ending::Left => self.hub.handle_left(session, now()),
            Ending::Broken => self.hub.handle_broken(session, now()),
            Ending::Interrupted => self.hub.handle_interrupted(session, now()),
        }
        self.pulse.beat();
    }

    fn note_seen(&self) {
        let seen: Vec<_> = self.sessions.values().map(SessionEnd::seen_now).collect();
        if !seen.is_empty() {
            self.recorder.record(Record::Seen(seen));
        }
    }

    /// The next output of the core. Its log entries are written before.
    fn next_output(&mut self) -> Option<Output> {
        while let Some(end) = self.hub.poll_log() {
            write_log(&end);
        }
        self.hub.poll_output()
    }

    fn hand_out(&mut self) {
        while let Some(output) = self.next_output() {
            match output {
                Output::ToClient { session, message } => {
                    self.post(session, Outgoing::Client(message));
                }
                Output::ToGateway { session, message } => {
                    self.post(session, Outgoing::Gateway(message));
                }
                Output::ToRelay { session, message } => {
                    self.post(session, Outgoing::Relay(message));
                }
                Output::Close { session, reason } => {
                    self.post(session, Outgoing::Close(reason));
                }
                Output::SaveGrants(grants) => self.recorder.record(Record::Save(grants)),
                Output::EndGrants(grants) => self.recorder.record(Record::End(grants)),
                Output::AccessLog(entries) => self.recorder.record(Record::Log(entries)),
                Output::Seen(machines) => self.recorder.record(Record::Seen(machines)),
                Output::Flows { session, batch } => {
                    let written = self.written.clone();
                    self.recorder.record(Record::Flows(Told {
                        session,
                        batch,
                        written,
                    }));
                }
                Output::Traffic { bytes } => {
                    self.recorder.record(Record::Traffic(now(), bytes));
                }
            }
        }
    }

    /// A session that does not take its messages is cut: it comes back and gets everything anew.
    fn post(&mut self, session: SessionId, message: Outgoing) {
        let Some(end) = self.sessions.get(&session) else {
            return;
        };
        if end.outgoing.try_send(message).is_err() {
            self.sessions.remove(&session);
            self.hub.handle_left(session, now());
        }
    }
}

impl SessionEnd {
    fn seen_now(&self) -> SeenMachine {
        SeenMachine {
            id: self.machine,
            seen: Seen {
                at: now(),
                ..self.seen.clone()
            },
        }
    }
}
