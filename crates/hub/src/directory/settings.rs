//! The account's settings, and the converted form of those that decide.

use super::resource_row::NameRanges;
use culvert_policy::Applications;
use culvert_store::AccountSettings;
use culvert_wire::Timestamp;
use std::collections::BTreeSet;

#[derive(Debug)]
pub(super) struct Settings {
    row: AccountSettings,
    updated: Timestamp,
    /// The programs that may use the tunnel at all.
    applications: Applications,
    names: Option<NameRanges>,
}

impl Settings {
    pub(super) fn new(updated: Timestamp) -> Self {
        Self {
            row: AccountSettings::default(),
            updated,
            applications: Applications::ANY,
            names: None,
        }
    }

    pub(super) const fn row(&self) -> &AccountSettings {
        &self.row
    }

    pub(super) const fn updated(&self) -> Timestamp {
        self.updated
    }

    pub(super) const fn applications(&self) -> &Applications {
        &self.applications
    }

    pub(super) const fn names(&self) -> Option<NameRanges> {
        self.names
    }

    /// Takes other settings over. Rules that can't be converted allow nothing; returns the reason.
    pub(super) fn set(&mut self, row: AccountSettings, updated: Timestamp) -> Option<String> {
        self.names = NameRanges::new(&row.ranges);
        let names_fault = self
            .names
            .is_none()
            .then(|| "the ranges for names are no networks: no access by name is given".to_owned());
        let applications = Applications::try_from(&row.applications);
        let applications_fault = applications.as_ref().err().map(ToString::to_string);
        self.applications = applications.unwrap_or_else(|_| Applications::Only(BTreeSet::new()));
        self.row = row;
        self.updated = updated;
        // The later one hides the earlier one.
        applications_fault.or(names_fault)
    }
}
