//! Resources as the hub holds them.

use culvert_policy::{Applications, Within};
use culvert_wire::model::ToldApplications;
use culvert_wire::{Timestamp, model};

/// A resource in both forms: the one that decides and the one that is passed on.
#[derive(Debug)]
pub(crate) struct ResourceRow {
    pub(crate) parsed: culvert_policy::Resource,
    pub(crate) shown: model::Resource,
    /// Bytes that it takes in a message.
    pub(crate) shown_len: usize,
    /// When it, or what holds for the whole account, was last changed.
    pub(crate) updated: Timestamp,
    /// Where its names may lead.
    pub(crate) within: Option<Within>,
    /// Its own rule about applications, without the account's.
    pub(super) own_applications: Applications,
}

impl ResourceRow {
    /// Has these programs reach it, and no others.
    pub(super) fn rule(&mut self, applications: Applications) {
        self.shown.applications = ToldApplications::Known((&applications).into());
        self.parsed.applications = applications;
        self.shown_len = serde_json::to_string(&self.shown).map_or(0, |text| text.len());
    }
}
