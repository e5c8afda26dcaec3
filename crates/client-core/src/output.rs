//! The orders of the core to its owner.

use super::domains::Domains;
use super::guard::GuardRules;
use super::packet::PacketRefusal;
use super::remembered::Remembered;
use culvert_base::TrafficSlot;
use culvert_dns::{ForwardId, Transport, Via};
use culvert_ids::{GatewayId, RelayId};
use culvert_path::TlsPlace;
use culvert_policy::gate::InboundRules;
use culvert_policy::{DomainName, Prefix, RoutedServices};
use culvert_wire::messages::{FromClient, Interface, PortalSet};
use culvert_wire::{Cipher, PresharedKey, PublicKey};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// An effect, to be carried out in the order in which they are polled.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<P> {
    /// Connect to the portal; then [`handle_connected`](super::Client::handle_connected) or
    /// [`handle_disconnected`](super::Client::handle_disconnected).
    Connect,
    /// Close the connection. Nothing is to be reported of it any more.
    Disconnect,
    /// Send this over the connection.
    ToPortal(FromClient),
    /// The portal tells where it is: keep that over a restart, if it can be used.
    Portals(PortalSet),
    /// Keep these destinations over a restart, in the place of those before.
    Remember(Remembered),
    /// The portal will not have this client: end.
    End(Ending),
    /// The tunnel has these addresses.
    Interface(Interface),
    /// Exactly these ranges lead into the tunnel.
    Routes(BTreeSet<Prefix>),
    /// Exactly these rules about programs are to hold for what leaves this host through the tunnel;
    /// then [`handle_guard`](super::Client::handle_guard).
    Guard(GuardRules),
    /// The names that the system is to ask here, and how it completes short ones.
    Domains {
        /// Names of resources, and those with servers of their own, lie in these domains and nowhere else.
        asked: Domains,
        /// The domains by which short names are completed, in this order.
        search: Vec<DomainName>,
    },
    /// Peers change, and packets that had no route go on under the change.
    Engine {
        /// The changes, in this order.
        peers: Vec<PeerUpdate>,
        /// Ranges whose routes are for some services alone, if they have changed. Packets for other services have no route.
        services: Option<BTreeMap<Prefix, RoutedServices>>,
        /// The rights of resources at this host, if they have changed.
        inbound: Option<Box<InboundRules>>,
        /// Packets that go on.
        resume: Vec<P>,
    },
    /// Send this datagram from the tunnel's socket.
    SendPathMessage {
        /// The datagram.
        datagram: Vec<u8>,
        /// Its destination.
        to: SocketAddr,
    },
    /// Send to a peer there from now on, and one record at once; with `None`, to where its records come from.
    UsePath {
        /// The peer.
        key: PublicKey,
        /// The address.
        address: Option<SocketAddr>,
    },
    /// Open a TLS stream to a relay that gives no answer by UDP; then
    /// [`handle_tls_opened`](super::Client::handle_tls_opened) or [`handle_tls_ended`](super::Client::handle_tls_ended).
    OpenTls {
        /// The gateway that the stream is for.
        gateway: GatewayId,
        /// The relay.
        relay: RelayId,
        /// Its TLS port.
        place: TlsPlace,
    },
    /// Close that stream, or give its opening up. Nothing is to be reported of it any more.
    CloseTls {
        /// The gateway that the stream was for.
        gateway: GatewayId,
        /// The relay.
        relay: RelayId,
    },
    /// Send the initiation that waits for its answer to one more address, if there is one.
    RepeatInitiation {
        /// The peer.
        key: PublicKey,
        /// The address.
        to: SocketAddr,
    },
    /// These packets go nowhere; tell their senders.
    Refuse {
        /// The packets.
        packets: Vec<P>,
        /// The message to their senders.
        refusal: PacketRefusal,
    },
    /// Answer a DNS query.
    Answer {
        /// The message.
        bytes: Vec<u8>,
        /// The sender of the query.
        to: SocketAddr,
        /// The transport of the query.
        transport: Transport,
    },
    /// Ask an upstream resolver.
    Forward {
        /// For the answer.
        id: ForwardId,
        /// The message.
        query: Vec<u8>,
        /// The resolver to ask.
        upstream: SocketAddr,
        /// The transport to ask by.
        transport: Transport,
        /// On which way.
        via: Via,
    },
}

/// A change of one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerUpdate {
    /// The peer is like this.
    Set(Box<Peer>),
    /// A handshake begins with it now, over all its candidates.
    BeginHandshake(PublicKey),
    /// There is no such peer any more.
    Remove(PublicKey),
}

/// A gateway as the data plane knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The gateway.
    pub gateway: GatewayId,
    /// Its key.
    pub key: PublicKey,
    /// The secret of the pair.
    pub preshared_key: PresharedKey,
    /// The suite of the tunnel.
    pub cipher: Cipher,
    /// Addresses at which it may be.
    pub candidates: Vec<SocketAddr>,
    /// True if the path to it is kept open while nothing is sent: flows may begin at its end.
    pub is_kept_open: bool,
    /// All ranges that go to it and may come from it. Ranges that it had before and that are not among them end.
    pub allowed_ips: BTreeSet<Prefix>,
    /// Of these, the ranges of resources, and the place where the bytes of each are counted.
    pub counted: BTreeMap<Prefix, TrafficSlot>,
}

/// The reason for which the client can't go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The token is no good.
    NotEnrolled(String),
    /// The client was revoked, or access to the portal denied for good.
    Denied(String),
    /// Client and portal do not understand each other, or another client has its id.
    Failed(String),
}
