//! A stub that answers for another machine: a gateway has one for each plain WireGuard device.

use super::Stub;
use crate::Addresses;
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use culvert_policy::DomainName;

impl Stub {
    /// Withholds what upstreams say of private networks from now on: answers with an address of one, and names of such
    /// addresses. The asker hears NXDOMAIN, as for a name that does not exist. The upstreams are those of the network that the
    /// stub is in, and the asker may use no more of that network than its resources.
    pub fn withhold_private(&mut self) {
        self.withholds_private = true;
    }

    /// Bounds the names with addresses from now on, below [`NAMES_MAX`](crate::NAMES_MAX).
    pub fn set_names_max(&mut self, names_max: usize) {
        self.names.set_names_max(names_max);
    }

    /// Gives names addresses from this place of the ranges on. A random place keeps an address that the asker remembers from
    /// an earlier stub from leading to another name.
    pub fn begin_at(&mut self, place: u32) {
        self.names.begin_at(place);
    }

    /// Divides the ranges into `count` shares, a power of two, in the order of their addresses. All names get addresses of the
    /// first one, until [`Self::assign_shares`].
    pub fn divide_ranges(&mut self, count: u8) {
        self.names.divide(count);
    }

    /// Names get addresses of the share `usual` from now on, and those of the resources in `of` addresses of another one. A name
    /// with addresses of another share than its own gets others when it is asked for again.
    pub fn assign_shares(&mut self, usual: u8, of: impl IntoIterator<Item = (ResourceId, u8)>) {
        self.names.assign_shares(usual, of);
    }

    /// A name has these addresses from an earlier stub. False if it can't have them.
    pub fn keep_name(
        &mut self,
        name: &DomainName,
        resource: ResourceId,
        addresses: Addresses,
        now: BootTime,
    ) -> bool {
        self.names.keep(name, resource, addresses, now)
    }

    /// Access may have changed: each name is asked for again by its next query. Names keep their addresses.
    pub fn forget_access(&mut self) {
        self.names.forget_all();
    }
}
