//! A request for access to one resource.

use culvert_base::BootTime;
use culvert_dns::Addresses;
use culvert_policy::DomainName;
use culvert_wire::messages::WantedName;
use std::collections::BTreeMap;

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) state: AskState,
    /// The time at which it was sent, or put into the queue.
    pub(super) since: BootTime,
    /// The names in it.
    pub(super) names: BTreeMap<DomainName, Addresses>,
    /// The time from which nobody waits for the answer any more.
    pub(super) until: BootTime,
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskState {
    /// It waits to be sent.
    Queued,
    /// It is on its way to the portal.
    Sent { number: u64, expedite: Expedite },
}

/// The haste of a request: names that came after it was sent wait for its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Expedite {
    /// There are none.
    #[default]
    Never,
    /// It is then.
    At(BootTime),
    /// The portal has been told.
    Sent,
}

impl Ask {
    /// Its number, once it is sent.
    pub(super) const fn number(&self) -> Option<u64> {
        match self.state {
            AskState::Queued => None,
            AskState::Sent { number, .. } => Some(number),
        }
    }

    /// The next time at which something is done about it.
    pub(super) fn due(&self) -> BootTime {
        match self.state {
            AskState::Sent {
                expedite: Expedite::At(at),
                ..
            } => self.until.min(at),
            AskState::Queued | AskState::Sent { .. } => self.until,
        }
    }
}

/// Names as a request says them.
pub(super) fn wanted_names(names: &BTreeMap<DomainName, Addresses>) -> Vec<WantedName> {
    let wanted = names.iter().map(|(name, addresses)| WantedName {
        name: name.as_str().to_owned(),
        ipv4: addresses.v4,
        ipv6: addresses.v6,
    });
    wanted.collect()
}
