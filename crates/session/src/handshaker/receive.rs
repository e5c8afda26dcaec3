//! Received messages: initiations, responses, cookie replies.

use super::Handshaker;
use super::answered::{Answered, CopyAnswer};
use super::output::{Destination, HandshakeDatagram, Output};
use super::work::{Completing, Finished, Responding, Step, Task, TaskResult, Work, parsed};
use crate::constants::UNDER_LOAD_AFTER;
use crate::drop_reason::DropReason;
use crate::ids::{Index, PeerId};
use crate::noise::{HandshakeRefusal, ReceivedInitiation, SessionKeys};
use crate::parse::{
    CookieReply, INITIATION_LEN, Initiation, Macs, Message, RESPONSE_LEN, Response,
};
use crate::time::Clock;
use crate::transport::{Role, Transport};
use culvert_aead::Suite;
use culvert_base::BootTime;
use std::net::SocketAddr;
use std::sync::Arc;

/// The next step for a datagram.
enum Next {
    Done(PeerId),
    Work(Box<Task>),
}

impl From<HandshakeRefusal> for DropReason {
    fn from(refusal: HandshakeRefusal) -> Self {
        match refusal {
            HandshakeRefusal::NotAuthentic => Self::NotAuthentic,
            HandshakeRefusal::LowOrderKey => Self::LowOrderKey,
        }
    }
}

impl Handshaker {
    /// Takes a datagram of type 1, 2 or 3 that came from `source`. `under_load` says that more of
    /// them wait than can be handled soon; it holds for
    /// [`UNDER_LOAD_AFTER`]. Returns whom the datagram came from.
    ///
    /// It does the work of [`Self::begin_datagram`] by itself.
    ///
    /// # Errors
    /// [`DropReason`]: the datagram was refused, for the owner to count. No session changed.
    pub fn handle_datagram(
        &mut self,
        datagram: &[u8],
        source: SocketAddr,
        under_load: bool,
        clock: Clock,
    ) -> Result<PeerId, DropReason> {
        let mut step = self.begin_datagram(datagram, source, under_load, clock);
        loop {
            match step {
                Step::Done(handled) => return handled,
                Step::Work(work) => step = self.finish(work.run(), clock),
            }
        }
    }

    /// Takes a datagram as [`Self::handle_datagram`] does, up to the work that any thread may do.
    pub fn begin_datagram(
        &mut self,
        datagram: &[u8],
        source: SocketAddr,
        under_load: bool,
        clock: Clock,
    ) -> Step {
        let begun = self.begin(datagram, source, under_load, clock);
        self.step(source, begun, clock)
    }

    /// Goes on with a datagram whose work is done. Those whose work began in the same order may come in another one.
    pub fn finish(&mut self, finished: Finished, clock: Clock) -> Step {
        let Finished {
            era,
            source,
            result,
        } = finished;
        let is_late = era != self.era;
        let went_on = match result {
            TaskResult::Responded { responding, .. } if is_late => {
                self.peers.free_index(responding.index);
                Err(DropReason::Superseded)
            }
            _ if is_late => Err(DropReason::Superseded),
            TaskResult::Read {
                received,
                initiation,
            } => received
                .map_err(DropReason::from)
                .and_then(|received| self.identify(received, initiation, source, clock)),
            TaskResult::Agreed {
                secret,
                received,
                initiation,
            } => {
                if let Some(id) = self.peers.by_key(received.initiator())
                    && let Some(peer) = self.peers.get(id)
                {
                    peer.set_static_static(secret);
                }
                self.identify(received, initiation, source, clock)
            }
            TaskResult::Responded { responding, made } => {
                let responded = self.respond(&responding, made, source, clock);
                if responded.is_err() {
                    self.peers.free_index(responding.index);
                }
                responded.map(Next::Done)
            }
            TaskResult::Completed { completing, keys } => self
                .complete(&completing, keys, source, clock)
                .map(Next::Done),
        };
        self.step(source, went_on, clock)
    }

    fn step(&mut self, source: SocketAddr, next: Result<Next, DropReason>, clock: Clock) -> Step {
        match next {
            Ok(Next::Work(task)) => Step::Work(Work {
                era: self.era,
                source,
                task,
            }),
            Ok(Next::Done(peer)) => {
                self.peers.reschedule(peer, self.is_up, clock.now);
                Step::Done(Ok(peer))
            }
            Err(reason) => Step::Done(Err(reason)),
        }
    }

    fn begin(
        &mut self,
        datagram: &[u8],
        source: SocketAddr,
        under_load: bool,
        clock: Clock,
    ) -> Result<Next, DropReason> {
        if !self.is_up {
            return Err(DropReason::Down);
        }
        let under_load = self.is_under_load(under_load, clock.now);
        match Message::parse(datagram) {
            Some(Message::Initiation(initiation)) => {
                self.admit(
                    &initiation.macs,
                    initiation.sender,
                    source,
                    under_load,
                    clock.now,
                )?;
                let bytes = datagram.try_into().map_err(|_| DropReason::Malformed)?;
                self.begin_initiation(bytes)
            }
            Some(Message::Response(response)) => {
                self.admit(
                    &response.macs,
                    response.sender,
                    source,
                    under_load,
                    clock.now,
                )?;
                let bytes = datagram.try_into().map_err(|_| DropReason::Malformed)?;
                self.begin_response(&response, bytes)
            }
            Some(Message::CookieReply(reply)) => {
                self.handle_cookie_reply(&reply, clock.now).map(Next::Done)
            }
            Some(Message::Data(_)) | None => Err(DropReason::Malformed),
        }
    }

    fn is_under_load(&mut self, under_load: bool, now: BootTime) -> bool {
        if under_load {
            self.under_load_at = Some(now);
        }
        self.under_load_at
            .is_some_and(|last| !now.has_passed(last, UNDER_LOAD_AFTER))
    }

    /// §5.4.4: mac1 always; while under load mac2 too, by which the sender shows that it owns its
    /// address, and then the rate of that address. A source that has sent little needs no mac2.
    fn admit(
        &mut self,
        macs: &Macs<'_>,
        sender: Index,
        source: SocketAddr,
        under_load: bool,
        now: BootTime,
    ) -> Result<(), DropReason> {
        let local = self.local.as_mut().ok_or(DropReason::NoPrivateKey)?;
        if !local.cookies.is_mac1_valid(macs) {
            return Err(DropReason::InvalidMac1);
        }
        if !under_load {
            return Ok(());
        }
        if !local.cookies.is_mac2_valid(macs, source, now) {
            if self.cookieless_rates.allow(source.ip(), now) {
                return Ok(());
            }
            let reply = local
                .cookies
                .reply(macs, sender, source, &mut self.random, now);
            self.outputs.push_back(Output::SendCookieReply {
                datagram: HandshakeDatagram::new(&reply),
                to: source,
            });
            return Err(DropReason::CookieRequired);
        }
        if !self.source_rates.allow(source.ip(), now) {
            return Err(DropReason::RateLimited);
        }
        Ok(())
    }

    fn begin_initiation(&self, initiation: [u8; INITIATION_LEN]) -> Result<Next, DropReason> {
        let local = self.local.as_ref().ok_or(DropReason::NoPrivateKey)?;
        Ok(Next::Work(Box::new(Task::Read {
            identity: Arc::clone(&local.identity),
            suites: self.peers.suites().collect(),
            initiation,
        })))
    }

    /// Finds the peer that an initiation claims to be from, and reads the rest of it.
    fn identify(
        &mut self,
        received: ReceivedInitiation,
        initiation: [u8; INITIATION_LEN],
        source: SocketAddr,
        clock: Clock,
    ) -> Result<Next, DropReason> {
        let local = self.local.as_ref().ok_or(DropReason::NoPrivateKey)?;
        let id = self
            .peers
            .by_key(received.initiator())
            .ok_or(DropReason::UnknownPeer)?;
        let peer = self.peers.get_mut(id).ok_or(DropReason::UnknownPeer)?;
        if received.suite() != peer.suite {
            return Err(DropReason::WrongSuite);
        }
        let parsed = parsed(&initiation);
        // The bytes are those of an initiation that was authentic, so this one is.
        let answered = peer.answered.as_mut();
        match answered.and_then(|it| it.answer_copy(&parsed, source, clock.now)) {
            Some(CopyAnswer::Now(response)) => {
                peer.activity.any_sent(clock.now);
                self.outputs.push_back(Output::Send {
                    peer: id,
                    datagram: HandshakeDatagram::new(&response),
                    to: Destination::Reply(source),
                });
                return Ok(Next::Done(id));
            }
            Some(CopyAnswer::Later) => return Ok(Next::Done(id)),
            None => {}
        }
        let Some(static_static) = peer.known_static_static() else {
            return Ok(Next::Work(Box::new(Task::Agree {
                identity: Arc::clone(&local.identity),
                received,
                initiation,
            })));
        };
        let static_static = static_static.ok_or(DropReason::LowOrderKey)?;
        let verified = received.verify(static_static, &parsed)?;
        peer.accept_initiation(verified.timestamp(), clock.now)?;
        peer.answered = Some(Box::new(Answered::begin(&parsed, source, clock.now)));

        let (public_key, suite) = (peer.public_key, peer.suite);
        let preshared = peer.preshared_key.clone();
        let responding = Responding {
            peer: id,
            public_key,
            suite,
            timestamp: verified.timestamp(),
            index: self.peers.take_index(id, &mut self.random),
            initiation,
        };
        Ok(Next::Work(Box::new(Task::Respond {
            responding,
            verified,
            ephemeral: self.random.key(),
            preshared,
        })))
    }

    fn respond(
        &mut self,
        responding: &Responding,
        made: Result<(SessionKeys, [u8; RESPONSE_LEN]), HandshakeRefusal>,
        source: SocketAddr,
        clock: Clock,
    ) -> Result<PeerId, DropReason> {
        let id = responding.peer;
        let peer = self.peers.get(id).filter(|peer| {
            peer.public_key == responding.public_key
                && peer.suite == responding.suite
                && peer.timestamp_received == Some(responding.timestamp)
        });
        peer.ok_or(DropReason::Superseded)?;
        let (keys, message) = made.inspect_err(|_| {
            if let Some(peer) = self.peers.get_mut(id) {
                peer.answered = None;
            }
        })?;
        let initiation = parsed(&responding.initiation);
        let indices = (responding.index, initiation.sender);
        self.responded(id, responding.suite, &keys, indices, clock);
        // The endpoint stays. An initiation shows a path that leads here, and not that it leads back; the peer's first
        // data under the new keys shows both, and moves it.
        self.outputs.push_back(Output::KeysChanged { peer: id });
        self.send_response(id, message, &initiation, source, clock.now);
        Ok(id)
    }

    /// Puts a responder's keys where they wait for the initiator's first data.
    fn responded(
        &mut self,
        id: PeerId,
        suite: Suite,
        keys: &SessionKeys,
        indices: (Index, Index),
        clock: Clock,
    ) {
        let transport = Transport::new(id, Role::Responder, indices, suite, keys, clock.now);
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        peer.activity.any_received(clock.now);
        if let Some(dropped) = peer.slots.put_responded(Arc::new(transport)) {
            self.peers.free_index(dropped.local_index());
        }
        self.session_derived(id, clock.now);
    }

    fn send_response(
        &mut self,
        id: PeerId,
        mut message: [u8; RESPONSE_LEN],
        initiation: &Initiation<'_>,
        source: SocketAddr,
        now: BootTime,
    ) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        peer.macs.add(&mut message, now);
        peer.handshake_sent_at = Some(now);
        peer.activity.any_sent(now);
        // It is gone if the session was cleared meanwhile.
        let begin = || Box::new(Answered::begin(initiation, source, now));
        let answered = peer.answered.get_or_insert_with(begin);
        for &source in answered.complete(message, now) {
            self.outputs.push_back(Output::Send {
                peer: id,
                datagram: HandshakeDatagram::new(&message),
                to: Destination::Reply(source),
            });
        }
    }

    fn begin_response(
        &self,
        response: &Response<'_>,
        bytes: [u8; RESPONSE_LEN],
    ) -> Result<Next, DropReason> {
        let local = self.local.as_ref().ok_or(DropReason::NoPrivateKey)?;
        let id = self
            .peers
            .by_index(response.receiver)
            .ok_or(DropReason::UnknownIndex)?;
        let peer = self.peers.get(id).ok_or(DropReason::UnknownIndex)?;
        let sent = peer
            .initiation(response.receiver)
            // The index is that of keys by now, which an earlier response made.
            .ok_or(DropReason::DuplicateResponse)?;
        Ok(Next::Work(Box::new(Task::Complete {
            completing: Completing {
                peer: id,
                public_key: peer.public_key,
                index: response.receiver,
                remote_index: response.sender,
            },
            identity: Arc::clone(&local.identity),
            sent: Arc::clone(sent),
            preshared: peer.preshared_key.clone(),
            response: bytes,
        })))
    }

    fn complete(
        &mut self,
        completing: &Completing,
        keys: Result<SessionKeys, HandshakeRefusal>,
        source: SocketAddr,
        clock: Clock,
    ) -> Result<PeerId, DropReason> {
        let (id, index) = (completing.peer, completing.index);
        let keys = keys?;
        let peer = self.peers.get_mut(id);
        let peer = peer.filter(|peer| peer.public_key == completing.public_key);
        let peer = peer.ok_or(DropReason::Superseded)?;
        // Another copy of the response may have been faster, or another initiation has left since.
        peer.initiation(index)
            .ok_or(DropReason::DuplicateResponse)?;
        let transport = Arc::new(Transport::new(
            id,
            Role::Initiator,
            (index, completing.remote_index),
            peer.suite,
            &keys,
            clock.now,
        ));
        // The index is the transport's from here on.
        peer.sent = None;
        peer.sent_datagram = None;
        peer.activity.any_received(clock.now);
        let dropped = peer.slots.put_initiated(Arc::clone(&transport));
        self.session_derived(id, clock.now);
        self.outputs.push_back(Output::Roamed {
            peer: id,
            to: source,
        });
        self.handshake_completed(id, &transport, dropped.as_deref(), clock);
        Ok(id)
    }

    /// §5.4.7. Not authenticated by the peer's static key alone, and anyone on the path could
    /// repeat it from elsewhere: it changes the cookie and nothing else, least of all the endpoint.
    fn handle_cookie_reply(
        &mut self,
        reply: &CookieReply<'_>,
        now: BootTime,
    ) -> Result<PeerId, DropReason> {
        let id = self
            .peers
            .by_index(reply.receiver)
            .ok_or(DropReason::UnknownIndex)?;
        let peer = self.peers.get_mut(id).ok_or(DropReason::UnknownIndex)?;
        peer.macs
            .take_reply(reply, now)
            .map_err(|_| DropReason::InvalidCookieReply)?;
        Ok(id)
    }
}
