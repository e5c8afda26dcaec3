//! Requests of a [`Stub`](crate::Stub) to its owner.

use crate::{Addresses, Transport};
use culvert_ids::ResourceId;
use culvert_policy::DomainName;
use std::net::SocketAddr;

/// The id of a forwarded query, in its header. It is free again once the query was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForwardId(pub(crate) u16);

/// The way of a query: directly or through the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// As everything that this host sends.
    Network,
    /// Through the tunnel alone: a network must not learn of it, nor answer in the site's place.
    Tunnel,
}

/// An effect, to be carried out in the order in which
/// [`Stub::poll_output`](crate::Stub::poll_output) returns them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send an answer to who asked.
    Answer {
        /// The message.
        bytes: Vec<u8>,
        /// The source address of the query.
        to: SocketAddr,
        /// The transport of the query; over TCP, the answer goes on the same connection.
        transport: Transport,
    },
    /// Send a query to an upstream, over UDP from a port of its own. The answer goes to
    /// [`Stub::handle_upstream_answer`](crate::Stub::handle_upstream_answer), or
    /// [`Stub::handle_upstream_unreachable`](crate::Stub::handle_upstream_unreachable) is called.
    Forward {
        /// The query. The same one may go out again, to another upstream.
        id: ForwardId,
        /// The message.
        query: Vec<u8>,
        /// The destination.
        upstream: SocketAddr,
        /// The transport.
        transport: Transport,
        /// The way.
        via: Via,
    },
    /// Ask for access to a name, unless it is granted. The outcome goes to
    /// [`Stub::handle_resolved`](crate::Stub::handle_resolved); until then the queries wait.
    Wanted {
        /// The name.
        name: DomainName,
        /// The resource whose pattern it matches.
        resource: ResourceId,
        /// The addresses by which applications will know the name.
        addresses: Addresses,
    },
    /// An upstream answers in other letters than it is asked in, which weakens its answers against forgery. It
    /// is asked by TCP where it answers that; otherwise answers by UDP are believed in any letters. Told once
    /// in an hour of each.
    CaseNotPreserved {
        /// The upstream.
        upstream: SocketAddr,
        /// True if it answers by TCP.
        answers_tcp: bool,
    },
    /// A name lost its addresses, which another name gets in time.
    Released {
        /// The name.
        name: DomainName,
        /// Its former addresses.
        addresses: Addresses,
    },
}
