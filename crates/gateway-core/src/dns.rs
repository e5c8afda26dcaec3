//! The names of all clients, and the questions about them.

use super::names::Names;
use super::plain_dns::PlainDns;
use super::questions::{MAX_QUESTIONS, Questions};
use super::site_dns::SiteQuestions;
use super::site_names::SiteNames;
use culvert_base::BootTime;
use culvert_ids::ClientId;
use std::collections::BTreeSet;

/// Names, and the questions that the gateway asks or passes on.
pub(super) struct Dns {
    pub(super) names: Names,
    pub(super) questions: Questions,
    pub(super) site_questions: SiteQuestions,
    /// Those of plain WireGuard devices.
    pub(super) plain: PlainDns,
    /// Names of such devices between sites.
    pub(super) site_names: SiteNames,
    /// The time of the last search of the flows for names in use.
    pub(super) looked: Option<BootTime>,
    /// Clients that had almost as many names as they may since then.
    pub(super) crowded: BTreeSet<ClientId>,
    /// The flows are to be searched now.
    pub(super) wants_look: bool,
}

impl Dns {
    /// `seed` is random.
    pub(super) fn new(seed: [u8; 32]) -> Self {
        Self {
            names: Names::default(),
            questions: Questions::default(),
            site_questions: SiteQuestions::new(MAX_QUESTIONS),
            plain: PlainDns::new(seed),
            site_names: SiteNames::new(),
            looked: None,
            crowded: BTreeSet::new(),
            wants_look: false,
        }
    }
}
