//! Resources on the gateway's own machine. Without `--host-access` nobody is served there, so such a grant is refused with
//! the reason instead of leading to packets that are dropped.

use super::Gateway;
use super::grants::Pending;
use super::log::tidy;
use super::names::Lead;
use super::verify::GrantFault;
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use culvert_policy::{DomainName, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// Resources that are remembered: more than anybody puts on one machine before looking at its status.
const MAX_REMEMBERED: usize = 32;

/// The time for which a refusal is a problem of the gateway: a client that wants access asks again within
/// this time.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The last refusal of each resource on this machine.
#[derive(Debug, Default)]
pub(super) struct RefusedAtHost(BTreeMap<ResourceId, Refused>);

#[derive(Debug)]
struct Refused {
    label: Option<String>,
    address: IpAddr,
    at: BootTime,
}

impl RefusedAtHost {
    fn note(&mut self, resource: ResourceId, label: Option<&str>, address: IpAddr, at: BootTime) {
        let label = label.map(tidy);
        let refused = Refused { label, address, at };
        self.0.insert(resource, refused);
        if self.0.len() > MAX_REMEMBERED {
            let oldest = self.0.iter().min_by_key(|(_, refused)| refused.at);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                self.0.remove(&oldest);
            }
        }
    }
}

impl Gateway {
    /// The addresses of this machine where no client is served; none where clients may reach it.
    pub fn handle_host_addresses(&mut self, addresses: BTreeSet<IpAddr>, now: BootTime) {
        if self.table.host_addresses() != &addresses {
            self.table.set_host_addresses(addresses);
            self.is_table_new = true;
            self.finish(now);
        }
    }

    /// The problem line about resources on this machine.
    #[must_use]
    pub fn host_problems(&self, now: BootTime) -> Vec<String> {
        let is_recent = |refused: &&Refused| !now.has_passed(refused.at, REMEMBERED);
        let recent = self.refused_at_host.0.iter();
        let recent = recent.filter(|(_, refused)| is_recent(refused));
        let problems = recent.map(|(id, refused)| {
            let name = refused.label.clone().unwrap_or_else(|| id.to_string());
            let address = refused.address;
            format!(
                "resource {name:?} is on this machine ({address}), and access to it is refused: start the gateway with \
                 `--host-access` to serve it"
            )
        });
        problems.collect()
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
        let Some(address) = address.filter(|address| self.table.is_host_address(*address)) else {
            return Ok(());
        };
        let label = pending.labels.resource.as_deref();
        let resource = verified.claims.resource;
        self.refused_at_host.note(resource, label, address, now);
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
        let (v4, v6) = self.names.leads(name, within);
        let leads = [led_to(v4), led_to(v6)];
        let mut leads = leads.into_iter().flatten().peekable();
        let first = *leads.peek()?;
        leads
            .all(|address| self.table.is_host_address(address))
            .then_some(first)
    }
}

fn led_to<A: Into<IpAddr>>(lead: Lead<A>) -> Option<IpAddr> {
    match lead {
        Lead::To(address) => Some(address.into()),
        Lead::Nowhere | Lead::Lost | Lead::Outside(_) => None,
    }
}
