//! The grants of one client, and the permit that they give.

use super::DropReason;
use super::peer_key::PeerKey;
use crate::prefix_map::PrefixMap;
use crate::{Filters, GrantError, Prefix, Service, is_forwarded};
use culvert_base::BootTime;
use culvert_ids::{GrantId, ResourceId};
use std::cmp::Reverse;
use std::net::{IpAddr, SocketAddr};

/// Tunnel addresses of one client: one of each family, and as many while they are changed.
pub const MAX_ADDRESSES_PER_CLIENT: usize = 4;
/// Grants of one client: more resources than one machine was seen to use within a grant's life.
pub const MAX_GRANTS_PER_CLIENT: usize = 4096;
/// Names of one grant, each with an address of each family: what a crawler finds below `**`.
pub const MAX_NAMES_PER_GRANT: usize = 8192;

/// One client may use one resource until an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// The resource.
    pub resource: ResourceId,
    /// The addresses that it leads to.
    pub reach: Reach,
    /// The services there that may be used.
    pub filters: Filters,
    /// The services of the client's host that its addresses may use; names open nothing.
    pub inbound: Filters,
    /// Its end. That instant is no longer within it.
    pub expires: BootTime,
}

/// The addresses that a grant leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To addresses.
    Addresses(Prefix),
    /// To names, by the addresses that stand for them at the client.
    Names(Vec<Mapping>),
}

/// An address that stands for a name, and the one that the name has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mapping {
    visible: IpAddr,
    leads: MappedTo,
}

/// The destination of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum MappedTo {
    Address(IpAddr),
    /// Nowhere that its resource allows.
    Outside,
    /// It has lost its addresses.
    Lost,
}

impl Mapping {
    /// The client sends to `visible`; new flows go to `resolved`.
    ///
    /// # Errors
    /// [`GrantError::Families`] and [`GrantError::NotForwarded`]: whoever may change a name in the
    /// DNS could otherwise lead clients to the gateway's own services. Such an address is left
    /// out, and the name's others serve.
    pub fn new(visible: IpAddr, resolved: IpAddr) -> Result<Self, GrantError> {
        if visible.is_ipv4() != resolved.is_ipv4() {
            return Err(GrantError::Families { visible, resolved });
        }
        for address in [visible, resolved] {
            if !is_forwarded(address) {
                return Err(GrantError::NotForwarded(address));
            }
        }
        let leads = MappedTo::Address(resolved);
        Ok(Self { visible, leads })
    }

    /// The client sends to `visible`, whose name has no address but such as its resource does not allow
    /// ([`crate::Within`]).
    #[must_use]
    pub const fn outside(visible: IpAddr) -> Self {
        let leads = MappedTo::Outside;
        Self { visible, leads }
    }

    /// The client sends to `visible`, whose name had addresses and has none any more: flows that it has go on where they
    /// went, and there are no new ones.
    #[must_use]
    pub const fn lost(visible: IpAddr) -> Self {
        let leads = MappedTo::Lost;
        Self { visible, leads }
    }

    /// The address that the client sends to.
    #[must_use]
    pub const fn visible(self) -> IpAddr {
        self.visible
    }

    /// The destination of new flows, if they have one.
    #[must_use]
    pub const fn resolved(self) -> Option<IpAddr> {
        match self.leads {
            MappedTo::Address(address) => Some(address),
            MappedTo::Outside | MappedTo::Lost => None,
        }
    }
}

/// The gateway's DNS service, which a client asks about names of its resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteDns {
    /// Of the gateway, by UDP and TCP.
    pub at: SocketAddr,
    /// The grant to names by which the client may ask, or [`SiteDns::NO_GRANT`].
    pub grant: GrantId,
    /// The resource of that grant.
    pub resource: ResourceId,
    /// Its end, as [`Grant::expires`].
    pub expires: BootTime,
}

/// The grants of one client.
#[derive(Clone, Debug)]
pub struct ClientGrants {
    pub(super) peer: PeerKey,
    pub(super) addresses: Vec<IpAddr>,
    grants: Vec<Grant>,
    site_dns: Option<SiteDns>,
    /// The epoch since which a table has them.
    pub(super) since: u64,
    /// Of each range the grants that lead there, those to try first in front.
    reach: PrefixMap<Vec<Lead>>,
}

/// That a grant leads to a range.
#[derive(Clone, Copy, Debug)]
struct Lead {
    /// Its place in [`ClientGrants::grants`].
    grant: usize,
    /// The destination of new flows.
    goes: Goes,
}

/// The destination of new flows to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    /// The one that the client sends them to.
    There,
    /// To the address that the range, a single address then, stands for.
    To(IpAddr),
    /// Nowhere: the name that it stands for has no address that its resource allows.
    Outside,
    /// Nowhere: the name that it stands for has lost its addresses. Flows that are there go on.
    Lost,
}

impl ClientGrants {
    /// The grants of the client behind `peer`, from these tunnel addresses.
    ///
    /// # Errors
    /// [`GrantError`] where a bound is exceeded or an address would stand for two; the client is to
    /// be left without grants then.
    pub fn new(
        peer: PeerKey,
        addresses: Vec<IpAddr>,
        grants: Vec<Grant>,
    ) -> Result<Self, GrantError> {
        if addresses.len() > MAX_ADDRESSES_PER_CLIENT {
            return Err(GrantError::TooManyAddresses);
        }
        if grants.len() > MAX_GRANTS_PER_CLIENT {
            return Err(GrantError::TooManyGrants);
        }
        let mut reach = PrefixMap::<Vec<Lead>>::default();
        for (place, grant) in grants.iter().enumerate() {
            lead(&mut reach, place, &grant.reach)?;
        }
        for leads in reach.values_mut() {
            // Of alike resources the older one; of one resource the grant that lasts longest,
            // since a new grant replaces an old one without a gap.
            leads.sort_by_key(|lead| {
                let grant = &grants[lead.grant];
                (grant.resource, Reverse(grant.expires), grant.id)
            });
        }
        Ok(Self {
            peer,
            addresses,
            grants,
            site_dns: None,
            since: 0,
            reach,
        })
    }

    /// The same, and the client may ask the gateway's resolver.
    #[must_use]
    pub const fn with_site_dns(mut self, site_dns: SiteDns) -> Self {
        self.site_dns = Some(site_dns);
        self
    }

    /// Its peer.
    #[must_use]
    pub const fn peer(&self) -> PeerKey {
        self.peer
    }

    /// Its tunnel addresses.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Its grants.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The permit of the client for the service at the address, if it may use it now.
    ///
    /// The longest range around the address decides alone: where its grants have expired or do
    /// not allow the service, a wider one is not asked.
    pub(super) fn permit(
        &self,
        destination: IpAddr,
        service: Service,
        now: BootTime,
    ) -> Result<Permit, DropReason> {
        if !is_forwarded(destination) {
            return Err(DropReason::NotForwarded);
        }
        // Beside the grants: a range around the gateway's address is not cut by it.
        if let Some(dns) = self.site_dns.filter(|dns| dns.is(destination, service)) {
            return dns.permit(now);
        }
        let leads = self.reach.longest(destination).ok_or(DropReason::NoGrant)?;
        let mut reason = DropReason::Expired;
        for lead in leads {
            let grant = &self.grants[lead.grant];
            if now >= grant.expires {
                continue;
            }
            let way = match lead.goes {
                Goes::There => Way::Itself,
                Goes::To(resolved) => Way::To(resolved),
                Goes::Lost => Way::Lost,
                Goes::Outside => {
                    reason = DropReason::OutsideWithin;
                    continue;
                }
            };
            if grant.filters.allows(service) {
                return Ok(Permit {
                    grant: grant.id,
                    resource: grant.resource,
                    expires: grant.expires,
                    way,
                });
            }
            match grant.filters.allows_protocol(service) {
                true => reason = DropReason::Port,
                false if reason == DropReason::Expired => reason = DropReason::Protocol,
                false => {}
            }
        }
        Err(reason)
    }
}

impl ClientGrants {
    /// The permit of a resource's address to use a service of the client's host, if a grant opens it now.
    ///
    /// The longest range around the address decides alone here too.
    pub(super) fn permit_inbound(
        &self,
        source: IpAddr,
        service: Service,
        now: BootTime,
    ) -> Result<Permit, DropReason> {
        if !is_forwarded(source) {
            return Err(DropReason::NotForwarded);
        }
        let leads = self.reach.longest(source).ok_or(DropReason::NotAFlow)?;
        let mut reason = DropReason::NotAFlow;
        for lead in leads {
            let grant = &self.grants[lead.grant];
            if now >= grant.expires || lead.goes != Goes::There {
                continue;
            }
            if grant.inbound.allows(service) {
                return Ok(Permit {
                    grant: grant.id,
                    resource: grant.resource,
                    expires: grant.expires,
                    way: Way::Itself,
                });
            }
            if !grant.inbound.is_empty() {
                reason = DropReason::NotOpened;
            }
        }
        Err(reason)
    }
}

impl SiteDns {
    /// Stands for the grant of a client that may ask without one: no grant has this id.
    pub const NO_GRANT: GrantId = GrantId::from_bytes([0; 16]);

    /// A client may ask without a grant, until it has another entry in the table.
    #[must_use]
    pub const fn without_grant(at: SocketAddr) -> Self {
        Self {
            at,
            grant: Self::NO_GRANT,
            resource: ResourceId::from_bytes([0; 16]),
            expires: BootTime::MAX,
        }
    }

    fn is(self, destination: IpAddr, service: Service) -> bool {
        let port = self.at.port();
        destination == self.at.ip() && [Service::Udp(port), Service::Tcp(port)].contains(&service)
    }

    fn permit(self, now: BootTime) -> Result<Permit, DropReason> {
        if now >= self.expires {
            return Err(DropReason::Expired);
        }
        Ok(Permit {
            grant: self.grant,
            resource: self.resource,
            expires: self.expires,
            way: Way::Itself,
        })
    }
}

/// The permission by which a flow passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permit {
    pub(super) grant: GrantId,
    pub(super) resource: ResourceId,
    pub(super) expires: BootTime,
    pub(super) way: Way,
}

/// The destination of flows that are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The one that the client sends them to.
    Itself,
    /// New ones to the address that the name has, others where they went.
    To(IpAddr),
    /// The one that they had: new ones have no address to go to.
    Lost,
}

impl Way {
    /// By a name, not by an address.
    pub(super) const fn is_named(self) -> bool {
        !matches!(self, Self::Itself)
    }
}

/// Enters where a grant leads.
fn lead(reach: &mut PrefixMap<Vec<Lead>>, grant: usize, to: &Reach) -> Result<(), GrantError> {
    let mappings = match to {
        Reach::Addresses(prefix) => {
            let goes = Goes::There;
            reach.entry(*prefix).push(Lead { grant, goes });
            return Ok(());
        }
        Reach::Names(mappings) => mappings,
    };
    // An address of each family for each name.
    if mappings.len() > 2 * MAX_NAMES_PER_GRANT {
        return Err(GrantError::TooManyNames);
    }
    for &Mapping { visible, leads: to } in mappings {
        let leads = reach.entry(Prefix::host(visible));
        let goes = match to {
            MappedTo::Address(address) => Goes::To(address),
            MappedTo::Outside => Goes::Outside,
            MappedTo::Lost => Goes::Lost,
        };
        match leads.iter().find(|lead| lead.grant == grant) {
            None => leads.push(Lead { grant, goes }),
            Some(before) if before.goes == goes => {}
            Some(_) => return Err(GrantError::Ambiguous(visible)),
        }
    }
    Ok(())
}
