//! DNS messages on their way to the core, and the state of answering names on the tunnel's addresses.

use crate::shell::dns::{self, DnsEvent, DnsEvents};
use culvert_base::BootTime;
use culvert_host::RoutedDomains;
use culvert_policy::DomainName;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::mpsc;

/// The time after a failure at which the DNS sockets are opened again: a new IPv6 address is
/// tried for a duplicate for a second before it can be used.
const RETRY: Duration = Duration::from_millis(500);

/// The state of answering names.
pub(super) struct Answering {
    events: DnsEvents,
    pub(super) received: mpsc::Receiver<DnsEvent>,
    /// The names that the system is to ask here.
    pub(super) domains: RoutedDomains,
    /// The domains by which the system completes short names.
    pub(super) search: Vec<DomainName>,
    problem: Option<String>,
    /// The time at which the sockets are opened again.
    retry: Option<BootTime>,
}

impl Answering {
    pub(super) fn new() -> Self {
        let (events, received) = mpsc::channel(dns::MAX_WAITING_MESSAGES);
        Self {
            events,
            received,
            domains: RoutedDomains::Within(BTreeSet::new()),
            search: Vec::new(),
            problem: None,
            retry: None,
        }
    }

    /// The way of DNS messages to the core.
    pub(super) fn events(&self) -> DnsEvents {
        self.events.clone()
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    pub(super) const fn retry(&self) -> Option<BootTime> {
        self.retry
    }

    /// The sockets are about to be opened.
    pub(super) const fn begin_binding(&mut self) {
        self.retry = None;
    }

    /// The sockets are open, except for this problem.
    pub(super) fn end_binding(&mut self, problem: Option<String>, now: BootTime) {
        self.retry = problem.is_some().then(|| now.saturating_add(RETRY));
        self.problem = problem;
    }
}
