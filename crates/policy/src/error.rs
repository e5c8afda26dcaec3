//! The errors of this crate. All of them are about configuration. Refused packets have verdicts
//! instead ([`crate::gate::DropReason`]), and a refused subject has a decision
//! ([`crate::Decision`]).

use crate::{Prefix, PrefixError};
use culvert_ids::ResourceId;
use std::net::IpAddr;

/// An error in a rule about applications.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplicationError {
    /// Not a name of an application.
    #[error(
        "`{0}` is no name of an application: write lower-case letters, digits and `_`, a letter first, \
         at most {max}",
        max = crate::MAX_APPLICATION_NAME_CHARS
    )]
    Name(String),
    /// More names than a rule may have.
    #[error("{count} applications in one rule: at most {max}", max = crate::MAX_APPLICATIONS)]
    TooMany {
        /// Their number.
        count: usize,
    },
    /// A form of rule that this version does not know.
    #[error("its rule about applications needs a newer version of culvert: update this machine")]
    Unknown,
}

/// An error in the ranges that names of a resource may lead into.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WithinError {
    /// Not a range.
    #[error(transparent)]
    Range(#[from] PrefixError),
    /// Of a resource that is addresses.
    #[error("only names lead to addresses: a network or an address has no `within`")]
    NotNames,
    /// A list without a range.
    #[error("name a network that the addresses may be in, or leave `within` out")]
    Empty,
    /// More ranges than one resource may have.
    #[error("{count} networks: at most {max}", max = crate::MAX_WITHIN)]
    TooMany {
        /// Their number.
        count: usize,
    },
    /// An address that no packet is forwarded to, whatever is granted.
    #[error("no gateway forwards to {0}: it is its own, its link's, or a cloud's metadata service")]
    NeverForwarded(Prefix),
}

/// An error in the target or the name of a resource, or in a set of resources.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Of a kind that this version does not know.
    #[error("resources of the kind `{0}` need a newer version of culvert: update this machine")]
    Kind(String),
    /// No address range.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// An empty name, or one with an empty label.
    #[error("a name has labels between its dots, as in db.corp.example")]
    EmptyLabel,
    /// Longer than RFC 1035 §2.3.4 allows.
    #[error(
        "a name has at most {} bytes, and a label of it 63",
        crate::MAX_DOMAIN_NAME_LEN
    )]
    NameLength,
    /// A port or a URL where an address alone may be.
    #[error(
        "`{0}` is more than an address: write the address alone; ports go into `allow`, as in allow = \"tcp:80\""
    )]
    PortOrUrl(String),
    /// A character that no host name has.
    #[error(
        "`{0}` in a name: letters, digits, `-` and `_` may be in one; write international names in their form with `xn--`"
    )]
    NameCharacter(char),
    /// Neither a name nor an address.
    #[error(
        "`{0}` is no address, and no name since its last label is a number: write all four numbers of an IPv4 address, each \
         from 0 to 255"
    )]
    Number(String),
    /// From one address to another, which is no prefix.
    #[error(
        "{first} to {last} is no address range: write {networks}, each as a resource of its own"
    )]
    Span {
        /// The first address.
        first: IpAddr,
        /// The last address.
        last: IpAddr,
        /// The prefixes that hold the same addresses.
        networks: String,
    },
    /// The same in the wrong order.
    #[error(
        "{first} to {last} ends before it begins, and is no address range: write one as 10.0.0.0/8 or fd00::/64"
    )]
    ReversedSpan {
        /// The first address.
        first: IpAddr,
        /// The last address.
        last: IpAddr,
    },
    /// A label that begins or ends with a hyphen (RFC 952).
    #[error("a label of a name neither begins nor ends with `-`")]
    Hyphen,
    /// A wildcard that is not a label of its own.
    #[error(
        "a wildcard stands for whole labels: `*.corp.example` or `**.corp.example`, not `db*.corp.example`"
    )]
    PartialWildcard,
    /// More wildcards than a pattern may have.
    #[error(
        "a pattern has at most {} wildcards, one of them `**`",
        crate::MAX_WILDCARDS
    )]
    Wildcards,
    /// Nothing but wildcards.
    #[error(
        "a pattern needs a label besides its wildcards: one that holds every name would hold the portal's too"
    )]
    OnlyWildcards,
    /// A display name that is empty, too long or has control characters.
    #[error(
        "a resource's name has 1 to {} characters, none of them control characters",
        crate::MAX_RESOURCE_NAME_CHARS
    )]
    ResourceName,
    /// More resources than one set may have.
    #[error("more than {} resources", crate::MAX_RESOURCES)]
    TooManyResources,
    /// Two resources with one id.
    #[error("{0} is there twice")]
    Duplicate(ResourceId),
}

/// An error in filters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// Neither a port nor a range of ports.
    #[error("`{0}` is no port and no range of ports: write 443 or 8000-8100")]
    Ports(String),
    /// A range that ends before it begins.
    #[error("ports {first}-{last} end before they begin: write {last}-{first}")]
    Reversed {
        /// The first port.
        first: u16,
        /// The last port.
        last: u16,
    },
    /// Port 0 alone, to which no connection is made (RFC 6335 §6).
    #[error("port 0 is no port that programs listen on: ports are 1 to 65535")]
    PortZero,
    /// More ranges than filters may have.
    #[error(
        "more than {} ranges of ports for one protocol: join some, or make two resources",
        crate::MAX_PORT_RANGES
    )]
    TooManyRanges,
}

/// An error in conditions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// No zone of this name.
    #[error("`{0}` is no time zone: write one as Europe/Berlin or UTC")]
    Zone(String),
    /// No weekday.
    #[error("`{0}` is no day of the week: write mon, tue, wed, thu, fri, sat or sun")]
    Weekday(String),
    /// No time of day.
    #[error("`{0}` is no time of day: write 09:30, at most 23:59, or 24:00 as an end")]
    TimeOfDay(String),
    /// 24:00 as a beginning.
    #[error("a window cannot begin at 24:00: write 00:00 and the next day")]
    BeginsAtMidnight,
    /// A window without any time in it, or one that nobody can tell from a whole day.
    #[error("a window from {0} until {0} is empty: write 00:00 until 24:00 for whole days")]
    EmptyWindow(String),
    /// A window of no day.
    #[error("a window needs at least one day of the week")]
    NoDays,
    /// An entry that is none of its kind, in the words of the kind.
    #[error("{0}")]
    Entry(String),
    /// A list that is too long.
    #[error("a condition of this kind has at most {max} entries, not {count}")]
    TooMany {
        /// Entries there are.
        count: usize,
        /// Entries there may be.
        max: usize,
    },
    /// A list without entries, which could never hold.
    #[error("a condition without entries never holds: leave it out, or disable the policy")]
    Empty,
}

/// An error in grants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// More grants than one client may have.
    #[error(
        "more than {} grants for one client",
        crate::gate::MAX_GRANTS_PER_CLIENT
    )]
    TooManyGrants,
    /// More names than one grant may have.
    #[error("more than {} names in one grant", crate::gate::MAX_NAMES_PER_GRANT)]
    TooManyNames,
    /// More clients than a table may have.
    #[error("more than {} clients", crate::gate::MAX_CLIENTS)]
    TooManyClients,
    /// More addresses than a client may have.
    #[error(
        "more than {} addresses of one client",
        crate::gate::MAX_ADDRESSES_PER_CLIENT
    )]
    TooManyAddresses,
    /// IPv4 for IPv6, or the reverse.
    #[error("{visible} and {resolved} are of two families: names are translated within one")]
    Families {
        /// The address that the client sends to.
        visible: IpAddr,
        /// The address that the name stands for.
        resolved: IpAddr,
    },
    /// An address that no packet is forwarded to: this host itself, a link, a group of hosts.
    #[error("packets are not forwarded to {0}")]
    NotForwarded(IpAddr),
    /// One visible address for two resolved ones.
    #[error("{0} stands for two addresses")]
    Ambiguous(IpAddr),
    /// A tunnel address that another client has.
    #[error("{0} belongs to another client")]
    AddressTaken(IpAddr),
}
