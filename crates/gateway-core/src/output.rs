//! Effects that the core asks its owner to carry out.

use super::clients::PeerUpdate;
use super::persisted::GrantChanges;
use culvert_dns::{ForwardId, Transport};
use culvert_ids::{ClientId, GrantId, RelayId};
use culvert_path::TlsPlace;
use culvert_policy::gate::GateTable;
use culvert_policy::{DomainName, Prefix};
use culvert_wire::messages::{FromGateway, Interface, PortalSet};
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// An effect, to be carried out in the order in which they are polled.
#[derive(Debug)]
pub enum Output {
    /// Connect to the portal; then [`handle_connected`](super::Gateway::handle_connected) or
    /// [`handle_disconnected`](super::Gateway::handle_disconnected).
    Connect,
    /// Close the connection. Nothing is to be reported of it any more.
    Disconnect,
    /// Send this over the connection.
    ToPortal(FromGateway),
    /// The portal tells where it is: keep that over a restart, if it can be used.
    Portals(PortalSet),
    /// The portal will not have this gateway: end.
    End(Ending),
    /// The tunnel has these addresses.
    Interface(Interface),
    /// Peers change, and what clients may reach.
    Engine {
        /// The changes, in this order.
        peers: Vec<PeerUpdate>,
        /// All destinations that clients may reach.
        table: Arc<GateTable>,
    },
    /// Exactly these ranges may begin flows at clients, as far as the table lets them.
    Inbound(BTreeSet<Prefix>),
    /// Send this datagram from the tunnel's socket.
    SendPathMessage {
        /// The datagram.
        datagram: Vec<u8>,
        /// Its destination.
        to: SocketAddr,
    },
    /// Open a TLS stream to a relay that gives no answer by UDP; then
    /// [`handle_tls_opened`](super::Gateway::handle_tls_opened) or
    /// [`handle_tls_ended`](super::Gateway::handle_tls_ended).
    OpenTls {
        /// The relay.
        relay: RelayId,
        /// Its TLS port.
        place: TlsPlace,
    },
    /// Close that stream, or give its opening up. Nothing is to be reported of it any more.
    CloseTls(RelayId),
    /// Send to the clients at the address `from` by the address `to` from now on: both lead to the same relay.
    MoveClients {
        /// The address of before.
        from: SocketAddr,
        /// The address from now on.
        to: SocketAddr,
    },
    /// Say which names have flows; then [`handle_names_in_use`](super::Gateway::handle_names_in_use).
    NamesInUse,
    /// Ask the DNS for both families; then [`handle_resolved`](super::Gateway::handle_resolved).
    Resolve(DomainName),
    /// Answer a plain WireGuard device's DNS query.
    AnswerPlain {
        /// The message.
        answer: Vec<u8>,
        /// The source address of the query.
        to: SocketAddr,
        /// Its transport. By TCP, the answer goes on the same connection.
        transport: Transport,
    },
    /// Ask the system's resolver for records in a device's name; then
    /// [`handle_plain_looked_up`](super::Gateway::handle_plain_looked_up).
    LookUp {
        /// The device.
        client: ClientId,
        /// The number of the query.
        id: ForwardId,
        /// The query.
        query: Vec<u8>,
        /// The transport by which the answer counts as received.
        transport: Transport,
    },
    /// The persisted form of these grants must not come into force again, see [`PersistedGrants::void`](super::PersistedGrants::void). To be in the kernel's
    /// hands before the next output: a grant that has ended must not come back because the gateway was
    /// killed.
    Void(Vec<GrantId>),
    /// Keep these changes over a restart. They hold secrets. Earlier [`Self::Void`] ids may be forgotten once they are on
    /// the disk.
    Persist(Box<GrantChanges>),
}

/// The reason for which the gateway can't go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The token is no good.
    NotEnrolled(String),
    /// An administrator has revoked the gateway.
    Revoked(String),
    /// Gateway and portal do not understand each other, or another gateway has its id.
    Failed(String),
}

impl fmt::Display for Ending {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotEnrolled(why) | Self::Revoked(why) | Self::Failed(why)) = self;
        out.write_str(why)
    }
}
