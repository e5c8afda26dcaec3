//! Bounds and times, each with where it comes from.

use std::time::Duration;

/// The TTL of answers to applications. The address stays with its name, so the TTL only decides how
/// soon a change is noticed: a family that came or went, or a resource that was removed. Public
/// load balancers use the same TTL.
pub const TTL: Duration = Duration::from_secs(30);

/// The lifetime of a negative answer, here and (RFC 2308) at the asker. An administrator who has
/// just granted access sees it work within seconds. A program that asks in a loop costs the portal
/// 12 requests a minute.
pub const NEGATIVE_TTL: Duration = Duration::from_secs(5);

/// The lifetime of the result that nobody could decide, or that no gateway was there. After a restart
/// of the portal the gateways come back within two seconds, and nobody should wait for longer. The
/// client itself limits how often the portal is asked.
pub const UNREACHABLE_TTL: Duration = Duration::from_secs(1);

/// The time that a query waits for access. The resolvers of glibc and systemd-resolved try again
/// after 5 s. A second before that, they get an answer instead.
pub const ACCESS_WAIT: Duration = Duration::from_secs(4);

/// The time that a name waits until its site is suspected of silence. Access takes two round trips to the portal and
/// one to the site's DNS, 300 ms across a continent.
pub const SUSPECT_AFTER: Duration = Duration::from_millis(300);

/// The time that a suspected site has for a name that leads elsewhere without its search domain. A program asks two such
/// names at most one after the other before the one that is meant, in 200 ms.
pub const SUSPECT_WAIT: Duration = Duration::from_millis(80);

/// The time that a dead site has for a name. The resolver of glibc asks twice.
pub const DEAD_WAIT: Duration = Duration::from_millis(50);

/// The lifetime of an upstream's answer about a name without its search domain.
pub(crate) const PLAIN_TTL: Duration = TTL;

/// The time after which access that was asked for without an answer is asked for again, by the next
/// query. By then, the queries that waited for it are answered.
pub const ASK_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// The time after which the families of a name in use are asked for again, while queries get the known answer. A name
/// that has lost its addresses is noticed within twice [`TTL`]. A request asks for the other names of its resource as
/// well, so a resource in use makes one request a minute.
pub const REFRESH_AFTER: Duration = Duration::from_secs(60);

/// The time that a name keeps its address after the last answer's [`TTL`] or the last packet. TCP
/// connections may be silent for 2 h 4 min (RFC 5382, REQ-5); an hour of margin.
pub const LEASE_IDLE: Duration = Duration::from_secs(3 * 3600);

/// The most names with addresses. A name takes about 500 bytes, 800 if it is as long as a name can
/// be: 50 MB at the very most, for more names than a machine uses in [`LEASE_IDLE`].
pub const NAMES_MAX: usize = 1 << 16;

/// The shortest time that a name keeps its addresses after they were last told, while other names need
/// room. It is ten times [`TTL`], and longer than a query waits for access. A name in use is told again
/// within `TTL`. A program that uses an address for longer without asking again loses its connection,
/// but does not reach another name's host: in ranges of the usual size, 2 million other addresses are
/// given out first.
pub const TOLD_MIN: Duration = Duration::from_secs(300);

/// New names of one resource in a row: a browser that opens dozens of pages, each of dozens of names.
pub(crate) const NEW_NAMES_BURST: u64 = 1024;

/// New names of one resource a second after that, more than one person at work needs. A page that asks for
/// label after label of a wildcard gets no more: within [`TOLD_MIN`] it takes less than a third of
/// [`NAMES_MAX`].
pub(crate) const NEW_NAMES_PER_S: u64 = 64;

/// The most queries that wait for access: every name of a browser start (some hundreds), twice (A
/// and AAAA). Each takes under 1 KB.
pub const WAITING_MAX: usize = 1024;

/// The most queries that wait for one name: some programs at once, both families, over both
/// transports. One name cannot take all of [`WAITING_MAX`].
pub const WAITING_PER_NAME_MAX: usize = 64;

/// The most queries that wait for an upstream, as many as programs have open at once on a busy
/// desktop, five times over. With [`QUERY_LEN_MAX`] at most 2 MB of queries.
pub const FORWARDS_MAX: usize = 512;

/// The longest query that is read: a name (255), EDNS options and padding to the next multiple of
/// 128 (RFC 8467) stay far below.
pub const QUERY_LEN_MAX: usize = 4096;

/// The time for which a site is not asked for records after its DNS did not answer. Browsers ask for such records beside
/// each address, and wait for both. Addresses are found by another way.
pub const SITE_SILENCE: Duration = Duration::from_secs(10);

/// The most upstreams: resolv.conf has 3, some networks announce as many for each family.
pub const UPSTREAMS_MAX: usize = 8;

/// The number of times that a forwarded query is sent in all, each time to the next upstream.
pub const UPSTREAM_TRIES: usize = 3;

/// The time that an upstream has for its answer. All tries end (3 × 1.5 s) before the asker tries
/// again, after 5 s.
pub const UPSTREAM_WAIT: Duration = Duration::from_millis(1500);

/// The time for which an upstream is remembered not to keep the case of letters. A forged answer with the
/// right id and port can cause this entry. After an hour the upstream is tried again, at the cost of a
/// second question.
pub const CASE_RULE_LIFETIME: Duration = Duration::from_secs(3600);

/// Upstreams of which that is remembered: those of eight zones. Others are asked twice each time.
pub(crate) const CASE_RULES_MAX: usize = 8 * UPSTREAMS_MAX;

/// The most outputs that may wait to be polled when a query or an answer comes in; whoever polls as
/// [`Stub`](crate::Stub) says never sees it. All that one call adds are answers to
/// [`WAITING_MAX`] queries.
pub const OUTPUTS_MAX: usize = 4096;

/// The most bytes of a reason in an answer, so that it fits 512 bytes beside the longest question:
/// 512 − 12 (header) − 259 (question) − 11 (OPT) − 6 (option's header) = 224.
pub const REASON_LEN_MAX: usize = 160;

/// The UDP payload size that this resolver announces, and the most that it sends: the size that
/// avoids fragments on any path (1280 − 48).
pub const UDP_PAYLOAD: u16 = 1232;

/// The UDP payload size of a resolver that does not announce one (RFC 1035, §4.2.1).
pub(crate) const PLAIN_UDP_PAYLOAD: u16 = 512;
