use super::{Caller, Service, dns_rules, names, ranges, show};
use culvert_portal_base::{Fault, Problems};
use culvert_store as store;
use culvert_wire::api::{Account, AccountPatch};

impl Service {
    /// The caller's account.
    pub async fn account(&self, caller: &Caller) -> Result<Account, Fault> {
        let row = self.read::<store::Account>(caller, caller.account()).await;
        row.map(show::account)
    }

    /// Changes the account; with `expected`, only that version of it.
    pub async fn change_account(
        &self,
        caller: &Caller,
        expected: Option<u64>,
        patch: AccountPatch,
    ) -> Result<Account, Fault> {
        let change = |row: &mut store::Account| fill_in(row, &patch);
        let row = self
            .change(caller, caller.account(), expected, change)
            .await;
        row.map(show::account)
    }

    /// Names the wrong fields of a patch that is not complete yet. Nothing is written.
    pub async fn check_account(&self, caller: &Caller, patch: &AccountPatch) -> Result<(), Fault> {
        caller.may_change()?;
        let mut row: store::Account = self.get(caller.account(), caller.account()).await?;
        fill_in(&mut row, patch)
    }
}

/// Does to the row what the patch says. All wrong fields are named at once.
fn fill_in(row: &mut store::Account, patch: &AccountPatch) -> Result<(), Fault> {
    let mut problems = Problems::default();
    if let Some(name) = &patch.name
        && let Some(name) = problems.take(names::name_after(Some(&row.name), "name", name))?
    {
        row.name = name;
    }
    let settings = &mut row.settings;
    if let Some(lifetime_s) = patch.grant_lifetime_s {
        settings.grant_lifetime_s = lifetime_s;
    }
    if let Some(text) = &patch.range4 {
        problems.take(ranges::set_ipv4(&mut settings.ranges, text))?;
    }
    if let Some(text) = &patch.range6 {
        problems.take(ranges::set_ipv6(&mut settings.ranges, text))?;
    }
    if let Some(applications) = &patch.applications
        && let Some(applications) = problems.take(names::applications("", applications))?
    {
        settings.applications = applications;
    }
    if let Some(dns) = &patch.dns
        && let Some(dns) = problems.take(dns_rules::checked("dns.", dns))?
    {
        settings.dns = dns;
    }
    if let Some(rule) = patch.second_factor {
        settings.second_factor = show::second_factor_rule(rule);
    }
    if let Some(require) = patch.require_verified_gateways {
        settings.require_verified_gateways = require;
    }
    if let Some(rule) = patch.paths {
        settings.paths = show::path_rule(rule);
    }
    if let Some(rule) = patch.ended_access {
        settings.ended_access = show::ended_access(rule);
    }
    if let Some(own_devices) = patch.own_devices {
        settings.own_devices = own_devices;
    }
    if patch.dns.is_some() || patch.range4.is_some() || patch.range6.is_some() {
        problems.take(dns_rules::outside_of_the_tunnel("dns.", settings))?;
    }
    problems.finish()
}
