//! Orders and news of the relays of an end.

use super::stream::TlsPlace;
use culvert_ids::RelayId;
use culvert_relay_core::message::RefusalReason;
use std::net::SocketAddr;
use std::time::Duration;

/// An effect, to be carried out in the order in which [`Relays::poll_output`](super::Relays::poll_output) returns them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelaysOutput<K> {
    /// Send this.
    Send {
        /// The datagram.
        datagram: Vec<u8>,
        /// Its destination.
        to: SocketAddr,
    },
    /// A registration has left for this address: records that follow it are forwarded.
    Registering {
        /// The owner of the registration.
        owner: K,
        /// The relay's address.
        address: SocketAddr,
    },
    /// The relay refuses this end.
    Refused {
        /// The relay.
        relay: RelayId,
        /// The reason.
        reason: RefusalReason,
    },
    /// Open a TLS stream to the relay; then [`Relays::handle_tls_opened`](super::Relays::handle_tls_opened) or [`Relays::handle_tls_ended`](super::Relays::handle_tls_ended).
    OpenTls {
        /// The owner of the stream.
        owner: K,
        /// The relay.
        relay: RelayId,
        /// Its TLS port.
        place: TlsPlace,
    },
    /// Close the owner's stream to the relay, or give its opening up. Nothing is to be reported of it any more.
    CloseTls {
        /// The owner of the stream.
        owner: K,
        /// The relay.
        relay: RelayId,
    },
    /// The relay gives no answer by UDP, and is not reached by TLS either. It is tried again.
    TlsFailed {
        /// The relay.
        relay: RelayId,
        /// The reason.
        why: String,
    },
    /// Registrations, round trips or reflexive addresses are others now.
    Changed,
}

/// A relay that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayReached {
    /// The relay.
    pub relay: RelayId,
    /// Its round trip.
    pub round_trip: Duration,
    /// The end is registered there.
    pub is_registered: bool,
    /// It is reached by TLS only.
    pub by_tls: bool,
}
