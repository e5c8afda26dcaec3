//! The rules about applications, between the resources that have them and the host that sees to them.

use super::access::Access;
use super::client::Client;
use super::guard::{ApplicationRule, GuardRules};
use super::output::Output;
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use culvert_policy::{ApplicationName, Applications};
use std::collections::BTreeSet;

impl<P> Client<P> {
    /// The answer of the host to the last [`Output::Guard`], or about rules in force since: `rules` are in
    /// force, or nobody can be sure of any, for this reason.
    pub fn handle_guard(&mut self, rules: GuardRules, result: Result<(), String>, now: BootTime) {
        if self.guard.handle_host(rules, result) {
            for id in self.accesses.ids() {
                self.forget_denial(id, now);
            }
        }
        self.routes.set_stale();
        self.finish(now);
    }

    /// Every application that a rule of the portal names.
    #[must_use]
    pub fn applications(&self) -> BTreeSet<ApplicationName> {
        let rules = self.directory.iter().map(|found| &found.applications);
        rules.flat_map(Applications::names).cloned().collect()
    }

    /// The reason for which no rule about applications is in force although there are some.
    #[must_use]
    pub fn guard_fault(&self) -> Option<&str> {
        self.guard.fault()
    }

    /// Asks the host for the rules that the resources and the names in use call for.
    pub(super) fn update_guard(&mut self) {
        if let Some(rules) = self.guard.update(&self.directory, &self.accesses) {
            self.outbox.push(Output::Guard(rules));
        }
    }

    /// The standing of the resource with all names of it that are in use or asked for.
    pub(super) fn application_rule(&self, id: ResourceId) -> ApplicationRule {
        let access = self.accesses.get(id).into_iter();
        let names = access.flat_map(Access::addresses);
        self.guard.application_rule(&self.directory, id, names)
    }
}
