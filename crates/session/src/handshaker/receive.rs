//! Received messages: initiations, responses, cookie replies.

use super::Handshaker;
use super::answered::Answered;
use super::output::{Destination, HandshakeDatagram, Output};
use crate::constants::UNDER_LOAD_AFTER;
use crate::crypto::Scalar;
use crate::drop_reason::DropReason;
use crate::ids::{Index, PeerId};
use crate::noise::{HandshakeRefusal, ReceivedInitiation, SessionKeys};
use crate::parse::{CookieReply, Initiation, Macs, Message, Response};
use crate::time::Clock;
use crate::transport::{Role, Transport};
use culvert_aead::Suite;
use culvert_base::BootTime;
use std::net::SocketAddr;
use std::sync::Arc;

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
    /// # Errors
    /// [`DropReason`]: the datagram was refused, for the owner to count. No session changed.
    pub fn handle_datagram(
        &mut self,
        datagram: &[u8],
        source: SocketAddr,
        under_load: bool,
        clock: Clock,
    ) -> Result<PeerId, DropReason> {
        if !self.is_up {
            return Err(DropReason::Down);
        }
        let under_load = self.is_under_load(under_load, clock.now);
        let peer = match Message::parse(datagram) {
            Some(Message::Initiation(initiation)) => {
                self.admit(
                    &initiation.macs,
                    initiation.sender,
                    source,
                    under_load,
                    clock.now,
                )?;
                self.handle_initiation(&initiation, source, clock)?
            }
            Some(Message::Response(response)) => {
                self.admit(
                    &response.macs,
                    response.sender,
                    source,
                    under_load,
                    clock.now,
                )?;
                self.handle_response(&response, source, clock)?
            }
            Some(Message::CookieReply(reply)) => self.handle_cookie_reply(&reply, clock.now)?,
            Some(Message::Data(_)) | None => return Err(DropReason::Malformed),
        };
        self.peers.reschedule(peer, self.is_up, clock.now);
        Ok(peer)
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

    fn handle_initiation(
        &mut self,
        initiation: &Initiation<'_>,
        source: SocketAddr,
        clock: Clock,
    ) -> Result<PeerId, DropReason> {
        let local = self.local.as_ref().ok_or(DropReason::NoPrivateKey)?;
        let received = ReceivedInitiation::read(&local.identity, self.peers.suites(), initiation)?;
        let id = self
            .peers
            .by_key(received.initiator())
            .ok_or(DropReason::UnknownPeer)?;
        let peer = self.peers.get_mut(id).ok_or(DropReason::UnknownPeer)?;
        if received.suite() != peer.suite {
            return Err(DropReason::WrongSuite);
        }
        // The bytes are those of an initiation that was authentic, so this one is.
        let answered = peer.answered.as_mut();
        if let Some(response) =
            answered.and_then(|it| it.answer_copy(initiation, source, clock.now))
        {
            peer.activity.any_sent(clock.now);
            self.outputs.push_back(Output::Send {
                peer: id,
                datagram: HandshakeDatagram::new(response),
                to: Destination::Reply(source),
            });
            return Ok(id);
        }
        let static_static = peer.static_static(&local.identity);
        let static_static = static_static.ok_or(DropReason::LowOrderKey)?;
        let verified = received.verify(static_static, initiation)?;
        peer.accept_initiation(verified.timestamp(), clock.now)?;

        let suite = peer.suite;
        let preshared = peer.preshared_key.clone();
        let ephemeral = Scalar::new(&self.random.key());
        let index = self.peers.take_index(id, &mut self.random);
        let (keys, message) = verified
            .respond(&preshared, &ephemeral, index, initiation.sender)
            .inspect_err(|_| self.peers.free_index(index))?;
        self.responded(id, suite, &keys, (index, initiation.sender), clock);
        // The endpoint stays. An initiation shows a path that leads here, and not that it leads back; the peer's first
        // data under the new keys shows both, and moves it.
        self.outputs.push_back(Output::KeysChanged { peer: id });
        self.send_response(id, message, initiation, source, clock.now);
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
        mut message: [u8; crate::parse::RESPONSE_LEN],
        initiation: &Initiation<'_>,
        source: SocketAddr,
        now: BootTime,
    ) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        peer.macs.add(&mut message, now);
        let answered = Answered::new(initiation, message, source, now);
        peer.answered = Some(Box::new(answered));
        peer.handshake_sent_at = Some(now);
        peer.activity.any_sent(now);
        self.outputs.push_back(Output::Send {
            peer: id,
            datagram: HandshakeDatagram::new(&message),
            to: Destination::Reply(source),
        });
    }

    fn handle_response(
        &mut self,
        response: &Response<'_>,
        source: SocketAddr,
        clock: Clock,
    ) -> Result<PeerId, DropReason> {
        let local = self.local.as_ref().ok_or(DropReason::NoPrivateKey)?;
        let id = self
            .peers
            .by_index(response.receiver)
            .ok_or(DropReason::UnknownIndex)?;
        let peer = self.peers.get_mut(id).ok_or(DropReason::UnknownIndex)?;
        let (index, sent) = peer
            .sent
            .as_ref()
            .filter(|(index, _)| *index == response.receiver)
            // The index is that of keys by now, which an earlier response made.
            .ok_or(DropReason::DuplicateResponse)?;
        let keys = sent.read_response(&local.identity, &peer.preshared_key, response)?;

        let transport = Arc::new(Transport::new(
            id,
            Role::Initiator,
            (*index, response.sender),
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
