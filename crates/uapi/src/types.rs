use core::fmt;
use core::net::SocketAddr;
use core::num::{NonZeroU16, NonZeroU32};
use core::time::Duration;

/// A firewall mark that is set (zero means "off" and is the absence of one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FirewallMark(pub NonZeroU32);

/// A persistent keepalive interval that is set, 1 to 65535 seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeepaliveInterval(pub NonZeroU16);

impl KeepaliveInterval {
    /// The interval as a duration.
    pub fn duration(self) -> Duration {
        Duration::from_secs(u64::from(self.0.get()))
    }
}

/// The name of a network interface, as Linux allows it: 1 to 15 bytes, no `/`, `:`, white space,
/// not `.` or `..`. Culvert also refuses `%` (a pattern to the kernel, a scope to addresses), a
/// leading `-` (an option to every tool) and bytes that are not printable ASCII. The remaining
/// names are safe as file names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterfaceName(String);

impl InterfaceName {
    /// Most bytes of a name: the kernel's `IFNAMSIZ` less the terminating zero.
    pub const MAX_LEN: usize = 15;

    /// Takes `name` if it can name an interface.
    pub fn new(name: &str) -> Result<Self, InvalidInterfaceName> {
        if name.is_empty() {
            return Err(InvalidInterfaceName::Empty);
        }
        if name.len() > Self::MAX_LEN {
            return Err(InvalidInterfaceName::TooLong);
        }
        let allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':' | b'%');
        let reserved = matches!(name, "." | "..") || name.starts_with('-');
        if reserved || !name.bytes().all(allowed) {
            return Err(InvalidInterfaceName::Characters);
        }
        Ok(Self(name.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl core::str::FromStr for InterfaceName {
    type Err = InvalidInterfaceName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

/// The reason why a text cannot name an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInterfaceName {
    /// There is no text.
    #[error("an interface name cannot be empty")]
    Empty,
    /// More than [`InterfaceName::MAX_LEN`] bytes.
    #[error("an interface name has at most {} bytes", InterfaceName::MAX_LEN)]
    TooLong,
    /// A reserved name or character.
    #[error("an interface name is printable ASCII without '/', ':' and '%', and no leading '-'")]
    Characters,
}

/// The address at which a peer is reached: an address and port, and for IPv6 perhaps an interface
/// by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Address and port. A numeric scope (`%2`) is the scope id in here. IPv4-mapped IPv6
    /// addresses have become IPv4.
    pub address: SocketAddr,
    /// A scope given by name (`fe80::1%eth0`), still to be resolved to an index.
    pub interface: Option<InterfaceName>,
}

impl Endpoint {
    /// The socket address to send to, the scope's name turned into an index by `index_of`.
    ///
    /// # Errors
    /// [`UnknownInterface`] when `index_of` does not know the name.
    pub fn resolve(
        &self,
        index_of: impl FnOnce(&InterfaceName) -> Option<u32>,
    ) -> Result<SocketAddr, UnknownInterface> {
        let (SocketAddr::V6(mut address), Some(interface)) = (self.address, &self.interface) else {
            return Ok(self.address);
        };
        let index = index_of(interface).ok_or_else(|| UnknownInterface(interface.clone()))?;
        address.set_scope_id(index);
        Ok(SocketAddr::V6(address))
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            interface: None,
        }
    }
}

/// An endpoint is scoped to an interface that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an endpoint names the interface {0}, which does not exist")]
pub struct UnknownInterface(pub InterfaceName);
