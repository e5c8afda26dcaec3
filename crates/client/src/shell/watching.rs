//! Telling watchers what has changed. Nothing is done while nobody watches.

use super::clock::Now;
use crate::status::{SCHEMA_VERSION, SignInStatus, Status};
use crate::watch::WatchMessage;
use culvert_base::{BootTime, Traffic};
use culvert_client_core::{ChangedResources, Found, Journal, Since};
use culvert_host::{MIN_INTERVAL_MS, Update, WatchRequest, Watchers};
use culvert_ids::ResourceId;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Sections that are told otherwise: resources and names one by one, and `applications`, whose counts are asked of the
/// kernel, with whole states alone.
const NOT_SECTIONS: [&str; 3] = ["applications", "names", "resources"];

/// The shortest time between two looks for changes, which is the shortest between two messages.
const LOOK_EVERY: Duration = Duration::from_millis(MIN_INTERVAL_MS);

/// The changes that watchers are told.
pub(super) struct Watching {
    journal: Journal,
    /// The time of the last look.
    looked: Option<BootTime>,
    /// The time of the next look; none until something happens.
    due: Option<BootTime>,
}

/// The state, as it is compared.
pub(super) struct Compared {
    pub(super) resources: ChangedResources,
    pub(super) accesses: BTreeMap<ResourceId, u64>,
    pub(super) traffic: BTreeMap<ResourceId, Traffic>,
    pub(super) sections: Map<String, Value>,
}

impl Compared {
    /// The state of a client without a session: it has no resources that change one by one.
    pub(super) fn at_rest(status: &Status, resources: ChangedResources) -> Self {
        Self {
            resources,
            accesses: BTreeMap::new(),
            traffic: BTreeMap::new(),
            sections: sections(status),
        }
    }
}

/// Everything but resources and names, by section.
pub(super) fn sections(status: &Status) -> Map<String, Value> {
    let mut sections = match serde_json::to_value(status) {
        Ok(Value::Object(sections)) => sections,
        // A state is an object, and can be written.
        Ok(_) | Err(_) => Map::new(),
    };
    sections.retain(|name, _| !NOT_SECTIONS.contains(&name.as_str()));
    sections
}

impl Watching {
    /// Numbers begin with the time in microseconds, so that they are above all numbers of earlier runs: a watcher that
    /// names one of those gets the whole state.
    pub(super) fn new(now: Now) -> Self {
        let micros = now.unix.saturating_since(culvert_base::UnixTime::default());
        let before = u64::try_from(micros.as_micros()).unwrap_or_default();
        Self {
            journal: Journal::new(before),
            looked: None,
            due: None,
        }
    }

    /// The time of the next look, if one is due.
    pub(super) const fn due(&self) -> Option<BootTime> {
        self.due
    }

    /// Something may have changed. True if it is time to look; otherwise that time comes.
    pub(super) fn begin_look(&mut self, watchers: &Watchers, now: BootTime) -> bool {
        self.due = None;
        if !watchers.is_watched() {
            return false;
        }
        let next = self.looked.map(|at| at.saturating_add(LOOK_EVERY));
        match next.filter(|next| now < *next) {
            Some(next) => {
                self.due = Some(next);
                false
            }
            None => true,
        }
    }

    /// Compares the state with the last look, and wakes the watchers if it is another.
    pub(super) fn look(&mut self, watchers: &Watchers, compared: Compared, now: BootTime) {
        self.looked = Some(now);
        self.due = None;
        let found = Found {
            resources: compared.resources,
            accesses: compared.accesses,
            traffic: compared.traffic,
            sections: &compared.sections,
        };
        self.journal.note(found, now);
        watchers.publish(self.journal.sequence());
    }

    /// The parts that a watcher is to be told.
    pub(super) fn since(&self, request: &WatchRequest) -> Since {
        self.journal.since(request.watch.after)
    }

    /// Tells a watcher the whole state of this moment.
    pub(super) fn whole(&self) -> impl FnOnce(WatchRequest, Status) + Send + use<> {
        let sequence = self.journal.sequence();
        move |request: WatchRequest, mut status: Status| {
            if !request.may_command {
                status.conceal();
            }
            let message = WatchMessage::whole(Some(sequence), Box::new(status));
            tell(request, sequence, message);
        }
    }

    /// Tells a watcher changes: of the sections, those that are named.
    pub(super) fn tell_changes(
        &self,
        request: WatchRequest,
        mut sections: Map<String, Value>,
        named: &[String],
        removed: Vec<ResourceId>,
    ) {
        let named: BTreeSet<&str> = named.iter().map(String::as_str).collect();
        let is_told =
            |name: &str| named.contains(name) || ["at", "resources", "names"].contains(&name);
        sections.retain(|name, _| is_told(name));
        if !request.may_command {
            conceal(&mut sections);
        }
        let sequence = self.journal.sequence();
        let message = WatchMessage {
            schema_version: SCHEMA_VERSION,
            sequence: Some(sequence),
            status: None,
            changes: Some(sections),
            removed,
        };
        tell(request, sequence, message);
    }

    /// Answers a watcher of a client without a session.
    pub(super) fn answer_at_rest(&self, request: WatchRequest, status: &Status) {
        match self.since(&request) {
            Since::Whole => self.whole()(request, status.clone()),
            Since::Changes {
                sections: named, ..
            } => {
                self.tell_changes(request, sections(status), &named, Vec::new());
            }
        }
    }
}

/// Removes the parts of sections that are for those alone who may command.
fn conceal(sections: &mut Map<String, Value>) {
    if let Some(sign_in) = sections
        .get_mut("service")
        .and_then(|service| service.get_mut("sign_in"))
        && let Ok(mut status) = SignInStatus::deserialize(&*sign_in)
    {
        status.conceal();
        *sign_in = serde_json::to_value(status).unwrap_or_default();
    }
}

fn tell(request: WatchRequest, sequence: u64, message: WatchMessage) {
    let update = Update {
        sequence,
        write: Box::new(move || serde_json::to_vec(&message)),
    };
    // The watcher may have left.
    let _left = request.update.send(update);
}
