//! Resources on the gateway's own machine. Without `--host-access` nobody is served there, so such a grant is refused with
//! the reason instead of leading to packets that are dropped.

use super::log::tidy;
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use std::collections::BTreeMap;
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
    pub(super) fn note(
        &mut self,
        resource: ResourceId,
        label: Option<&str>,
        address: IpAddr,
        at: BootTime,
    ) {
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

    /// A line for each resource that was refused lately.
    pub(super) fn problems(&self, now: BootTime) -> Vec<String> {
        let is_recent = |refused: &&Refused| !now.has_passed(refused.at, REMEMBERED);
        let recent = self.0.iter();
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
}
