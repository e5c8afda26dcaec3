//! The packet inside a record: checked, and offered for delivery.

use crate::context::Context;
use crate::counters::Dropped;
use crate::delivery::Delivery;
use crate::gate::home;
use crate::key_table::Receiving;
use crate::refusal::RouteRefusal;
use crate::shell::Shell;
use crate::snapshot::Snapshot;
use crate::traffic::TrafficCounters;
use culvert_base::TrafficSlot;
use culvert_packet::ecn::{self, Decapsulation, Ecn};
use culvert_packet::icmp::{self, Unexpected};
use culvert_packet::ip::IpView;
use culvert_packet::{MtuMessage, clamp_mss};
use culvert_session::PeerId;
use std::net::IpAddr;
use std::ops::Range;

/// The facts that all packets of a run share.
pub(super) struct OpenedRun<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) receiving: &'a Receiving,
    /// Segments that are sent to this peer have to pass the path to it.
    pub(super) narrow: Option<u16>,
    pub(super) outer_ecn: Ecn,
}

impl OpenedRun<'_> {
    /// Checks the packet at `bytes[inner]`, and offers it for delivery. False where it is the peer's word about its MTU, which
    /// is no data.
    #[inline(always)]
    pub(super) fn offer<S: Shell>(
        &self,
        delivery: &mut Delivery<'_>,
        context: &mut Context<S>,
        bytes: &mut [u8],
        inner: Range<usize>,
        source: &mut OwnSource,
    ) -> bool {
        let (snapshot, receiving) = (self.snapshot, self.receiving);
        let packet = &mut bytes[inner.clone()];
        let traffic = &context.counters.traffic;
        let verdict = admit(snapshot, receiving, packet, self.outer_ecn, source, traffic);
        if verdict.is_err()
            && let Some(message) = MtuMessage::parse(packet)
        {
            context.hear_of_mtu(&receiving.peer, message);
            return false;
        }
        match verdict {
            Ok(Admitted { len, marked }) => {
                if marked {
                    context.counters.congestion_marked.add(1);
                }
                let packet = inner.start..inner.start + len;
                if let Some(mtu) = self.narrow {
                    clamp_mss(&mut bytes[packet.clone()], mtu);
                }
                delivery.push(bytes, packet);
            }
            Err(Dropped::SourceNotAllowed)
                if hear_refusal(snapshot, receiving, context, packet) => {}
            Err(reason) => context.counters.count_drop(reason, 1),
        }
        true
    }
}

/// Reads a packet whose source is not the peer's as an ICMP error about one that this end has sent to the peer.
#[cold]
fn about_own_packet<'a>(
    snapshot: &Snapshot,
    peer: PeerId,
    packet: &IpView<'a>,
) -> Option<Unexpected<'a>> {
    let inside = snapshot.inside?;
    icmp::about_own_packet(
        packet,
        |address| inside.contains(address),
        |address| snapshot.owner(address) == Some(peer),
    )
}

/// Hands over what the peer says of a packet that it does not let pass. False where it says no such thing, or where a client
/// has sent no such packet.
#[cold]
fn hear_refusal<S: Shell>(
    snapshot: &Snapshot,
    receiving: &Receiving,
    context: &Context<S>,
    packet: &[u8],
) -> bool {
    let Ok(view) = IpView::parse(packet) else {
        return false;
    };
    let Some(Unexpected::Refused(quoted, kind)) =
        about_own_packet(snapshot, receiving.peer.id, &view)
    else {
        return false;
    };
    if let Some(gate) = &context.client_gate
        && !gate.has_sent(context.now, home(snapshot), quoted)
    {
        return false;
    }
    let refusal = match kind {
        icmp::Unreachable::Prohibited => RouteRefusal::Prohibited,
        _ => RouteRefusal::Unreachable,
    };
    context.hand_over_refused(quoted, refusal);
    true
}

/// The last address that was found to be the peer's, and the bytes of the packets that came from there, which are counted
/// once for all of them.
#[derive(Default)]
pub(super) struct OwnSource {
    address: Option<IpAddr>,
    counted: Option<TrafficSlot>,
    bytes: usize,
}

impl OwnSource {
    fn begin(&mut self, address: IpAddr, counted: Option<TrafficSlot>, traffic: &TrafficCounters) {
        if counted != self.counted {
            traffic.count_received(self.counted, self.bytes);
            self.bytes = 0;
        }
        self.address = Some(address);
        self.counted = counted;
    }

    pub(super) fn end(self, traffic: &TrafficCounters) {
        traffic.count_received(self.counted, self.bytes);
    }
}

struct Admitted {
    /// Bytes of the packet; what follows is padding.
    len: usize,
    /// The outer congestion mark was taken over.
    marked: bool,
}

/// Checks that an opened packet is well-formed and from its peer, and combines the congestion bits.
///
/// A packet from an address of the peer counts for its destination, whatever the gate says of it: it came by the tunnel.
fn admit(
    snapshot: &Snapshot,
    receiving: &Receiving,
    inner: &mut [u8],
    outer: Ecn,
    own: &mut OwnSource,
    traffic: &TrafficCounters,
) -> Result<Admitted, Dropped> {
    let Ok(view) = IpView::parse(inner) else {
        return Err(Dropped::InnerMalformed);
    };
    let len = view.total_len();
    let mut own_bytes = len;
    if !own.address.is_some_and(|own| view.is_from(own)) {
        let source = view.source();
        // "…checks that the source address of the inner packet routes to the peer the key is for"
        // (WireGuard paper, section 2): by longest match, not by any match.
        let route = snapshot.routes.owner(source);
        if let Some(route) = route.filter(|route| route.peer == receiving.peer.id) {
            own.begin(source, route.counted, traffic);
        } else if matches!(
            about_own_packet(snapshot, receiving.peer.id, &view),
            Some(Unexpected::Relayed)
        ) {
            own_bytes = 0;
        } else {
            return Err(Dropped::SourceNotAllowed);
        }
    }
    own.bytes += own_bytes;
    let inner_ecn = view.ecn();
    match ecn::decapsulate(inner_ecn, outer) {
        Decapsulation::Keep => Ok(Admitted { len, marked: false }),
        Decapsulation::SetEct1 => {
            ecn::set(&mut inner[..len], Ecn::Ect1);
            Ok(Admitted { len, marked: true })
        }
        Decapsulation::SetCe => {
            ecn::mark_ce(&mut inner[..len]);
            Ok(Admitted { len, marked: true })
        }
        Decapsulation::Drop => Err(Dropped::CongestionOverNotEct),
    }
}
