//! The DNS rules of an account.

use culvert_policy::{DnsRules, DnsServer};
use serde::{Deserialize, Serialize};

/// The DNS rules of clients for names that belong to no resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Dns {
    /// Domains that short names are completed with, in this order; at most 6.
    pub search: Vec<String>,
    /// Domains whose names are asked of servers of their own; at most 32.
    pub domains: Vec<DnsDomain>,
}

/// A domain whose names are asked of servers of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DnsDomain {
    /// It and all below it, as in `corp.example`; `.` is every name.
    pub name: String,
    /// The addresses of its servers, in the order in which they are asked; 1 to 3.
    pub servers: Vec<String>,
}

impl Dns {
    /// True if there are no rules.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.search.is_empty() && self.domains.is_empty()
    }

    /// The rules that this version understands, and the number of those that it does not understand.
    /// The portal may be of any version. No other server is asked for a name because of a rule that
    /// is not understood.
    #[must_use]
    pub fn understood(&self) -> (DnsRules, usize) {
        let mut others = 0;
        let mut known = |is_known: bool| others += usize::from(!is_known);
        let search: Vec<_> = self
            .search
            .iter()
            .map(|text| text.parse().ok())
            .inspect(|domain: &Option<_>| known(domain.is_some()))
            .flatten()
            .collect();
        let mut zones = Vec::new();
        for domain in &self.domains {
            let Ok(zone) = domain.name.parse() else {
                known(false);
                continue;
            };
            let servers = domain.servers.iter().map(|text| text.parse().ok());
            let servers = servers.inspect(|server: &Option<DnsServer>| known(server.is_some()));
            zones.push((zone, servers.flatten().collect()));
        }
        (
            DnsRules::told(search.into_iter(), zones.into_iter()),
            others,
        )
    }
}

impl From<&DnsRules> for Dns {
    /// The one form of the same rules: domains in order.
    fn from(rules: &DnsRules) -> Self {
        let domains = rules.zones().iter().map(|(zone, servers)| DnsDomain {
            name: zone.to_string(),
            servers: servers.iter().map(ToString::to_string).collect(),
        });
        Self {
            search: rules.search().iter().map(ToString::to_string).collect(),
            domains: domains.collect(),
        }
    }
}
