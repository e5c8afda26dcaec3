//! The limits of each thing, with their reasons.

/// Rows on a page of a list: what a screen or a script takes at a time; at some kilobytes a row a
/// page stays below a megabyte.
pub const MAX_PAGE: u16 = 200;

/// Changes that one read of the feed returns: whoever lags further reads again. At 2 KiB each,
/// 2 MiB.
pub const MAX_CHANGES_READ: u32 = 1_000;

/// Mutations in one write: `access.toml` with 10,000 resources, each with a policy, and as many
/// actors and memberships.
pub const MAX_MUTATIONS: usize = 40_000;

/// Changes that one write may make, cascades included. At 2 KiB each they take 128 MiB while the
/// transaction lasts.
pub const MAX_CHANGES_PER_WRITE: usize = 65_536;

/// Rows of one kind in an account. The portal holds them all in memory: at 500 bytes a row, nine
/// kinds take 1.2 GB at worst; 10,000 actors in 20 groups each are within it.
pub const MAX_ROWS_PER_KIND: u32 = 262_144;

/// Records in one batch of what comes at a high rate: it holds the writer for some milliseconds.
pub const MAX_BATCH: usize = 1_000;

/// Rows that one call prunes, so that it holds the writer for some milliseconds.
pub const MAX_PRUNE_ROWS: u32 = 10_000;

/// Characters of a name: what fits a column on a screen.
pub const MAX_NAME_CHARS: usize = 100;

/// Bytes of the text by which a machine is known: a UUID or a host name (253), not a document.
pub const MAX_MACHINE_LEN: usize = 256;

/// Relays that a site may name: as many as a client is told of in all.
pub const MAX_SITE_RELAYS: usize = culvert_wire::messages::MAX_RELAY_PLACES;

/// Bytes of a machine's software version.
pub const MAX_SOFTWARE_LEN: usize = 100;

/// Plain WireGuard devices of one actor: phones, tablets and routers of a person, or the routers of a service account. With
/// 64 standing grants each, whatever their gateways, one actor's devices take an eighth of the 16,384 grants of a gateway.
pub const MAX_PLAIN_CLIENTS_PER_ACTOR: u64 = 32;

/// Gateways of one plain WireGuard device, each of another site. A file with 8 `[Peer]` sections of some 170 bytes, 64 IPv4
/// networks of some 20 bytes and an `[Interface]` of 170 bytes has 2,810 bytes: a QR code takes 2,953 (ISO/IEC 18004, version
/// 40-L).
pub const MAX_PLAIN_CLIENT_GATEWAYS: usize = 8;

/// Plain WireGuard devices of an account. The hub looks at the standing grants of each once a minute: 64 decisions of some
/// 2 µs each, in all 0.5 s of a minute.
pub const MAX_PLAIN_CLIENTS: u64 = 4_096;

/// Bytes of a reason in the access log: an explanation names a few policies and conditions.
pub const MAX_REASON_LEN: usize = 4_096;

/// Bytes of the name by which a provider knows somebody (OpenID Connect Core 1.0, section 2: 255 ASCII
/// characters).
pub const MAX_SUBJECT_LEN: usize = 255;

/// Bytes of a named secret: keys have 32 or 64.
pub const MAX_SECRET_LEN: usize = 1_024;

/// Bytes of a secret of the state directory: the portal's own certificate with its key has some 900, and at most 1,300
/// where its host has the longest name.
pub const MAX_STATE_SECRET_LEN: usize = 4_096;

/// Recovery codes of one person: a list that fits a purse, for a year or two of lost devices.
pub const MAX_RECOVERY_CODES: usize = 10;

/// Passkeys of one person: one for each machine and phone, and one in a drawer.
pub const MAX_PASSKEYS: usize = 10;

/// Bytes of what an authenticator calls a passkey (Web Authentication Level 3, section 4: at most 1,023).
pub const MAX_CREDENTIAL_LEN: usize = 1_023;

/// Bytes of a passkey's public key as CBOR: RSA keys of 4,096 bits have 512 of them.
pub const MAX_PUBLIC_KEY_LEN: usize = 1_024;

/// Rows of a list of [`crate::AccessTotals`]: what one sees at a glance.
pub const MAX_TOTALS: u16 = 10;

/// Rows of the list of policies in it: those of all resources in the picture of the network, eight of each of eight.
pub const MAX_POLICY_TOTALS: u16 = 64;

/// The number of named rows that stand in the way of a deletion: enough to see what they are.
pub const MAX_USERS_NAMED: usize = 10;

/// Entries of a log that [`crate::Logs::recent_use`] and [`crate::Logs::access_totals`] read. Those of both logs take
/// 15 ms of the 100 ms that a page may take.
pub const MAX_USE_ROWS: u32 = 2_500;

/// Causes of denials that [`crate::Logs::recent_use`] and [`crate::Logs::access_totals`] list: what one sees at a
/// glance.
pub const MAX_DENIAL_CAUSES: u16 = 10;

/// The time for which an address of a revoked or deleted machine stays unused, in milliseconds: 24
/// hours. That is the longest lifetime of a grant, so no grant in force names an address that
/// another machine has.
pub const ADDRESS_REST_MS: u64 = 24 * 60 * 60 * 1_000;

/// The idle time after which a browser's session ends, in milliseconds: a long meeting, and not a
/// night.
pub const SESSION_IDLE_MS: u64 = 2 * 60 * 60 * 1_000;

/// Shortest and longest lifetime of grants in seconds: below a minute clients would do nothing but
/// renew; above 24 hours a lost portal would freeze access for too long, and grants would outlast
/// [`ADDRESS_REST_MS`].
pub const GRANT_LIFETIME_S: std::ops::RangeInclusive<u32> = 60..=24 * 60 * 60;
