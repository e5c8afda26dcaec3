//! Watchers of the state.

use super::EventLoop;
use crate::shell::clock::Now;
use crate::shell::watching::{Compared, sections};
use culvert_client_core::Since;
use culvert_host::WatchRequest;
use culvert_ids::ResourceId;
use serde_json::Value;
use tokio::sync::oneshot;

impl EventLoop<'_> {
    /// Looks for changes if somebody watches and it is time.
    pub(super) fn look_for_changes(&mut self) {
        let now = Now::read();
        if self
            .socket
            .watching
            .begin_look(self.socket.observed.watchers(), now.boot)
        {
            self.look(now);
        }
    }

    fn look(&mut self, now: Now) {
        let compared = Compared {
            resources: self.core.take_changed_resources(),
            accesses: self.core.access_marks(now.boot),
            traffic: self.core.traffic(),
            sections: sections(&self.status_without_resources(now)),
        };
        let watchers = self.socket.observed.watchers();
        self.socket.watching.look(watchers, compared, now.boot);
    }

    /// Answers a watcher with all that changed since its last message.
    pub(super) fn answer_watcher(&mut self, request: WatchRequest) {
        let now = Now::read();
        let watchers = self.socket.observed.watchers();
        let is_due = self.socket.watching.begin_look(watchers, now.boot);
        // The whole state has all changes until now: they are not told again.
        if is_due || request.watch.after.is_none() {
            self.look(now);
        }
        match self.socket.watching.since(&request) {
            Since::Whole => self.tell_whole(request),
            Since::Changes {
                sections,
                resources,
            } => self.tell_changes(request, &sections, &resources, now),
        }
    }

    fn tell_whole(&self, request: WatchRequest) {
        let (answer, answered) = oneshot::channel();
        self.devices.firewall.answer(self.status(), answer);
        let tell = self.socket.watching.whole();
        tokio::spawn(async move {
            if let Ok(Ok(status)) = answered.await {
                tell(request, status);
            }
        });
    }

    fn tell_changes(
        &self,
        request: WatchRequest,
        named: &[String],
        changed: &[ResourceId],
        now: Now,
    ) {
        let (mut resources, mut names, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        for id in changed {
            match self.core.view_of_resource(*id, now.boot, now.unix) {
                Some((resource, its_names)) => {
                    resources.push(resource);
                    names.extend(its_names);
                }
                None => removed.push(*id),
            }
        }
        let mut changes = sections(&self.status_without_resources(now));
        for (name, value) in [
            ("resources", serde_json::to_value(resources)),
            ("names", serde_json::to_value(names)),
        ] {
            let value = value.unwrap_or_default();
            if value != Value::Array(Vec::new()) {
                changes.insert(name.to_owned(), value);
            }
        }
        self.socket
            .watching
            .tell_changes(request, changes, named, removed);
    }
}
