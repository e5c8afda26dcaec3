use super::{Caller, Service, dns_rules, names, ranges, show};
use culvert_portal_base::Fault;
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
        let change = |row: &mut store::Account| {
            if let Some(name) = &patch.name {
                row.name = names::name_after(Some(&row.name), "name", name)?;
            }
            if let Some(lifetime_s) = patch.grant_lifetime_s {
                row.settings.grant_lifetime_s = lifetime_s;
            }
            if let Some(text) = &patch.range4 {
                ranges::set_ipv4(&mut row.settings.ranges, text)?;
            }
            if let Some(text) = &patch.range6 {
                ranges::set_ipv6(&mut row.settings.ranges, text)?;
            }
            if let Some(applications) = &patch.applications {
                row.settings.applications = names::applications("", applications)?;
            }
            if let Some(dns) = &patch.dns {
                row.settings.dns = dns_rules::checked("dns.", dns)?;
            }
            if let Some(rule) = patch.second_factor {
                row.settings.second_factor = show::second_factor_rule(rule);
            }
            if let Some(require) = patch.require_verified_gateways {
                row.settings.require_verified_gateways = require;
            }
            if patch.dns.is_some() || patch.range4.is_some() || patch.range6.is_some() {
                dns_rules::outside_of_the_tunnel("dns.", &row.settings)?;
            }
            Ok(())
        };
        let row = self
            .change(caller, caller.account(), expected, change)
            .await;
        row.map(show::account)
    }
}
