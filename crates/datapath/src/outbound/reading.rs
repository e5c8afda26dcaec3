//! From a frame to the cursor: read, routed, judged by the gate, or staged, handed over and dropped.

use super::{Cursor, MIN_PATH_MTU, Outbound, Resumed, Scope, usable};
use crate::busy_poll::Side;
use crate::context::Context;
use crate::counters::Dropped;
use crate::gate;
use crate::mix::is_udp;
use crate::own;
use crate::queues::Queues;
use crate::shell::{Ended, Shell};
use crate::snapshot::Snapshot;
use crate::splitter::{inner_mtu, told_mtu};
use culvert_packet::ecn::Ecn;
use culvert_packet::{Cut, VNET_HEADER_LEN, VnetHeader, icmp};
use culvert_session::DATA_OVERHEAD;
use std::sync::atomic::Ordering;

/// The longest packet that passes every path that carries the least MTU of IPv6: a longer one has its path measured.
const LONGEST_UNPROBED: usize = MIN_PATH_MTU as usize - IPV6_AND_UDP_LEN - DATA_OVERHEAD;

/// Bytes of the longest headers in front of a datagram.
const IPV6_AND_UDP_LEN: usize = 48;

impl Outbound {
    /// Reads, routes and plans one frame. Returns its number of segments, 0 where it went no
    /// further, `None` where there is none.
    pub(super) fn next_frame<S: Shell>(
        &mut self,
        snapshot: &Snapshot,
        context: &mut Context<S>,
        queues: &mut Queues<S::QueueCredit>,
        scope: Scope,
    ) -> Result<Option<usize>, Ended> {
        let only_priority = scope == Scope::Priority;
        let taken = match only_priority {
            true => None,
            false => self.take_remaining(snapshot, context),
        };
        let (mut queue, mut is_congested, mut is_priority) = (None, false, false);
        let len = if let Some(Resumed {
            frame, answer_to, ..
        }) = taken
        {
            self.frame[..frame.len()].copy_from_slice(&frame);
            if let Some(peer) = answer_to {
                self.point_at_answer(snapshot, context, peer, frame.len());
                return Ok(Some(0));
            }
            frame.len()
        } else {
            let received = queues.receive(
                &mut context.shell,
                &mut self.frame,
                context.now,
                only_priority,
                &context.counters,
            )?;
            let Some(received) = received else {
                return Ok(None);
            };
            context.counters.tun_frames_received.add(1);
            (queue, is_congested) = (received.queue, received.is_congested);
            is_priority = received.is_priority;
            if is_priority {
                context.note_answer(Side::Inside);
            }
            received.len
        };
        let segments = self.route(snapshot, context, len).unwrap_or(0);
        if let (Some(queue), Some(cursor)) = (queue, &self.cursor) {
            let peer = snapshot.peer(cursor.peer);
            let round_trip = peer.and_then(|peer| peer.round_trip());
            queues.note_path(queue, round_trip, context.now);
        }
        if is_congested {
            self.tell_sender(context);
        }
        if let Some(cursor) = &mut self.cursor {
            cursor.is_priority = is_priority;
            if is_priority {
                context.expect_answer(Side::Outside);
            }
        }
        Ok(Some(segments))
    }

    /// A frame that waited for a key or for a route, and has it.
    fn take_remaining<S: Shell>(
        &mut self,
        snapshot: &Snapshot,
        context: &Context<S>,
    ) -> Option<Resumed> {
        let has_key = |id| {
            let peer = snapshot.peer(id);
            peer.is_some_and(|peer| usable(peer, context).is_some())
        };
        let keys = (context.generation, snapshot.keys.changes());
        if self.keyless != Some(keys) {
            if let Some((_, frame)) = self.staging.pop_ready(has_key) {
                return Some(Resumed {
                    frame,
                    generation: context.generation,
                    answer_to: None,
                });
            }
            self.keyless = Some(keys);
        }
        self.take_resumed(context)
    }

    /// Tells the sender of the frame at the cursor to slow down. Its first packet is marked if its transport
    /// understands marks (RFC 3168), and is lost otherwise.
    fn tell_sender<S: Shell>(&mut self, context: &Context<S>) {
        let Some(cursor) = &mut self.cursor else {
            return;
        };
        if cursor.cut.ip().ecn == Ecn::NotEct {
            context.counters.count_drop(Dropped::Codel, 1);
            cursor.next = 1;
            if cursor.cut.segments() == 1 {
                self.cursor = None;
            }
        } else {
            context.counters.queue_marked.add(1);
            cursor.is_marked = true;
        }
    }

    /// Finds the peer of the frame in the buffer and points the cursor at it, or stages or drops it.
    fn route<S: Shell>(
        &mut self,
        snapshot: &Snapshot,
        context: &mut Context<S>,
        len: usize,
    ) -> Option<usize> {
        let Some((vnet, packet)) = self.frame[..len].split_first_chunk::<VNET_HEADER_LEN>() else {
            context.counters.count_drop(Dropped::TunMalformed, 1);
            return None;
        };
        let Ok(mut cut) = VnetHeader::parse(vnet).and_then(|vnet| Cut::plan(&vnet, packet)) else {
            context.counters.count_drop(Dropped::TunMalformed, 1);
            return None;
        };
        if own::is_from_port(packet, snapshot.port)
            && let Some(to) = own::loops_to(snapshot, packet, |address| {
                context.shell.is_own_address(address)
            })
        {
            context.count_loop(to, cut.segments() as u64);
            return None;
        }
        let source = cut.ip().source;
        if snapshot
            .inside
            .is_some_and(|inside| !inside.contains(source))
        {
            context.count_foreign(source, cut.segments() as u64);
            context.reply(|out| icmp::unreachable(packet, icmp::Unreachable::Prohibited, out));
            return None;
        }
        let route = snapshot.routes.owner(cut.ip().destination);
        let peer = route.and_then(|route| snapshot.peer(route.peer));
        let mut before_gate = None;
        if context.gates.is_some() {
            if peer.is_some_and(|peer| usable(peer, context).is_none()) {
                // It will wait for a handshake, and pass the gate again then, as it came: what the gate
                // has translated once belongs to no flow.
                before_gate = Some(Box::<[u8]>::from(&self.frame[..len]));
            }
            cut = gate::pass_to_client(snapshot, context, &mut self.frame[..len], &cut)?;
        }
        let packet = &self.frame[VNET_HEADER_LEN..len];
        let service_routes = snapshot.service_routes.as_deref();
        if service_routes.is_some_and(|routes| routes.lacks_route(packet))
            && context.hand_over_unrouted(&self.frame[..len], cut.segments())
        {
            return None;
        }
        let Some(peer) = peer else {
            if context.hand_over_unrouted(&self.frame[..len], cut.segments()) {
                return None;
            }
            context
                .counters
                .count_drop(Dropped::NoPeer, cut.segments() as u64);
            context.reply(|out| icmp::unreachable(packet, icmp::Unreachable::Host, out));
            return None;
        };
        let Some(endpoint) = peer.endpoint() else {
            context
                .counters
                .count_drop(Dropped::NoEndpoint, cut.segments() as u64);
            context.reply(|out| icmp::unreachable(packet, icmp::Unreachable::Host, out));
            return None;
        };
        if usable(peer, context).is_none() {
            let frame = before_gate.as_deref().unwrap_or(&self.frame[..len]);
            self.staging.push(peer.id, frame, &context.counters);
            // The key may have come a moment ago. Its setter looks at this after it, and this turn reads the number of
            // changes after this: one of the two sees the other.
            peer.wait_for_key(context.worker);
            context.want_handshake(peer);
            return None;
        }
        if let Some(gate) = &context.client_gate {
            gate.note_outbound(context.now, packet);
        }
        if cut.segment_len(0) > LONGEST_UNPROBED && !peer.full_size_left.load(Ordering::Relaxed) {
            context.note_full_size(peer);
        }
        let path_mtu = peer.path_mtu.load(Ordering::Relaxed);
        if path_mtu != 0 {
            // Longer records leave nevertheless: the host may send them in fragments. Their sender hears how to avoid
            // that.
            let fits = inner_mtu(path_mtu, &endpoint.address);
            let told = told_mtu(fits, packet);
            if cut.segment_len(0) > usize::from(told) {
                context.reply(|out| icmp::packet_too_big(packet, told, out));
            }
        }
        context.counters.cut.record(cut.segments());
        let segments = cut.segments();
        let is_udp = is_udp(packet);
        self.interrupt_moderation.note(segments == 1 && is_udp);
        context.mix.note(is_udp, segments);
        self.cursor = Some(Cursor {
            len,
            cut,
            peer: peer.id,
            counted: route.and_then(|route| route.counted),
            public_key: peer.public_key,
            next: 0,
            is_marked: false,
            is_priority: false,
        });
        Some(segments)
    }
}
