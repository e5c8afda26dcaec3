//! Grants for resources on the gateway's own machine, which are refused.

use super::Gateway;
use crate::grants::Pending;
use crate::names::Lead;
use crate::verify::GrantFault;
use culvert_base::BootTime;
use culvert_policy::{DomainName, Target};
use std::collections::BTreeSet;
use std::net::IpAddr;

impl Gateway {
    /// The addresses of this machine where no client is served; none where clients may reach it.
    pub fn handle_host_addresses(&mut self, addresses: BTreeSet<IpAddr>, now: BootTime) {
        if self.data_plane.handle_host_addresses(addresses) {
            self.finish(now);
        }
    }

    /// The problem line about resources on this machine.
    #[must_use]
    pub fn host_problems(&self, now: BootTime) -> Vec<String> {
        self.grants.refused_at_host.problems(now)
    }

    /// Refuses a grant that leads to this machine alone.
    pub(super) fn check_host_addresses(
        &mut self,
        pending: &Pending,
        now: BootTime,
    ) -> Result<(), GrantFault> {
        let verified = &pending.verified;
        let address = match &verified.target {
            Target::Address(address) => Some(*address),
            Target::Network(range) => range.is_host().then(|| range.address()),
            Target::Name(_) => self.only_host_address(pending),
        };
        let Some(address) =
            address.filter(|address| self.data_plane.table().is_host_address(*address))
        else {
            return Ok(());
        };
        let label = pending.labels.resource.as_deref();
        let resource = verified.claims.resource;
        self.grants
            .refused_at_host
            .note(resource, label, address, now);
        Err(GrantFault::HostAddress(address))
    }

    /// An address of this machine, where all names of a grant lead to its addresses.
    fn only_host_address(&self, pending: &Pending) -> Option<IpAddr> {
        let mut found = None;
        for name in pending.names.keys() {
            found = Some(self.host_address_of(name, pending)?);
        }
        found
    }

    /// An address of this machine, where a name leads there and nowhere else.
    fn host_address_of(&self, name: &DomainName, pending: &Pending) -> Option<IpAddr> {
        let within = pending.verified.within.as_ref();
        let (v4, v6) = self.dns.names.leads(name, within);
        let leads = [led_to(v4), led_to(v6)];
        let mut leads = leads.into_iter().flatten().peekable();
        let first = *leads.peek()?;
        leads
            .all(|address| self.data_plane.table().is_host_address(address))
            .then_some(first)
    }
}

fn led_to<A: Into<IpAddr>>(lead: Lead<A>) -> Option<IpAddr> {
    match lead {
        Lead::To(address) => Some(address.into()),
        Lead::Nowhere | Lead::Lost | Lead::Outside(_) => None,
    }
}
