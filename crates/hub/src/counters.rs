//! Counters of the hub.

/// Counters of the hub since the portal's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Grants that a gateway accepted, renewals included.
    pub granted: u64,
    /// Answers that denied, each for all requests that waited for it.
    pub denied: u64,
    /// Grants that were taken back.
    pub revoked: u64,
    /// Grants that a gateway did not take.
    pub offers_refused: u64,
    /// Grants that a gateway did not answer in time.
    pub offers_timed_out: u64,
    /// Messages about grants that are not the sender's or do not exist, and repeated requests.
    pub ignored: u64,
    /// Sessions that were ended because too much waited for them.
    pub overflows: u64,
    /// Times that a client was not told of a resource since it knows as many as it may.
    pub untold_resources: u64,
}
