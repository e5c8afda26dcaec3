//! Resources as the portal tells them: listed when a session begins, and one by one from then on.
//!
//! Those of the session before stay until the list is whole, so that no access to them is refused between two messages.

use super::client::Client;
use super::directory::Changed;
use super::listing::Listing;
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use culvert_wire::model;
use std::collections::BTreeSet;

impl<P> Client<P> {
    /// True while the portal lists the resources: some that are there may be missing, and some that are gone may not.
    #[must_use]
    pub const fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    /// The list begins with these, and `later` of it follow.
    pub(super) fn begin_listing(&mut self, first: &[model::Resource], later: u32, now: BootTime) {
        let mut listing = Listing::new(later);
        for resource in first {
            self.set_resource(resource, now);
            listing.note_first(resource.id);
        }
        self.listing = Some(listing);
        self.end_listing_if_whole(now);
    }

    /// A resource is new or has changed, or is the next of the list.
    pub(super) fn hear_resource(&mut self, resource: &model::Resource, now: BootTime) {
        self.set_resource(resource, now);
        self.log_unreadable(Some(resource.id));
        // It may be for the same range as one that is in use.
        self.accesses.hurry_same_target(now);
        if let Some(listing) = &mut self.listing {
            listing.note_later(resource.id);
            self.end_listing_if_whole(now);
        }
    }

    fn set_resource(&mut self, resource: &model::Resource, now: BootTime) {
        match self.directory.set(resource, self.outbox.log_queue()) {
            Changed::Other => self.forget_denial(resource.id, now),
            Changed::Target | Changed::Gone => self.drop_access(resource.id, now),
        }
        self.routes.set_stale();
    }

    /// Once the list is whole, all that is not in it is gone, but what has a valid grant: a revocation is told apart.
    fn end_listing_if_whole(&mut self, now: BootTime) {
        let Some(listing) = self.listing.take_if(|listing| listing.is_whole()) else {
            return;
        };
        let there = self.directory.ids().into_iter();
        let accessed = self.accesses.ids().into_iter();
        let unlisted: BTreeSet<ResourceId> = there
            .chain(accessed)
            .filter(|id| !listing.has(*id))
            .collect();
        for id in unlisted {
            let is_there = self.directory.get(id).is_some();
            if !is_there || self.accesses.grant(id).is_none() {
                self.directory.remove(id);
                self.drop_access(id, now);
            }
        }
        self.routes.set_stale();
    }
}
