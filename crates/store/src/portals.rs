//! The portals that share a database, and which of them leads.
//!
//! One portal at a time leads: it has the hub, and the others bring their sessions to it. It leads by a lease, which it
//! renews with each [`Portals::report`]. All times of leases are those of the database's clock. A portal that was not
//! able to renew its lease for [`LEASE_MS`] does nothing as a leader until it has, and another may lead meanwhile. Each
//! change of the leader has a higher epoch, and a grant of an earlier epoch is refused ([`StoreError::NotLeading`]).

use crate::StoreError;
use async_trait::async_trait;
use culvert_ids::PortalId;
use culvert_wire::Timestamp;
use culvert_wire::token::{CertificatePin, SecretDigest};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The interval at which portals report to the database.
pub const REPORT_EVERY_MS: u64 = 400;

/// The time for which a portal leads after a report. Three reports may be late or lost. A portal that was killed is
/// followed within this time and two intervals: 2.8 s, so that a new session finds a leader within 5 s.
pub const LEASE_MS: u64 = 2_000;

/// The time after its last report for which a portal counts as running.
pub const PORTAL_SILENCE_MS: u64 = 5_000;

/// The time after which a portal that no longer reports is forgotten: an administrator still sees what was lost today.
pub const PORTAL_KEPT_MS: u64 = 24 * 60 * 60 * 1_000;

/// Portals that a database knows at once, those that ended within the last day included: the oldest of these give way. Each
/// that runs has 9 connections, so a server takes a dozen.
pub const MAX_PORTALS: u64 = 100;

/// The report of a portal about itself, for the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortalReport {
    /// The portal.
    pub id: PortalId,
    /// The address at which other portals reach it.
    pub address: SocketAddr,
    /// SHA-256 of its certificate.
    pub pin: CertificatePin,
    /// The digest of its [`PortalKey`](culvert_wire::PortalKey).
    pub key: SecretDigest,
    /// The version of its program.
    pub version: String,
    /// Its clock.
    pub now: Timestamp,
}

/// The leader, as the database knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The number of changes of the leader up to it.
    pub epoch: u64,
    /// The portal.
    pub portal: PortalId,
    /// The address at which other portals reach it.
    pub address: SocketAddr,
    /// SHA-256 of its certificate.
    pub pin: CertificatePin,
}

/// The claim of a portal that reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It leads on if it led last, even if its lease has ended, unless another one leads by now.
    Renew,
    /// It leads from now on where no lease holds.
    Take,
    /// It does not lead, and ends its lease.
    Leave,
}

/// The answer to a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leading {
    /// The portal leads, for [`LEASE_MS`] from the beginning of the report on.
    This {
        /// The number of changes of the leader up to it.
        epoch: u64,
    },
    /// Another one leads.
    Other(Leader),
    /// The lease of the last leader is over, or there was never one.
    Nobody,
}

/// A portal of the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortalRow {
    /// The portal.
    pub id: PortalId,
    /// The address at which other portals reach it.
    pub address: SocketAddr,
    /// The version of its program.
    pub version: String,
    /// The time of its start, by the database's clock.
    pub started: Timestamp,
    /// The time of its last report, by the database's clock.
    pub seen: Timestamp,
    /// True if it reported within [`PORTAL_SILENCE_MS`].
    pub runs: bool,
    /// True if its lease holds.
    pub leads: bool,
    /// The time by which its clock was ahead of the database's, in milliseconds.
    pub clock_ahead_ms: i64,
}

/// Facts about a database, by its own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseFacts {
    /// The program behind it, such as `PostgreSQL`.
    pub program: &'static str,
    /// The version of that program.
    pub version: String,
    /// Its name at a server; none of a file.
    pub name: Option<String>,
    /// The space that it takes.
    pub size_bytes: u64,
}

/// The portals that share a database.
///
/// # Errors
/// As those of [`crate::Store`].
#[async_trait]
pub trait Portals: std::fmt::Debug + Send + Sync + 'static {
    /// True if other portals may have the database at the same time. Otherwise the process that has opened it leads for
    /// as long as it runs, and reports nothing.
    fn is_shared(&self) -> bool;

    /// Reports that the portal runs, and claims the lead.
    async fn report(&self, report: &PortalReport, claim: Claim) -> Result<Leading, StoreError>;

    /// The portal stops: it is forgotten, and its lease ends.
    async fn retire(&self, portal: PortalId) -> Result<(), StoreError>;

    /// The digest of a portal's key; none if there is no such portal that runs.
    async fn portal_key(&self, portal: PortalId) -> Result<Option<SecretDigest>, StoreError>;

    /// The program behind the database, and the space that it takes.
    async fn database(&self) -> Result<DatabaseFacts, StoreError>;

    /// The portals of the last day, those that run first.
    async fn portals(&self) -> Result<Vec<PortalRow>, StoreError>;
}
