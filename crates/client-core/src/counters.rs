//! Counters of the client.

/// Counters since the start of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests sent to the portal.
    pub requests: u64,
    /// Grants received.
    pub granted: u64,
    /// Requests denied.
    pub denied: u64,
    /// Requests that nobody answered in time.
    pub unanswered: u64,
    /// Grants taken back.
    pub revoked: u64,
    /// Gateways lost, by the portal's word or by silence.
    pub gateways_lost: u64,
    /// Packets without a route that came in.
    pub packets: u64,
    /// Packets that went on once they had a route.
    pub packets_resumed: u64,
    /// Packets whose senders heard that they go nowhere.
    pub packets_refused: u64,
    /// Of those, packets to resources that the portal no longer shows.
    pub packets_of_ended_access: u64,
    /// Packets that a gateway did not let pass, and said so.
    pub packets_refused_by_gateway: u64,
    /// Packets that gave way to newer ones while they waited, or came before the rule about
    /// applications that holds for them.
    pub packets_displaced: u64,
    /// Messages of the portal that broke the protocol.
    pub protocol_errors: u64,
    /// DNS queries.
    pub dns_queries: u64,
    /// DNS queries and answers that were dropped.
    pub dns_dropped: u64,
}
