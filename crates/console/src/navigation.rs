//! The pages that the frame of every page leads to.

use super::icons::Icon;
use super::link::Link;

/// A group of pages, under its heading; the pages of a user have none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) entries: &'static [Entry],
}

/// A page, or several that are tabs of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) path: &'static str,
    pub(crate) name: &'static str,
    pub(crate) icon: Icon,
}

impl Entry {
    const fn new(path: &'static str, name: &'static str, icon: Icon) -> Self {
        Self { path, name, icon }
    }

    /// True if the page at `at` belongs to this entry.
    pub(crate) fn leads_to(&self, at: &str) -> bool {
        self.path == at
            || at.starts_with("/settings/") && self.path == "/settings"
            || LOGS.iter().any(|log| log.path == at) && self.path == LOGS[0].path
    }
}

/// The pages of people who may read everything.
pub(crate) const ALL: &[Group] = &[
    Group {
        name: "Network",
        entries: &[
            Entry::new("/", "Overview", Icon::OVERVIEW),
            Entry::new("/sites", "Sites", Icon::SITES),
            Entry::new("/gateways", "Gateways", Icon::GATEWAYS),
            Entry::new("/relays", "Relays", Icon::RELAYS),
            Entry::new("/clients", "Clients", Icon::CLIENTS),
            Entry::new("/dns", "DNS", Icon::DNS),
        ],
    },
    Group {
        name: "Access",
        entries: &[
            Entry::new("/resources", "Resources", Icon::RESOURCES),
            Entry::new("/policies", "Policies", Icon::POLICIES),
            Entry::new("/people", "People", Icon::PEOPLE),
            Entry::new("/groups", "Groups", Icon::GROUPS),
            Entry::new(
                "/service-accounts",
                "Service accounts",
                Icon::SERVICE_ACCOUNTS,
            ),
            Entry::new("/explain", "Explain", Icon::EXPLAIN),
        ],
    },
    Group {
        name: "Activity",
        entries: &[Entry::new("/log/access", "Logs", Icon::ACTIVITY)],
    },
    Group {
        name: "Portal",
        entries: &[Entry::new("/settings", "Settings", Icon::SETTINGS)],
    },
];

/// The pages of people who see only their own clients.
pub(crate) const OWN: &[Group] = &[Group {
    name: "",
    entries: &[
        Entry::new("/me/access", "My access", Icon::RESOURCES),
        Entry::new("/clients", "My clients", Icon::CLIENTS),
    ],
}];

const fn tab(path: &'static str, name: &'static str) -> Link {
    Link { path, name }
}

/// The three logs, tabs of one page.
pub(crate) const LOGS: &[Link] = &[
    tab("/log/access", "Access"),
    tab("/log/flows", "Flows"),
    tab("/log/changes", "Changes"),
];

/// The tabs of the page at `at`.
pub(crate) fn tabs(at: &str) -> &'static [Link] {
    match LOGS.iter().any(|log| log.path == at) {
        true => LOGS,
        false => &[],
    }
}
