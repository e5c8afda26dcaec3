//! The administrator's rules about names for all clients of an account: search domains, which
//! complete short names, and the DNS servers that resolve the names of a domain.

use crate::error::TargetError;
use crate::{DomainName, is_forwarded};
use culvert_base::quotable;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// Domains that short names are completed with: as many as the C library takes before glibc 2.26. Each
/// name that does not exist is asked for once more by each of them.
pub const MAX_SEARCH_DOMAINS: usize = 6;

/// Bytes of all search domains with a space between them: musl reads lines of `resolv.conf` of up to 254
/// bytes, of which `search ` takes 7, and passes over longer ones.
pub const MAX_SEARCH_LEN: usize = 247;

/// Domains with servers of their own. All of them are told to a client in one message, at most 13 kB, and
/// are looked through for each name that is no resource's.
pub const MAX_DNS_ZONES: usize = 32;

/// Servers of one domain: as many as are asked before whoever waits for the answer gives up.
pub const MAX_DNS_SERVERS: usize = 3;

/// A domain and all below it, or everything.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DnsZone {
    /// `.`: every name.
    Root,
    /// This one, and all names that end in it.
    Domain(DomainName),
}

impl DnsZone {
    /// The domain; none of the zone that holds every name.
    #[must_use]
    pub const fn domain(&self) -> Option<&DomainName> {
        match self {
            Self::Root => None,
            Self::Domain(domain) => Some(domain),
        }
    }
}

impl FromStr for DnsZone {
    type Err = DnsRuleError;

    /// Reads a domain in any case, with or without a dot at its end, or `.` alone.
    fn from_str(text: &str) -> Result<Self, DnsRuleError> {
        match text {
            "." => Ok(Self::Root),
            text => Ok(Self::Domain(text.parse()?)),
        }
    }
}

impl fmt::Display for DnsZone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => out.write_str("."),
            Self::Domain(domain) => domain.fmt(out),
        }
    }
}

impl fmt::Debug for DnsZone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// The address of a DNS server that clients can ask, on port 53.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DnsServer(IpAddr);

impl DnsServer {
    /// A server at an address.
    ///
    /// # Errors
    /// [`DnsRuleError::NotAServer`] for what means another machine on each one that asks, or none: the
    /// machine itself, its link, groups of machines.
    pub fn new(address: IpAddr) -> Result<Self, DnsRuleError> {
        let address = address.to_canonical();
        let why = match address {
            _ if address.is_loopback() => "it is the client itself",
            _ if address.is_unspecified() || address.is_multicast() => "it is no one machine",
            IpAddr::V4(Ipv4Addr::BROADCAST) => "it is no one machine",
            IpAddr::V4(address) if address.is_link_local() => "it is another one on each link",
            IpAddr::V6(address) if address.is_unicast_link_local() => {
                "it is another one on each link"
            }
            _ if !is_forwarded(address) => "no gateway forwards to it",
            IpAddr::V4(_) | IpAddr::V6(_) => return Ok(Self(address)),
        };
        Err(DnsRuleError::NotAServer { address, why })
    }

    /// Its address.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.0
    }
}

impl FromStr for DnsServer {
    type Err = DnsRuleError;

    fn from_str(text: &str) -> Result<Self, DnsRuleError> {
        let address: Result<IpAddr, _> = text.parse();
        let shown = || quotable(text).replace(char::is_control, "?");
        Self::new(address.map_err(|_| DnsRuleError::Server(shown()))?)
    }
}

impl fmt::Display for DnsServer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl fmt::Debug for DnsServer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// The rules about names of a whole account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsRules {
    search: Vec<DomainName>,
    zones: BTreeMap<DnsZone, Vec<DnsServer>>,
}

impl DnsRules {
    /// Short names are completed with the domains in `search`, in this order; names in one of `zones`, but
    /// those of resources, are asked of its servers, in this order, and of nobody else. The smallest zone
    /// that holds a name counts.
    ///
    /// # Errors
    /// [`DnsRuleError`] where there is too much of something, or something twice, or a zone has no server.
    pub fn new(
        search: Vec<DomainName>,
        zones: Vec<(DnsZone, Vec<DnsServer>)>,
    ) -> Result<Self, DnsRuleError> {
        check_search(&search)?;
        if zones.len() > MAX_DNS_ZONES {
            return Err(DnsRuleError::TooManyZones { count: zones.len() });
        }
        let mut known = BTreeMap::new();
        for (zone, servers) in zones {
            check_servers(&zone, &servers)?;
            if known.contains_key(&zone) {
                return Err(DnsRuleError::ZoneTwice(zone));
            }
            known.insert(zone, servers);
        }
        let zones = known;
        Ok(Self { search, zones })
    }

    /// The same, of what another version may have written: what exceeds a bound is left out, and a domain
    /// that is there twice counts once. A zone without servers stays: its names are not to be asked of anybody else.
    #[must_use]
    pub fn told(
        search: impl Iterator<Item = DomainName>,
        zones: impl Iterator<Item = (DnsZone, Vec<DnsServer>)>,
    ) -> Self {
        let mut rules = Self::default();
        let mut len = 0;
        for domain in search {
            // With the space behind it, which the last one does not have.
            let longer = len + domain.as_str().len() + 1;
            let has_room = rules.search.len() < MAX_SEARCH_DOMAINS && longer <= MAX_SEARCH_LEN + 1;
            if has_room && !rules.search.contains(&domain) {
                len = longer;
                rules.search.push(domain);
            }
        }
        for (zone, mut servers) in zones.take(MAX_DNS_ZONES) {
            servers.truncate(MAX_DNS_SERVERS);
            rules.zones.entry(zone).or_insert(servers);
        }
        rules
    }

    /// The domains that complete short names, in this order.
    #[must_use]
    pub fn search(&self) -> &[DomainName] {
        &self.search
    }

    /// The servers that resolve the names of each zone.
    #[must_use]
    pub const fn zones(&self) -> &BTreeMap<DnsZone, Vec<DnsServer>> {
        &self.zones
    }
}

fn check_search(search: &[DomainName]) -> Result<(), DnsRuleError> {
    let count = search.len();
    if count > MAX_SEARCH_DOMAINS {
        return Err(DnsRuleError::TooManySearch { count });
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = search.iter().find(|domain| !seen.insert(*domain)) {
        return Err(DnsRuleError::SearchTwice(twice.clone()));
    }
    let len: usize = search.iter().map(|domain| domain.as_str().len() + 1).sum();
    match len <= MAX_SEARCH_LEN + 1 {
        true => Ok(()),
        false => Err(DnsRuleError::SearchLength { len: len - 1 }),
    }
}

fn check_servers(zone: &DnsZone, servers: &[DnsServer]) -> Result<(), DnsRuleError> {
    let zone = zone.clone();
    let count = servers.len();
    if count == 0 {
        return Err(DnsRuleError::NoServers(zone));
    }
    if count > MAX_DNS_SERVERS {
        return Err(DnsRuleError::TooManyServers { zone, count });
    }
    let mut seen = BTreeSet::new();
    match servers.iter().find(|server| !seen.insert(**server)) {
        Some(server) => Err(DnsRuleError::ServerTwice {
            zone,
            server: server.address(),
        }),
        None => Ok(()),
    }
}

/// The fault of rules about names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DnsRuleError {
    /// Not the name of a domain.
    #[error(transparent)]
    Name(#[from] TargetError),
    /// Not the address of a server.
    #[error("`{0}` is no address of a DNS server: write 10.0.0.53 or fd00::53, without a port")]
    Server(String),
    /// An address that no server has for all clients.
    #[error("{address} can't be a DNS server of all clients: {why}")]
    NotAServer {
        /// The address.
        address: IpAddr,
        /// The reason.
        why: &'static str,
    },
    /// More search domains than a resolver takes.
    #[error("{count} search domains: at most {max}", max = crate::MAX_SEARCH_DOMAINS)]
    TooManySearch {
        /// The number of search domains.
        count: usize,
    },
    /// Longer search domains than a resolver takes.
    #[error(
        "the search domains have {len} characters with the spaces between them: at most {max}",
        max = crate::MAX_SEARCH_LEN
    )]
    SearchLength {
        /// Their bytes, with the spaces between them.
        len: usize,
    },
    /// A search domain that is named twice.
    #[error("the search domain {0} is there twice")]
    SearchTwice(DomainName),
    /// More domains with servers than there may be.
    #[error("{count} domains with servers: at most {max}", max = crate::MAX_DNS_ZONES)]
    TooManyZones {
        /// The number of domains.
        count: usize,
    },
    /// A domain that is named twice.
    #[error("the domain {0} is there twice: name all its servers at once")]
    ZoneTwice(DnsZone),
    /// A domain without servers.
    #[error("the domain {0} needs a server that is asked for its names")]
    NoServers(DnsZone),
    /// More servers than are ever asked.
    #[error("{count} servers of the domain {zone}: at most {max}", max = crate::MAX_DNS_SERVERS)]
    TooManyServers {
        /// Their domain.
        zone: DnsZone,
        /// The number of servers.
        count: usize,
    },
    /// A server that is named twice.
    #[error("the server {server} of the domain {zone} is there twice")]
    ServerTwice {
        /// Its domain.
        zone: DnsZone,
        /// The server.
        server: IpAddr,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(texts: &[&str]) -> Vec<DomainName> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn zone(text: &str, servers: &[&str]) -> (DnsZone, Vec<DnsServer>) {
        let servers = servers.iter().map(|text| text.parse().unwrap());
        (text.parse().unwrap(), servers.collect())
    }

    #[test]
    fn rules_are_kept_as_they_were_given_and_zones_in_one_form() {
        let zones = vec![
            zone("Corp.Example.", &["10.0.0.53", "fd00::53"]),
            zone(".", &["192.0.2.53"]),
            zone("10.in-addr.arpa", &["10.0.0.53"]),
        ];
        let rules = DnsRules::new(domains(&["b.example", "a.example"]), zones).unwrap();
        assert_eq!(rules.search(), domains(&["b.example", "a.example"]));
        let shown: Vec<String> = rules.zones().keys().map(ToString::to_string).collect();
        assert_eq!(shown, [".", "10.in-addr.arpa", "corp.example"]);
    }

    #[test]
    fn a_server_is_one_machine_that_every_client_means_alike() {
        for text in [
            "127.0.0.53",
            "::1",
            "0.0.0.0",
            "::",
            "224.0.0.251",
            "ff02::fb",
            "255.255.255.255",
            "169.254.1.1",
            "fe80::1",
            "::ffff:127.0.0.1",
            // Addresses to which no gateway forwards: DNS and metadata of clouds, and addresses in
            // another spelling.
            "168.63.129.16",
            "100.100.100.200",
            "fd00:ec2::253",
            "fec0::53",
            "64:ff9b::7f00:35",
            "64:ff9b::a83f:8110",
            "2002:7f00:1::53",
            "::ffff:0:168.63.129.16",
            "::ffff:168.63.129.16",
        ] {
            let error = text.parse::<DnsServer>().unwrap_err();
            assert!(
                matches!(error, DnsRuleError::NotAServer { .. }),
                "{text}: {error}"
            );
        }
        for text in [
            "",
            "dns.example",
            "10.0.0.53:53",
            "[fd00::53]",
            "10.0.0",
            "10.0.0.256",
            "0x7f.1",
            "010.0.0.53",
            "2130706433",
            "fe80::53%eth0",
            "10.0.0.53/32",
        ] {
            let error = text.parse::<DnsServer>().unwrap_err();
            assert!(matches!(error, DnsRuleError::Server(_)), "{text}: {error}");
        }
        let mapped: DnsServer = "::ffff:10.0.0.53".parse().unwrap();
        assert_eq!(mapped.to_string(), "10.0.0.53");
    }

    #[test]
    fn of_what_another_version_wrote_all_is_kept_that_fits() {
        let told = |search: &[String]| {
            let search = search.iter().map(|text| text.parse().unwrap());
            let rules = DnsRules::told(search, std::iter::empty());
            let remaining = rules.search().iter().map(ToString::to_string);
            remaining.collect::<Vec<_>>()
        };
        let seven: Vec<String> = (0..7).map(|it| format!("d{it}.example")).collect();
        assert_eq!(told(&seven), seven[..6]);
        let twice = [&seven[..2], &seven[..2]].concat();
        assert_eq!(told(&twice), seven[..2]);

        // 199 and 47 bytes with a space between them are 247, the longest line; 48 are one too many.
        let of_len = |len: usize| {
            let mut text = "a.".repeat(len / 2);
            text.truncate(len - 1);
            text + "z"
        };
        let (long, fits, exceeds) = (of_len(199), of_len(47), of_len(48));
        assert_eq!(long.len() + 1 + fits.len(), MAX_SEARCH_LEN);
        assert_eq!(told(&[long.clone(), fits.clone()]), [&*long, &*fits]);
        // One that has no room takes none from those behind it.
        let all = [long.clone(), exceeds, fits.clone()];
        assert_eq!(told(&all), [&*long, &*fits]);

        let zones = (0..40).map(|it| zone(&format!("z{it:02}.example"), &["10.0.0.53"; 5]));
        let again = zone("z00.example", &["192.0.2.53"]);
        let rules = DnsRules::told(std::iter::empty(), [again].into_iter().chain(zones));
        assert_eq!(rules.zones().len(), MAX_DNS_ZONES - 1, "one stands twice");
        let first: Vec<_> = rules.zones().values().map(Vec::len).collect();
        assert_eq!(first[..2], [1, MAX_DNS_SERVERS]);
    }

    #[test]
    fn too_much_and_twice_are_refused() {
        let none = Vec::new;
        let seven: Vec<String> = (0..7).map(|it| format!("d{it}.example")).collect();
        let seven: Vec<&str> = seven.iter().map(String::as_str).collect();
        let long = format!("{}.example", ["a"; 60].join("."));
        let longer = format!("b.{long}");
        for (search, zones, holds) in [
            (domains(&seven), none(), "at most 6"),
            (domains(&["a.b", "A.b."]), none(), "a.b"),
            (domains(&[&long, &longer]), none(), "247"),
            (Vec::new(), vec![zone("a.b", &[])], "a server"),
            (
                Vec::new(),
                vec![zone(
                    "a.b",
                    &["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"],
                )],
                "at most 3",
            ),
            (
                Vec::new(),
                vec![zone("a.b", &["10.0.0.1", "10.0.0.1"])],
                "10.0.0.1",
            ),
            (
                Vec::new(),
                vec![zone("a.b", &["10.0.0.1"]), zone("a.b.", &["10.0.0.2"])],
                "a.b",
            ),
            (
                Vec::new(),
                (0..33)
                    .map(|it| zone(&format!("d{it}.example"), &["10.0.0.1"]))
                    .collect(),
                "at most 32",
            ),
        ] {
            let told = DnsRules::told(search.clone().into_iter(), zones.clone().into_iter());
            let error = DnsRules::new(search, zones).unwrap_err().to_string();
            assert!(error.contains(holds), "{error}");
            assert!(told.search().len() <= MAX_SEARCH_DOMAINS);
            assert!(told.zones().len() <= MAX_DNS_ZONES);
        }
    }
}
