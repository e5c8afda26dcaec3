//! A resource as the directory holds it.

use culvert_policy::{Applications, Prefix, Within};
use culvert_wire::messages::{Ranges, WantedName};
use culvert_wire::model::ToldApplications;
use culvert_wire::{Timestamp, model};
use std::net::IpAddr;

/// A resource in both forms: the one that decides and the one that is passed on.
#[derive(Debug)]
pub(crate) struct ResourceRow {
    pub(crate) parsed: culvert_policy::Resource,
    pub(crate) shown: model::Resource,
    /// Bytes that it takes in a message.
    pub(crate) shown_len: usize,
    /// The time of the last change of it or of the account's settings that concern it.
    pub(crate) updated: Timestamp,
    /// The ranges into which its names may lead.
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

/// The ranges of the addresses of names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameRanges {
    ipv4: Prefix,
    ipv6: Prefix,
}

impl NameRanges {
    pub(super) fn new(ranges: &Ranges) -> Option<Self> {
        Some(Self {
            ipv4: ranges.names_ipv4.parse().ok()?,
            ipv6: ranges.names_ipv6.parse().ok()?,
        })
    }

    pub(crate) fn hold(&self, name: &WantedName) -> bool {
        self.ipv4.contains(IpAddr::V4(name.ipv4)) && self.ipv6.contains(IpAddr::V6(name.ipv6))
    }
}
