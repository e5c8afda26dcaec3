//! The notifications: of what was denied, ended or lost. At most one a minute for a cause; what comes in between is told
//! with the next one.

use crate::phase::{Contact, Phase};
use crate::status::{self, AccessState, Change, Resource, Status};
use crate::text;
use std::sync::Arc;

/// The shortest time between two notifications of one cause, in milliseconds.
pub const INTERVAL_MS: u64 = 60_000;

/// A cause of notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A request for access was denied.
    Denied,
    /// Access that was in use has ended before its time.
    Ended,
    /// The portal does not answer any more.
    PortalLost,
    /// The portal refuses this client, or its owner is disabled.
    Refused,
    /// The service does not answer any more.
    ServiceLost,
}

const CAUSES: [Cause; 5] = [
    Cause::Denied,
    Cause::Ended,
    Cause::PortalLost,
    Cause::Refused,
    Cause::ServiceLost,
];

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The cause.
    pub cause: Cause,
    /// The resource, without markup; empty if the cause is of none.
    pub name: String,
    /// The code of the reason; empty if there is none.
    pub code: String,
    /// The number of further resources.
    pub more: usize,
}

#[derive(Debug, Default)]
struct Slot {
    told_at_ms: Option<u64>,
    waiting: Option<Notice>,
}

/// Decides about notifications. One slot for each of the [`CAUSES`]: its memory is bounded by them and by one status.
#[derive(Debug, Default)]
pub struct Notices {
    slots: [Slot; CAUSES.len()],
    last: Option<Arc<Status>>,
    phase: Option<Phase>,
}

impl Notices {
    /// Takes what the socket said last, and returns the notifications to show now.
    pub fn observe(&mut self, contact: &Contact, now_ms: u64) -> Vec<Notice> {
        let phase = Phase::of(contact);
        if let Some(cause) = self.phase.as_ref().and_then(|before| lost(before, &phase)) {
            self.add(Notice {
                cause,
                name: String::new(),
                code: String::new(),
                more: 0,
            });
        }
        if let Contact::Status(status) = contact {
            if let Some(before) = self.last.take().filter(|_| phase.shows_resources()) {
                for notice in changes(&before, status) {
                    self.add(notice);
                }
            }
            self.last = Some(Arc::clone(status));
        }
        self.phase = Some(phase);
        self.due(now_ms)
    }

    fn add(&mut self, notice: Notice) {
        let slot = &mut self.slots[notice.cause as usize];
        match &mut slot.waiting {
            Some(waiting) if waiting.name != notice.name => waiting.more += 1,
            Some(_) => {}
            None => slot.waiting = Some(notice),
        }
    }

    /// The moment at which the next notification that waits may be shown.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        let waiting = self.slots.iter().filter(|slot| slot.waiting.is_some());
        waiting
            .map(|slot| {
                slot.told_at_ms
                    .map_or(0, |at| at.saturating_add(INTERVAL_MS))
            })
            .min()
    }

    /// The notifications that may be shown now, and have not been.
    pub fn due(&mut self, now_ms: u64) -> Vec<Notice> {
        let mut due = Vec::new();
        for slot in &mut self.slots {
            let may = slot
                .told_at_ms
                .is_none_or(|at| now_ms.saturating_sub(at) >= INTERVAL_MS);
            if let Some(notice) = slot.waiting.take_if(|_| may) {
                slot.told_at_ms = Some(now_ms);
                due.push(notice);
            }
        }
        due
    }
}

/// The cause that lies in a change of the window's state.
fn lost(before: &Phase, after: &Phase) -> Option<Cause> {
    if !before.shows_resources() {
        return None;
    }
    match after {
        Phase::PortalAway { .. } if matches!(before, Phase::Connected(_)) => {
            Some(Cause::PortalLost)
        }
        Phase::Refused { .. } => Some(Cause::Refused),
        Phase::OwnerDisabled if *before != Phase::OwnerDisabled => Some(Cause::Refused),
        Phase::ServiceAway | Phase::Stranger(_) => Some(Cause::ServiceLost),
        _ => None,
    }
}

/// The denials between two states: new ones, and those of access that was granted before.
fn changes(before: &Status, after: &Status) -> Vec<Notice> {
    let notice = |cause, resource: &Resource| Notice {
        cause,
        name: text::without_markup(&text::clean(&resource.name)),
        code: resource
            .why
            .as_ref()
            .filter(|_| resource.state == AccessState::Denied)
            .map(|why| why.code.clone())
            .unwrap_or_default(),
        more: 0,
    };
    status::changes(&before.resources, &after.resources)
        .into_iter()
        .filter_map(|change| match change {
            Change::Changed(old, new) if new.state == AccessState::Denied => match old.state {
                AccessState::Denied => None,
                AccessState::Granted => Some(notice(Cause::Ended, new)),
                _ => Some(notice(Cause::Denied, new)),
            },
            // A resource that is not shown any more can't be denied: access to it has ended.
            Change::Removed(old) if old.state == AccessState::Granted => {
                Some(notice(Cause::Ended, old))
            }
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Portal, PortalState, Reason, Resource, ServiceState};

    fn contact(resources: &[(&str, AccessState)], portal: PortalState) -> Contact {
        let resources = resources.iter().map(|&(id, state)| Resource {
            id: id.to_owned(),
            name: format!("<{id}>"),
            state,
            why: Some(Reason {
                code: "no_access".to_owned(),
                ..Reason::default()
            }),
            ..Resource::default()
        });
        Contact::Status(Arc::new(Status {
            resources: status::sorted(resources.collect()),
            portal: Portal {
                state: portal,
                sessions: 1,
                ..Portal::default()
            },
            ready: true,
            ..Status::default()
        }))
    }

    fn connected(resources: &[(&str, AccessState)]) -> Contact {
        contact(resources, PortalState::Connected)
    }

    use AccessState::{Denied, Granted, Idle};

    #[test]
    fn denials_and_ends_are_told_once() {
        let mut notices = Notices::default();
        let before = [("a", Idle), ("b", Granted), ("c", Denied), ("d", Granted)];
        assert!(notices.observe(&connected(&before), 0).is_empty());
        let after = connected(&[("a", Denied), ("b", Denied), ("c", Denied)]);
        let told = notices.observe(&after, 1_000);
        let told: Vec<_> = told
            .iter()
            .map(|notice| (notice.cause, notice.name.as_str(), notice.more))
            .collect();
        assert_eq!(told, [(Cause::Denied, "‹a›", 0), (Cause::Ended, "‹b›", 1)]);
        assert!(notices.observe(&after, 200_000).is_empty());
    }

    #[test]
    fn a_cause_is_told_once_a_minute_with_what_came_in_between() {
        let mut notices = Notices::default();
        let mut states: Vec<(String, AccessState)> =
            (0..50).map(|number| (number.to_string(), Idle)).collect();
        let mut told = Vec::new();
        for step in 0..=50_u64 {
            let resources: Vec<(&str, AccessState)> = states
                .iter()
                .map(|(id, state)| (id.as_str(), *state))
                .collect();
            let at_ms = step * 1_000;
            told.extend(
                notices
                    .observe(&connected(&resources), at_ms)
                    .into_iter()
                    .map(|notice| (at_ms, notice.more)),
            );
            if let Some(state) = states.get_mut(usize::try_from(step).unwrap()) {
                state.1 = Denied;
            }
        }
        assert_eq!(told, [(1_000, 0)]);
        assert_eq!(notices.next_ms(), Some(1_000 + INTERVAL_MS));
        assert!(notices.due(INTERVAL_MS).is_empty());
        let last = notices.due(1_000 + INTERVAL_MS);
        assert_eq!(notices.next_ms(), None);
        assert_eq!(last.len(), 1);
        assert_eq!((last[0].cause, last[0].more), (Cause::Denied, 48));
    }

    #[test]
    fn a_flapping_portal_is_told_once_a_minute() {
        let mut notices = Notices::default();
        let told: usize = (0..120_u64)
            .map(|second| {
                let state = if second % 2 == 0 {
                    PortalState::Connected
                } else {
                    PortalState::Waiting
                };
                notices.observe(&contact(&[], state), second * 1_000).len()
            })
            .sum();
        assert_eq!(told, 2);
    }

    #[test]
    fn the_end_of_the_service_is_told_and_its_start_is_not() {
        let mut notices = Notices::default();
        assert!(notices.observe(&Contact::Away, 0).is_empty());
        assert!(
            notices
                .observe(&connected(&[("a", Denied)]), 1_000)
                .is_empty()
        );
        assert_eq!(
            notices.observe(&Contact::Away, 2_000)[0].cause,
            Cause::ServiceLost
        );
        assert!(notices.observe(&Contact::Away, 90_000).is_empty());
    }

    #[test]
    fn a_command_of_the_person_is_no_notice() {
        let mut notices = Notices::default();
        notices.observe(&connected(&[("a", Granted)]), 0);
        let down = Status {
            service: status::Service {
                state: ServiceState::Down,
                ..Default::default()
            },
            ..Status::default()
        };
        assert!(
            notices
                .observe(&Contact::Status(Arc::new(down)), 1_000)
                .is_empty()
        );
    }

    #[test]
    fn each_cause_has_a_slot() {
        for (place, cause) in CAUSES.into_iter().enumerate() {
            assert_eq!(cause as usize, place);
        }
    }
}
