//! Limits of the hub: the items that it keeps, and the times that it waits.

/// The time for a gateway to answer a grant, in milliseconds. It resolves DNS names in that time; a
/// resolver that needs longer makes the client's own attempt fail anyway.
pub const GRANT_ANSWER_MS: u64 = 3_000;

/// The time for clients to leave a gateway that is drained at once, in milliseconds. It covers one offer that is not
/// answered, and one more.
pub const DRAIN_NOW_MS: u64 = 2 * GRANT_ANSWER_MS;

/// The time for a gateway that holds grants to come back after a restart of the portal, in milliseconds.
/// It is twice the longest wait between two attempts to connect.
pub const GATEWAY_RETURN_MS: u64 = 60_000;

/// The time for a gateway to come back after its connection broke, as through a proxy that allows no longer one, in
/// milliseconds. Its first attempt comes within 2 s, and connecting takes less than 1 s. Clients of a gateway that was killed
/// wait as long, within the 5 s after which they have another one (docs/client.md).
pub const GATEWAY_RECONNECT_MS: u64 = 3_000;

/// Machines that are told to come back within the same second when a portal stops: as many as another one lets in.
pub const COME_BACK_PER_S: u64 = 100;

/// The time for which requests wait for a gateway that is expected back, in milliseconds. A gateway's first attempt comes
/// within 2 s, its second within 3 s after that. The client gives a request 10 s.
pub const REQUEST_WAIT_MS: u64 = 5_000;

/// Resources that a client may be asking for at one time: what a browser opens at once, some times
/// over.
pub const MAX_ASKS_PER_CLIENT: usize = 64;

/// Requests of one client that wait for an answer: each name that is looked up may be one.
pub const MAX_WAITING_PER_CLIENT: usize = 256;

/// Gateways that a request may ask to avoid: a site has a handful.
pub const MAX_AVOIDED: usize = 16;

/// Grants of one client, leftovers included: a quarter of what a gateway keeps for one.
pub const MAX_GRANTS_PER_CLIENT: usize = 1_024;

/// Grants through one gateway: five for each of 10,000 clients, and almost a third as many for renewals, leftovers and
/// clients that use more. Each takes the hub some 700 bytes, 46 MB in all. A gateway hears their ids in four pages.
pub const MAX_GRANTS_PER_GATEWAY: usize = 65_536;

const _: () = assert!(MAX_GRANTS_PER_GATEWAY * 10 >= 10_000 * 5 * 13);

/// Grants that a gateway has not answered yet. A gateway checks a signature for each, some 0.2 ms; as many take it a
/// fifth of a second.
pub const MAX_OFFERS_AT_ONCE: usize = 1_024;

/// The same for a gateway of which nothing is known: one that answers only 100 a second answers them within
/// [`GRANT_ANSWER_MS`].
pub(crate) const FIRST_OFFERS_AT_ONCE: usize = 256;

/// The same for a gateway that answers slowly, or not at all; also the step by which it gets more.
pub(crate) const MIN_OFFERS_AT_ONCE: usize = 16;

/// A gateway that needs longer for its answer has too many offers at once, in milliseconds: a third of what it may need.
pub(crate) const OFFER_DELAY_MS: u64 = GRANT_ANSWER_MS / 3;

/// The time for which a client's request waits for its turn at a gateway, in milliseconds. The client gives a request
/// 10 s, and the offer may take [`GRANT_ANSWER_MS`].
pub const OFFER_TURN_MS: u64 = 7_000;

/// The same for a grant that is only to end earlier. It waits no longer than the policies allow it.
pub(crate) const SHORTEN_TURN_MS: u64 = 60_000;

/// Standing grants of one plain WireGuard device: as many as a client may ask for at one time. The networks of more do not
/// fit a QR code.
pub const MAX_STANDING_GRANTS: usize = MAX_ASKS_PER_CLIENT;

/// The time after which a plain device's standing grants are looked at again, in milliseconds: a time window that opens is
/// noticed a minute late at most.
pub const STANDING_REVIEW_MS: u64 = 60_000;

/// The time after which a standing grant that no gateway took is offered again, in milliseconds: some offers that time out
/// ([`GRANT_ANSWER_MS`]) fit in between.
pub const STANDING_RETRY_MS: u64 = 10_000;

/// The time after its last handshake for which a plain device counts as being where its gateway heard it, in milliseconds.
/// WireGuard's keys end then (`REJECT_AFTER_TIME`): nothing of the device passes before another handshake.
pub const ENDPOINT_FRESH_MS: u64 = 180_000;

/// The time after which it is recorded anew that a plain device is where it was, in milliseconds: as for machines with a
/// session.
pub const DEVICE_SEEN_EVERY_MS: u64 = 60_000;

/// Questions of gateways for names of plain devices at other sites that wait for an answer. That is 20,000 a
/// second if gateways answer within 50 ms.
pub const MAX_NAME_ASKS: usize = 1_024;

/// The time for a gateway to resolve a name for a device at another site, in milliseconds: as for the names of a grant. The
/// device's query waits a second longer.
pub const NAME_ANSWER_MS: u64 = GRANT_ANSWER_MS;

/// Addresses of a gateway that are passed on: the client sends to all of them at once.
pub const MAX_CANDIDATES: usize = 32;

/// Messages that wait for a gateway: every grant of it revoked at once, and as much again as for any session. At 120
/// bytes each, 10 MB.
pub const MAX_QUEUED_TO_GATEWAY: usize = MAX_GRANTS_PER_GATEWAY + MAX_QUEUED_MESSAGES;

/// Messages that wait for one session: every resource of a client set anew at once
/// ([`MAX_RESOURCES_PER_CLIENT`]), and as much again for everything else. At 300 bytes each, 5 MB.
pub const MAX_QUEUED_MESSAGES: usize = 16_384;

/// Resources that a client is told of. At 100 bytes each they take a client 1 MB, and a route or a
/// name each.
pub const MAX_RESOURCES_PER_CLIENT: usize = 10_000;

/// Bytes of resources in a client's `welcome`; the rest follows as `resource_set`. Half of the longest message: the ids of
/// grants take 34 kB.
pub const MAX_WELCOME_RESOURCES_LEN: usize = culvert_wire::MAX_MESSAGE_LEN / 2;

/// Requests that a client may make at once after a while of silence: after a new start it asks for
/// everything in use.
pub const REQUEST_BURST: u32 = 256;

/// Requests per second that a client may make for long: DNS queries of a busy machine, of which
/// only those for new names come here.
pub const REQUESTS_PER_S: u32 = 32;

/// The time for which a repeated denial is not logged again, in milliseconds.
pub const DENIAL_REST_MS: u64 = 60_000;

/// Denials of one client that are remembered for [`DENIAL_REST_MS`].
pub const MAX_DENIALS_REMEMBERED: usize = 64;

/// Records in one batch for the store.
pub const MAX_BATCH: usize = culvert_store::MAX_BATCH;

/// The lifetime of a token for a relay, in milliseconds. Another one is made at half of it.
pub const RELAY_TOKEN_MS: u64 = 60 * 60 * 1_000;

/// The clock of the portal that led before may have been ahead by this, in milliseconds. A withdrawal concerns what that
/// portal issued, too. A portal whose clock is further off is warned of. That one's own margin is made up for by the time
/// that it led; if a portal leads for less than the clocks differ by, a token that is withdrawn may count until it ends.
pub(crate) const RELAY_CLOCK_MARGIN_MS: u64 = 5_000;

/// Bytes per second that an end may send through a relay: 10 Gbit/s, so that no end takes a larger relay for itself. The
/// relay has a limit of its own for all ends.
pub const RELAY_RATE_BYTES_PER_S: u64 = 1_250_000_000;

/// Gateway ports of a relay that are used.
pub const MAX_RELAY_PORTS: u16 = 1_024;

/// The time for which ends keep a relay whose session is over, in milliseconds. The relay itself may be well. It is twice
/// the longest wait between two attempts to connect.
pub const RELAY_RETURN_MS: u64 = 60_000;

/// Clients that get new tokens in one step. At two tokens of some 20 µs each, a step takes 10 ms.
pub const RELAY_STEP_CLIENTS: usize = 256;

/// The time between two such steps, in milliseconds: [`MAX_GRANTS_PER_GATEWAY`] clients have theirs within 26 s.
pub const RELAY_STEP_MS: u64 = 100;

/// Withdrawals that are kept for relays that are away: they take 200 kB.
pub const MAX_WITHDRAWALS: usize = 4_096;

/// Clients whose addresses a gateway is told when it joins: 10,000, and a fifth of its message queue.
pub const MAX_CANDIDATES_AT_JOIN: usize = MAX_QUEUED_TO_GATEWAY / 5;

/// Clients of a gateway whose round trips count for the choice of its relays: enough for a mean.
pub(crate) const RELAY_COST_CLIENTS: usize = 256;

/// The round trip to a relay that nobody has measured, in microseconds: one across a continent.
pub(crate) const UNKNOWN_ROUND_TRIP_US: u64 = 100_000;

/// A gateway changes its relay for one that is closer by this, in microseconds. Less is noise.
pub(crate) const RELAY_SWITCH_GAIN_US: u64 = 20_000;

/// A grant counts as older than a change of its resource or client, unless it was signed more than this
/// after the change, in milliseconds. The clock may have been set back in between. A gateway that comes
/// back is then told the resource's filters again, and a grant of the portal's last run is signed anew.
pub(crate) const CLOCK_RECHECK_MS: u64 = 60_000;
