//! Counts of refused packets.

use culvert_policy::ApplicationName;
use std::collections::BTreeMap;

/// The number of refused packets, by the application of the program that sent them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Of applications that rules name.
    pub applications: BTreeMap<ApplicationName, u64>,
    /// Of all other programs, and of those that this host forwards for.
    pub others: u64,
}

impl Refused {
    /// Adds the packets refused since.
    pub fn add(&mut self, more: &Self) {
        self.others += more.others;
        for (application, count) in &more.applications {
            *self.applications.entry(application.clone()).or_default() += count;
        }
    }
}
