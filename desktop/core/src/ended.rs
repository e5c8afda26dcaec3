//! Resources that this person has lost: each stays in the list for some time, marked as ended, so that it does not disappear
//! silently.

use crate::phase::{Contact, Phase};
use crate::status::{self, Change, Resource, ServiceState, Status};
use std::sync::Arc;

/// The most resources that are marked as ended, the newest: a list that a person reads through. A change of a policy that
/// ends more is in the notification.
pub const MAX_ENDED: usize = 50;

/// The time for which a resource is marked as ended, in milliseconds: someone who was away for a night still sees it.
pub const SHOWN_FOR_MS: u64 = 24 * 3_600_000;

/// A moment by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds of the window's clock.
    pub now_ms: u64,
    /// Seconds since 1970, to be shown.
    pub unix_s: i64,
}

/// A resource that is gone from the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The resource as it was last.
    pub resource: Arc<Resource>,
    /// The moment at which the service told that it is gone.
    pub at: Moment,
    /// False if it went unseen, some time before `at`: the service was away, or the client was down.
    pub is_exact: bool,
}

/// The account that the traces are of: the URL of the portal, and the id of the client there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Account(String, Option<String>);

impl Account {
    fn of(status: &Status) -> Self {
        Self(status.portal_url.clone(), status.client.clone())
    }
}

/// The resources that have ended. Its memory is bounded by [`MAX_ENDED`] and one status, which outlives the time without a
/// service: what is gone afterwards has ended too.
#[derive(Debug, Default)]
pub struct Ended {
    account: Account,
    /// The last state of the account that had resources to be shown.
    last: Option<Arc<Status>>,
    /// True if nothing was told since `last`.
    is_followed: bool,
    /// The oldest first.
    traces: Vec<Trace>,
}

impl Ended {
    /// The resources that have ended, the oldest first.
    #[must_use]
    pub fn traces(&self) -> &[Trace] {
        &self.traces
    }

    /// Takes what the socket said last.
    pub fn observe(&mut self, contact: &Contact, now: Moment) {
        let is_followed = std::mem::replace(&mut self.is_followed, false);
        let Contact::Status(status) = contact else {
            return;
        };
        if status.service.state == ServiceState::SignedOut {
            self.forget();
        }
        if !Phase::of(contact).shows_resources() {
            return;
        }
        let account = Account::of(status);
        if account != self.account {
            self.forget();
            self.account = account;
        }
        // Such a client has been started, and has no list before its first session.
        if status.portal.owner_disabled && status.portal.sessions == 0 {
            return;
        }
        if status.portal.listing {
            return;
        }
        if let Some(before) = self.last.take() {
            self.compare(&before, status, now, is_followed);
        }
        let is_back = |id: &str| {
            let place = status
                .resources
                .binary_search_by(|resource| resource.id.as_str().cmp(id));
            place.is_ok()
        };
        self.traces.retain(|trace| !is_back(&trace.resource.id));
        self.last = Some(Arc::clone(status));
        self.is_followed = true;
    }

    /// Nothing of one account is shown to another.
    fn forget(&mut self) {
        self.traces.clear();
        self.last = None;
    }

    /// Adds the resources that are gone between two states.
    fn compare(&mut self, before: &Status, after: &Status, now: Moment, is_exact: bool) {
        for change in status::changes(&before.resources, &after.resources) {
            if let Change::Removed(gone) = change {
                self.traces.push(Trace {
                    resource: Arc::clone(gone),
                    at: now,
                    is_exact,
                });
            }
        }
        let excess = self.traces.len().saturating_sub(MAX_ENDED);
        self.traces.drain(..excess);
    }

    /// Forgets the resource with this id, as a person asks.
    pub fn dismiss(&mut self, id: &str) {
        self.traces.retain(|trace| trace.resource.id != id);
    }

    /// Forgets what has been shown for [`SHOWN_FOR_MS`].
    pub fn expire(&mut self, now_ms: u64) {
        self.traces
            .retain(|trace| now_ms.saturating_sub(trace.at.now_ms) < SHOWN_FOR_MS);
    }

    /// The moment at which the next one is to be forgotten.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        let oldest = self.traces.first()?;
        Some(oldest.at.now_ms.saturating_add(SHOWN_FOR_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Portal, PortalState, Service};

    fn status(ids: &[&str]) -> Status {
        let resources = ids.iter().map(|&id| Resource {
            id: id.to_owned(),
            ..Resource::default()
        });
        Status {
            portal_url: "https://p.example".to_owned(),
            client: Some("cli_1".to_owned()),
            resources: status::sorted(resources.collect()),
            portal: Portal {
                state: PortalState::Connected,
                sessions: 1,
                ..Portal::default()
            },
            ready: true,
            ..Status::default()
        }
    }

    fn off(state: ServiceState) -> Status {
        Status {
            service: Service {
                state,
                ..Service::default()
            },
            ..Status::default()
        }
    }

    /// A client that was started and has had no session.
    fn connecting(owner_disabled: bool) -> Status {
        let mut connecting = status(&[]);
        connecting.portal = Portal {
            state: PortalState::Connecting,
            owner_disabled,
            ..Portal::default()
        };
        connecting
    }

    fn at(now_ms: u64) -> Moment {
        Moment { now_ms, unix_s: 7 }
    }

    impl Ended {
        fn see(&mut self, status: Status, now_ms: u64) -> String {
            self.observe(&Contact::Status(Arc::new(status)), at(now_ms));
            self.ids()
        }

        fn ids(&self) -> String {
            let ids: Vec<&str> = self
                .traces
                .iter()
                .map(|it| it.resource.id.as_str())
                .collect();
            ids.join(" ")
        }
    }

    #[test]
    fn a_resource_that_is_gone_leaves_a_trace_until_it_is_back() {
        let mut ended = Ended::default();
        assert_eq!(ended.see(status(&["a", "b", "c"]), 0), "");
        assert_eq!(ended.see(status(&["a", "c"]), 5), "b");
        assert_eq!(ended.traces()[0].at, at(5));
        assert_eq!(ended.see(status(&["a"]), 9), "b c");
        assert_eq!(ended.see(status(&["a", "b"]), 9), "c");
        // It ends again.
        assert_eq!(ended.see(status(&["a"]), 12), "c b");
        assert_eq!(ended.traces()[1].at, at(12));
    }

    #[test]
    fn a_person_dismisses_a_trace() {
        let mut ended = Ended::default();
        ended.see(status(&["a", "b"]), 0);
        assert_eq!(ended.see(status(&[]), 1), "a b");
        ended.dismiss("a");
        assert_eq!(ended.ids(), "b");
        assert_eq!(ended.see(status(&[]), 2), "b");
    }

    #[test]
    fn traces_are_bounded_in_number_and_time() {
        let ids: Vec<String> = (0..2 * MAX_ENDED)
            .map(|number| format!("r{number:03}"))
            .collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut ended = Ended::default();
        ended.see(status(&ids), 0);
        for (now_ms, count) in (1..).zip((0..ids.len()).rev()) {
            ended.see(status(&ids[..count]), now_ms);
            assert!(ended.traces().len() <= MAX_ENDED);
        }
        // The newest are there.
        assert!(ended.ids().ends_with("r001 r000"));
        let last_ms = u64::try_from(ids.len()).unwrap();
        let next_ms = ended.next_ms().unwrap();
        ended.expire(next_ms - 1);
        assert_eq!(ended.traces().len(), MAX_ENDED);
        ended.expire(next_ms);
        assert_eq!(ended.traces().len(), MAX_ENDED - 1);
        ended.expire(last_ms + SHOWN_FOR_MS);
        assert_eq!((ended.ids().as_str(), ended.next_ms()), ("", None));
    }

    #[test]
    fn traces_go_with_the_account() {
        let mut ended = Ended::default();
        ended.see(status(&["a", "b"]), 0);
        assert_eq!(ended.see(status(&["a"]), 1), "b");
        // Another client of the same portal, and another portal.
        let mut other = status(&["a"]);
        other.client = Some("cli_2".to_owned());
        assert_eq!(ended.see(other, 2), "");
        ended.see(status(&["a", "b"]), 3);
        assert_eq!(ended.see(status(&["a"]), 4), "b");
        let mut other = status(&[]);
        other.portal_url = "https://q.example".to_owned();
        assert_eq!(ended.see(other, 5), "");
        // Signed out, and in again as the same.
        ended.see(status(&["a", "b"]), 6);
        assert_eq!(ended.see(status(&["a"]), 7), "b");
        assert_eq!(ended.see(off(ServiceState::SignedOut), 8), "");
        assert_eq!(ended.see(status(&["a"]), 9), "");
    }

    #[test]
    fn a_resource_that_goes_while_the_client_is_down_leaves_a_trace_when_it_is_up() {
        let mut ended = Ended::default();
        ended.see(status(&["a", "b", "c"]), 0);
        assert_eq!(ended.see(status(&["a", "c"]), 1), "b");
        for state in [ServiceState::GoingDown, ServiceState::Down] {
            // Its state has no resources, and that ends none.
            assert_eq!(ended.see(off(state), 2), "b");
        }
        assert_eq!(ended.see(connecting(false), 3), "b");
        assert_eq!(ended.see(status(&["c"]), 4), "b a");
        let [seen, unseen] = ended.traces() else {
            panic!("{:?}", ended.traces());
        };
        assert_eq!((seen.at, seen.is_exact), (at(1), true));
        assert_eq!((unseen.at, unseen.is_exact), (at(4), false));
        // It is followed again.
        assert_eq!(ended.see(status(&[]), 5), "b a c");
        assert!(ended.traces()[2].is_exact);
    }

    #[test]
    fn a_resource_that_goes_while_the_service_is_away_leaves_a_trace_when_it_is_back() {
        let mut ended = Ended::default();
        ended.see(status(&["a", "b"]), 0);
        for contact in [
            Contact::Away,
            Contact::Stranger(7),
            Contact::Broken(String::new()),
        ] {
            ended.observe(&contact, at(1));
            assert_eq!(ended.ids(), "");
        }
        // A service that was started has no list before its first session, nor while the owner is disabled.
        assert_eq!(ended.see(connecting(false), 2), "");
        assert_eq!(ended.see(connecting(true), 3), "");
        assert_eq!(ended.see(status(&["b"]), 4), "a");
        assert_eq!(ended.traces()[0].at, at(4));
    }

    #[test]
    fn a_resource_that_is_yet_to_be_listed_has_not_ended() {
        let mut ended = Ended::default();
        ended.see(status(&["a", "b", "c"]), 0);
        ended.observe(&Contact::Away, at(1));
        for ids in [&["a"][..], &["a", "c"]] {
            let mut listing = status(ids);
            listing.portal.listing = true;
            assert_eq!(ended.see(listing, 2), "");
        }
        assert_eq!(ended.see(status(&["a", "c"]), 3), "b");
        assert!(!ended.traces()[0].is_exact);
    }

    #[test]
    fn an_account_that_comes_while_nobody_looks_sees_nothing_of_the_one_before() {
        let changes: [fn(&mut Status); 2] = [
            |status| status.client = Some("cli_2".to_owned()),
            |status| status.portal_url = "https://q.example".to_owned(),
        ];
        for change in changes {
            let mut ended = Ended::default();
            ended.see(status(&["a", "b"]), 0);
            assert_eq!(ended.see(status(&["a"]), 1), "b");
            ended.observe(&Contact::Away, at(2));
            let mut other = status(&[]);
            change(&mut other);
            assert_eq!(ended.see(other, 3), "");
            // Nor does the account before when it is back: its list is another account's by then.
            assert_eq!(ended.see(status(&[]), 4), "");
        }
        // Its owner is disabled, so it has no list yet.
        let mut ended = Ended::default();
        ended.see(status(&["a", "b"]), 0);
        assert_eq!(ended.see(status(&["a"]), 1), "b");
        let mut other = connecting(true);
        other.client = Some("cli_2".to_owned());
        assert_eq!(ended.see(other, 2), "");
        // Signed out meanwhile, and in again as the same.
        let mut ended = Ended::default();
        ended.see(status(&["a", "b"]), 0);
        ended.observe(&Contact::Away, at(1));
        ended.see(off(ServiceState::SignedOut), 2);
        assert_eq!(ended.see(status(&["a"]), 3), "");
    }
}
