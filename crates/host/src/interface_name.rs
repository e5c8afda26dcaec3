//! Names of network interfaces.

use std::fmt;
use std::os::fd::OwnedFd;
use std::str::FromStr;

/// The longest name in bytes: the kernel's `IFNAMSIZ` without the terminating zero.
const MAX_NAME_BYTES: usize = 15;

/// The name of a network interface: at most 15 of letters, digits, `_`, `-` and `.`.
///
/// The kernel takes more, but these need no quoting in a firewall ruleset, a path or a shell.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName(String);

/// The text cannot be the name of an interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no name for an interface: use at most 15 of letters, digits, `_`, `-`, `.`")]
pub struct InvalidInterfaceName {
    /// The name as given.
    pub name: String,
}

impl InterfaceName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The kernel's number of the interface; nothing where there is none of that name.
    #[must_use]
    pub fn index(&self) -> Option<u32> {
        rustix::net::netdevice::name_to_index(any_socket()?, self.as_str()).ok()
    }

    /// The kernel's number of the interface of that name, if there is one.
    pub(crate) fn index_of(name: &str) -> Option<u32> {
        name.parse::<Self>().ok()?.index()
    }

    /// The interface that a zone of an IPv6 address means (RFC 4007, section 11): its name or its number. Nothing where
    /// there is no such interface.
    #[must_use]
    pub fn of_zone(zone: &str) -> Option<Self> {
        let named = zone.parse::<Self>().ok();
        if let Some(name) = named.filter(|name| name.index().is_some()) {
            return Some(name);
        }
        let index = zone.parse().ok()?;
        let name = rustix::net::netdevice::index_to_name(any_socket()?, index).ok()?;
        name.parse().ok()
    }
}

/// A socket to ask the kernel about interfaces by.
fn any_socket() -> Option<OwnedFd> {
    let (family, kind) = (
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
    );
    rustix::net::socket(family, kind, None).ok()
}

impl FromStr for InterfaceName {
    type Err = InvalidInterfaceName;

    fn from_str(name: &str) -> Result<Self, InvalidInterfaceName> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let valid = !name.is_empty()
            && name.len() <= MAX_NAME_BYTES
            && name.bytes().all(plain)
            // `all` and `default` stand for every interface in /proc/sys.
            && !["." , "..", "all", "default"].contains(&name)
            // An argument of a program must not look like an option.
            && !name.starts_with('-');
        if valid {
            Ok(Self(name.to_owned()))
        } else {
            Err(InvalidInterfaceName {
                name: name.to_owned(),
            })
        }
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_need_quoting_somewhere_are_refused() {
        for name in ["culvert0", "eth0.100", "br-lan", "_", "123456789012345"] {
            assert!(name.parse::<InterfaceName>().is_ok(), "{name}");
        }
        for name in [
            "", ".", "..", "all", "-x", "a/b", "a b", "a\"", "a*", "tun%d", "ä",
        ] {
            assert!(name.parse::<InterfaceName>().is_err(), "{name}");
        }
        assert!("1234567890123456".parse::<InterfaceName>().is_err());
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_plain_text(name in "\\PC{0,20}|[a-z.-]{0,17}") {
            if let Ok(name) = name.parse::<InterfaceName>() {
                let special = name.as_str().contains(['"', '/', ' ', '*', '\n', '{', ';']);
                prop_assert!(!special);
                prop_assert!(name.as_str().len() <= MAX_NAME_BYTES);
            }
        }
    }
}
