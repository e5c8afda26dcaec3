//! The tunnel's interface and the way into it.
//!
//! Resources have a routing table of their own, looked into before `main` by everything but the
//! packets that carry the tunnel:
//!
//! ```text
//! 0      from all lookup local
//! 5009   iif lo ipproto udp sport PORT goto 5040
//! 5009   iif lo to PORTAL ipproto tcp dport PORT goto 5040
//! 5010   not fwmark MARK lookup TABLE              10.0.0.0/8 dev cv0 metric 100
//!                                                  unreachable 10.0.0.0/8 metric 4294967295
//! 5020   to 192.168.0.0/16 lookup main suppress_prefixlength 0
//!                                                  and other local ranges, where 0.0.0.0/0 or ::/0 is wanted
//! 5030   not fwmark MARK lookup DEFAULT_TABLE      the same
//! 5040   ipproto udp sport 1-65534 nop             where the first ones lead to
//! 32766  from all lookup main
//! ```
//!
//! A gateway's rules have the numbers 5014, 5015 and so on, and tables of their own.
//!
//! The first ones are for hosts on which another program changes marks: the packets that carry the tunnel pass the rules
//! into it by, whatever they are marked with ([`Exemption`]). They name TABLE, which says whose they are.
//!
//! When the program dies, its interface vanishes and with it the routes into it. Rules and
//! `unreachable` routes remain: packets for resources are refused, and go nowhere in the clear. The
//! next life finds them and goes on from there; an orderly end removes them.

mod message;
mod notes;
mod plan;
mod rule;
mod survey;
mod wanted;

use std::io;

use culvert_netlink::route::RouteNetlinkMessage;
use culvert_netlink::route::address::AddressMessage;
use culvert_netlink::route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkFlags, LinkMessage,
};
use culvert_netlink::route::route::{RouteAttribute, RouteMessage};
use culvert_netlink::route::rule::RuleMessage;
use rustix::io::Errno;

use crate::netlink::Netlink;
use crate::{Family, HostError, InterfaceName};

use message::address_family;
pub(crate) use message::{address_of, rule_table, table_of};
pub use notes::Note;
use notes::Surroundings;
use plan::{Current, Ipv6, Link, Step, plan, removal};
pub(crate) use survey::Path;
pub use wanted::{
    Exemption, MAX_ADDRESSES, MAX_EXEMPTIONS, MAX_PREFIXES, Mark, Preference, Routing, Table,
    Wanted,
};

/// Exists, in the thread's namespace, where the kernel runs with IPv6.
const IPV6_ADDRESSES: &str = "/proc/thread-self/net/if_inet6";

/// Sets up interfaces, rules and routes of the namespace in which it was opened.
#[derive(Debug)]
pub struct Network {
    netlink: Netlink,
}

/// The result of [`Network::apply`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// The changes, in words and in order; none if all was as wanted.
    pub changes: Vec<String>,
    /// Parts that could not be set up and need not stop anybody.
    pub notes: Vec<Note>,
}

impl Network {
    /// Opens a connection to the kernel. Must be called in a tokio runtime, and lives in it.
    ///
    /// # Errors
    /// The system's.
    pub fn open() -> Result<Self, HostError> {
        let netlink =
            Netlink::open().map_err(|error| HostError::system("open a netlink socket", error))?;
        Ok(Self { netlink })
    }

    /// Makes interface, rules and routes as wanted: first missing parts are added, then leftovers
    /// in our tables are removed. Parts that are as wanted are not touched, and nothing outside of
    /// our tables ever is. Dropping the future in between leaves a state from which this goes on.
    ///
    /// # Errors
    /// [`HostError::NoInterface`], [`HostError::NeedsNetAdmin`], or the system's. Changes made
    /// until then stay; prefixes are unreachable before anything else happens.
    pub async fn apply(&mut self, wanted: &Wanted) -> Result<Applied, HostError> {
        wanted.within_bounds()?;
        let link = self.link(&wanted.interface).await?;
        let ipv6 = ipv6_of(Some(&link));
        let current = self.current(&wanted.routing, Some(link), ipv6).await?;
        let changes = self.follow(plan(wanted, &current)).await?;
        let surroundings = Surroundings {
            links: self.links().await?,
            addresses: self.all_addresses().await?,
            rules: current.rules,
        };
        let notes = surroundings.notes(wanted, ipv6);
        Ok(Applied { changes, notes })
    }

    /// Removes all that [`apply`](Self::apply) set up, for an orderly end. The interface may be gone.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub async fn remove(&mut self, wanted: &Wanted) -> Result<Vec<String>, HostError> {
        let link = match self.link(&wanted.interface).await {
            Ok(link) => Some(link),
            Err(HostError::NoInterface { .. }) => None,
            Err(error) => return Err(error),
        };
        let ipv6 = ipv6_of(link.as_ref());
        let current = self.current(&wanted.routing, link, ipv6).await?;
        self.follow(removal(&wanted.routing, &current)).await
    }

    /// Removes the rules and routes that a crash left behind.
    ///
    /// A client that starts again should not call this: until it knows its resources, leftovers keep
    /// packets from leaving in the clear, and [`apply`](Self::apply) takes over what is still wanted.
    /// It is for a client that gives the tunnel up, and for tables that are no longer used.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub async fn clean_up_leftovers(
        &mut self,
        routing: &Routing,
    ) -> Result<Vec<String>, HostError> {
        let current = self.current(routing, None, ipv6_of(None)).await?;
        self.follow(removal(routing, &current)).await
    }

    /// Takes the steps, and says which.
    async fn follow(&mut self, steps: Vec<Step>) -> Result<Vec<String>, HostError> {
        let mut done = Vec::with_capacity(steps.len());
        for Step {
            text,
            request,
            flags,
        } in steps
        {
            let removes = matches!(
                request,
                RouteNetlinkMessage::DelRoute(_)
                    | RouteNetlinkMessage::DelRule(_)
                    | RouteNetlinkMessage::DelAddress(_)
            );
            match self.netlink.change(request, flags).await {
                Ok(()) => done.push(text),
                // Somebody else has removed it, or the interface took it along.
                Err(error) if removes && is_gone(&error) => {}
                // Somebody else has added it: it is there as wanted.
                Err(error) if !removes && is(&error, Errno::EXIST) => {}
                Err(error) => return Err(HostError::system(&text, error)),
            }
        }
        Ok(done)
    }

    async fn current(
        &mut self,
        routing: &Routing,
        link: Option<Link>,
        ipv6: Ipv6,
    ) -> Result<Current, HostError> {
        let families = match ipv6 {
            Ipv6::Off => &[Family::V4][..],
            Ipv6::On | Ipv6::OffOnInterface => &[Family::V4, Family::V6],
        };
        let mut current = Current {
            ipv6,
            ..Current::default()
        };
        for &family in families {
            current.rules.extend(self.rules(family).await?);
            for table in routing.tables() {
                current.routes.extend(self.routes(family, table).await?);
            }
        }
        if let Some(link) = link {
            current.link = link;
            current.addresses = self.addresses(link.index).await?;
        }
        Ok(current)
    }

    async fn link(&mut self, interface: &InterfaceName) -> Result<Link, HostError> {
        let mut request = LinkMessage::default();
        let name = LinkAttribute::IfName(interface.to_string());
        request.attributes.push(name);
        match self
            .netlink
            .get(RouteNetlinkMessage::GetLink(request))
            .await
        {
            Ok(RouteNetlinkMessage::NewLink(link)) => Ok(read_link(&link)),
            Err(error) if !is(&error, Errno::NODEV) => {
                Err(HostError::system("look up the interface", error))
            }
            Ok(_) | Err(_) => Err(HostError::NoInterface {
                interface: interface.clone(),
            }),
        }
    }

    async fn rules(&mut self, family: Family) -> Result<Vec<RuleMessage>, HostError> {
        let mut request = RuleMessage::default();
        request.header.family = address_family(family);
        let entries = self
            .netlink
            .dump(RouteNetlinkMessage::GetRule(request))
            .await;
        let entries = entries.map_err(|error| HostError::system("list the rules", error))?;
        let rules = entries.into_iter().filter_map(|entry| match entry {
            RouteNetlinkMessage::NewRule(rule) => Some(rule),
            _ => None,
        });
        Ok(rules.collect())
    }

    async fn routes(
        &mut self,
        family: Family,
        table: Table,
    ) -> Result<Vec<RouteMessage>, HostError> {
        let mut request = RouteMessage::default();
        request.header.address_family = address_family(family);
        request.attributes.push(RouteAttribute::Table(table.get()));
        let entries = match self
            .netlink
            .dump(RouteNetlinkMessage::GetRoute(request))
            .await
        {
            Ok(entries) => entries,
            // A table exists with its first route.
            Err(error) if is(&error, Errno::NOENT) => Vec::new(),
            Err(error) => return Err(HostError::system("list the routes", error)),
        };
        let routes = entries.into_iter().filter_map(|entry| match entry {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        });
        // Never trust a filter with what is going to be removed.
        Ok(routes
            .filter(|route| table_of(route) == table.get())
            .collect())
    }

    async fn addresses(&mut self, index: u32) -> Result<Vec<AddressMessage>, HostError> {
        let mut request = AddressMessage::default();
        request.header.index = index;
        let entries = match self
            .netlink
            .dump(RouteNetlinkMessage::GetAddress(request))
            .await
        {
            Ok(entries) => entries,
            // The interface went after it was looked up: the holder of its last descriptor closed it.
            Err(error) if is(&error, Errno::NODEV) => Vec::new(),
            Err(error) => return Err(HostError::system("list the addresses", error)),
        };
        let addresses = entries.into_iter().filter_map(|entry| match entry {
            RouteNetlinkMessage::NewAddress(address) => Some(address),
            _ => None,
        });
        Ok(addresses
            .filter(|address| address.header.index == index)
            .collect())
    }
}

fn read_link(message: &LinkMessage) -> Link {
    let mut link = Link {
        index: message.header.index,
        up: message.header.flags.contains(LinkFlags::Up),
        ..Link::default()
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu_bytes) => link.mtu_bytes = *mtu_bytes,
            LinkAttribute::AfSpecUnspec(families) => {
                link.makes_own_address = families.iter().any(makes_own_address);
                link.has_ipv6 = families.iter().any(is_ipv6_on);
            }
            _ => {}
        }
    }
    link
}

fn makes_own_address(family: &AfSpecUnspec) -> bool {
    let AfSpecUnspec::Inet6(attributes) = family else {
        return false;
    };
    attributes.iter().any(|attribute| {
        matches!(attribute, AfSpecInet6::AddrGenMode(mode) if *mode != In6AddrGenMode::None)
    })
}

fn has_ipv6() -> bool {
    std::fs::exists(IPV6_ADDRESSES).unwrap_or(false)
}

/// True if the interface has IPv6. Without its part of a link's answer it has none, as with an MTU below 1280. The kernel
/// is asked by netlink: a container may hide the switches below `/proc/sys`.
fn is_ipv6_on(family: &AfSpecUnspec) -> bool {
    let AfSpecUnspec::Inet6(attributes) = family else {
        return false;
    };
    attributes.iter().any(
        |attribute| matches!(attribute, AfSpecInet6::DevConf(switches) if switches.disable_ipv6 == 0),
    )
}

fn ipv6_of(link: Option<&Link>) -> Ipv6 {
    match link {
        _ if !has_ipv6() => Ipv6::Off,
        Some(link) if !link.has_ipv6 => Ipv6::OffOnInterface,
        Some(_) | None => Ipv6::On,
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// True for the kernel's errors about a rule, a route, an address or an interface that is not
/// there.
fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::SRCH, Errno::ADDRNOTAVAIL, Errno::NODEV];
    gone.into_iter().any(|errno| is(error, errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_interface_that_has_just_gone_has_no_addresses() {
        let mut network = Network::open().unwrap();
        let gone = i32::MAX.unsigned_abs();
        assert_eq!(network.addresses(gone).await.unwrap(), Vec::new());
        let loopback = network.link(&"lo".parse().unwrap()).await.unwrap();
        assert_ne!(network.addresses(loopback.index).await.unwrap(), Vec::new());
    }
}
