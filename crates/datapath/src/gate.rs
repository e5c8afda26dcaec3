//! The verdict of a gateway's gate on the packets of a worker, in either direction, and that of a client's on those that come
//! in.

use crate::context::Context;
use crate::gates::Gates;
use crate::shell::Shell;
use crate::snapshot::{Inside, Snapshot};
use culvert_base::BootTime;
use culvert_packet::ip::IpView;
use culvert_packet::{Cut, Gathered, VNET_HEADER_LEN, VnetHeader};
use culvert_policy::Checksum;
use culvert_policy::gate::{
    ClientGate, DropReason, Frame, GateTable, Later, PeerKey, TunnelAddresses, Verdict,
};
use culvert_session::PeerId;
use std::net::IpAddr;

/// Has a frame to a client judged and translated. Returns how it falls into packets then; `None` where it is dropped,
/// which is counted.
pub(crate) fn pass_to_client<S: Shell>(
    snapshot: &Snapshot,
    context: &Context<S>,
    frame: &mut [u8],
    cut: &Cut,
) -> Option<Cut> {
    let drop = |reason| {
        let packets = cut.segments() as u64;
        context.counters.count_gate_drop(reason, packets);
        None
    };
    let (Some(gates), Some(table)) = (context.gates(), snapshot.gate.as_deref()) else {
        return drop(DropReason::NoGrant);
    };
    let (vnet, packet) = frame.split_first_chunk_mut::<VNET_HEADER_LEN>()?;
    let vnet = VnetHeader::parse(vnet).ok()?;
    let checksum = if vnet.needs_checksum {
        Checksum::Partial
    } else {
        Checksum::Complete
    };
    let frame = Frame {
        packets: cut.segments() as u32,
        checksum,
        ..Frame::packet(packet)
    };
    let client = cut.ip().destination;
    match gates.admit_to_client(table, context.now, client, frame) {
        Verdict::Admit(_) | Verdict::AdmitFirst(_) => Cut::plan(&vnet, packet).ok(),
        Verdict::Drop(reason) => drop(reason),
    }
}

/// The verdict on packets of a client, joined to one; those that pass may have been translated.
///
/// A superframe is judged once, by its first packet: what the coalescer has joined to it is of the same flow, and has
/// nothing that a verdict could depend on and the first has not.
pub(crate) fn judge_from_client(
    gates: &Gates,
    snapshot: &Snapshot,
    now: BootTime,
    key: Option<PeerKey>,
    gathered: &mut Gathered<'_>,
) -> Judged {
    let (Some(table), Some(peer)) = (snapshot.gate.as_deref(), key) else {
        return Judged::Refused(DropReason::NoGrant);
    };
    let later = Later {
        bytes: gathered.later_bytes(),
        tcp_flags: gathered.later_tcp_flags(),
    };
    let packets = gathered.packets() as u32;
    let packet = gathered.first();
    let Ok(client) = IpView::parse(packet).map(|view| view.source()) else {
        return Judged::Refused(DropReason::Malformed);
    };
    let frame = Frame {
        packets,
        later,
        ..Frame::packet(packet)
    };
    let mut waiting = Vec::new();
    match gates.admit_from_client(table, now, client, peer, frame, &mut waiting) {
        Verdict::Admit(_) => Judged::Passes,
        Verdict::AdmitFirst(_) => {
            waiting.retain_mut(|packet| passes(gates, table, now, client, peer, packet));
            Judged::Releases(waiting)
        }
        Verdict::Drop(DropReason::Fragment) if gates.hold(now, client, peer, packet) => {
            Judged::Waits
        }
        Verdict::Drop(reason) => Judged::Refused(reason),
    }
}

/// The verdict at a client on packets of a gateway, joined to one: by the first of them, as at a gateway.
pub(crate) fn judge_at_client(
    gate: &ClientGate,
    snapshot: &Snapshot,
    now: BootTime,
    from: Option<PeerId>,
    gathered: &mut Gathered<'_>,
) -> Judged {
    let Some(from) = from else {
        return Judged::Refused(DropReason::NotAFlow);
    };
    let later = Later {
        bytes: gathered.later_bytes(),
        tcp_flags: gathered.later_tcp_flags(),
    };
    let packets = gathered.packets() as u32;
    let packet = gathered.first();
    let admit = |packet: &mut [u8], packets: u32, later: Later| {
        let frame = Frame {
            packets,
            later,
            ..Frame::packet(packet)
        };
        let is_peers = |address| snapshot.owner(address) == Some(from);
        let (home, rules) = (home(snapshot), snapshot.inbound.as_deref());
        gate.admit(now, share_of(from), home, rules, is_peers, &frame)
    };
    match admit(packet, packets, later) {
        Verdict::Admit(_) => Judged::Passes,
        Verdict::AdmitFirst(_) => {
            let mut waiting = gate.take_released(now, share_of(from), packet);
            waiting.retain_mut(|packet| {
                let verdict = admit(packet, 1, Later::default());
                matches!(verdict, Verdict::Admit(_))
            });
            Judged::Releases(waiting)
        }
        Verdict::Drop(DropReason::Fragment) if gate.hold(now, share_of(from), packet) => {
            Judged::Waits
        }
        Verdict::Drop(reason) => Judged::Refused(reason),
    }
}

/// The addresses that packets may come in for.
pub(crate) fn home(snapshot: &Snapshot) -> Option<TunnelAddresses> {
    let Inside { v4, v6 } = snapshot.inside?;
    Some(TunnelAddresses { v4, v6 })
}

/// The gateway whose share of the fragments that wait a packet belongs to.
const fn share_of(peer: PeerId) -> PeerKey {
    PeerKey(peer.0)
}

/// The verdict on packets that come in.
pub(crate) enum Judged {
    Passes,
    /// They are a first fragment, and behind it pass later ones that came before it.
    Releases(Vec<Box<[u8]>>),
    /// They are a later fragment that waits for the first one.
    Waits,
    Refused(DropReason),
}

/// True if a fragment that waited for the first one passes behind it.
#[cold]
fn passes(
    gates: &Gates,
    table: &GateTable,
    now: BootTime,
    client: IpAddr,
    peer: PeerKey,
    packet: &mut [u8],
) -> bool {
    let frame = Frame::packet(packet);
    let verdict = gates.admit_from_client(table, now, client, peer, frame, &mut Vec::new());
    matches!(verdict, Verdict::Admit(_))
}
