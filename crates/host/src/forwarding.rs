//! Forwarding of packets between interfaces in the kernel, which a gateway needs.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use crate::sysctl::forwarding_switch;
use crate::{Family, HostError};

/// Flags of `/proc/net/ipv6_route`: a default route, learned from a router's advertisement
/// (`RTF_DEFAULT`, `RTF_ADDRCONF` of `linux/ipv6_route.h`).
const RTF_DEFAULT: u32 = 0x0001_0000;
const RTF_ADDRCONF: u32 = 0x0004_0000;

/// The routes of IPv6. Not `/proc/net`, which is about the namespace of the process' first thread.
const IPV6_ROUTES: &str = "/proc/thread-self/net/ipv6_route";

/// `accept_ra` of an interface that listens to routers as long as it does not forward.
const ACCEPT_UNLESS_FORWARDING: &str = "1";

/// The kernel's forwarding of packets of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// They are.
    On,
    /// They are not. The kernel may have no such family.
    Off,
    /// The kernel's switches are hidden from this process, as in some containers.
    Hidden,
}

/// Reads if packets of a family are forwarded.
///
/// # Errors
/// The system's, from reading `/proc/sys`.
pub fn forwarding(family: Family) -> Result<Forwarding, HostError> {
    let path = path(family);
    match std::fs::read_to_string(&path) {
        Ok(value) if value.trim() == "0" => Ok(Forwarding::Off),
        Ok(_) => Ok(Forwarding::On),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(match has(family) {
            true => Forwarding::Hidden,
            false => Forwarding::Off,
        }),
        Err(error) => Err(HostError::file("read", &path, error)),
    }
}

/// True if the kernel has the family. Without IPv4 it has no networks at all.
fn has(family: Family) -> bool {
    match family {
        Family::V4 => true,
        Family::V6 => std::fs::exists(IPV6_ROUTES).unwrap_or(false),
    }
}

/// Requires that packets of a family are forwarded, as far as can be seen.
///
/// # Errors
/// [`HostError::ForwardingOff`] with the command that turns it on.
pub fn require_forwarding(family: Family) -> Result<(), HostError> {
    match forwarding(family)? {
        Forwarding::On | Forwarding::Hidden => Ok(()),
        Forwarding::Off => Err(HostError::ForwardingOff { family }),
    }
}

/// Turns forwarding on, for those who asked for it (`--enable-forwarding`); returns whether it was
/// off. Nothing turns it off again: others on this host may have come to need it.
///
/// # Errors
/// [`HostError::AdvertisementsLost`] where the host would lose its IPv6 default route by it: it is
/// left off then. [`HostError::ForwardingReadOnly`] where `/proc/sys` cannot be written.
pub fn enable_forwarding(family: Family) -> Result<bool, HostError> {
    match forwarding(family)? {
        // Nobody can tell whether it is off, and it can't be turned on either.
        Forwarding::On | Forwarding::Hidden => return Ok(false),
        Forwarding::Off => {}
    }
    if family == Family::V6
        && let Some(interface) = interface_that_would_lose_its_route()?
    {
        return Err(HostError::AdvertisementsLost { interface });
    }
    let path = path(family);
    match std::fs::write(&path, "1\n") {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::NotFound => Err(HostError::ForwardingReadOnly { family }),
            _ => Err(HostError::file("write", &path, error)),
        },
    }
}

fn path(family: Family) -> PathBuf {
    PathBuf::from(format!(
        "/proc/sys/{}",
        forwarding_switch(family).replace('.', "/")
    ))
}

/// An interface whose default route comes from router advertisements that the kernel stops to heed
/// when it forwards.
fn interface_that_would_lose_its_route() -> Result<Option<String>, HostError> {
    let path = PathBuf::from(IPV6_ROUTES);
    let failed = |error| HostError::file("read", &path, error);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    for line in BufReader::new(file).lines() {
        let line = line.map_err(failed)?;
        let Some(interface) = advertised_default(&line) else {
            continue;
        };
        let accept_ra = format!("/proc/sys/net/ipv6/conf/{interface}/accept_ra");
        // An interface that is gone by now has no route to lose.
        let value = std::fs::read_to_string(accept_ra).unwrap_or_default();
        if value.trim() == ACCEPT_UNLESS_FORWARDING {
            return Ok(Some(interface.to_owned()));
        }
    }
    Ok(None)
}

/// The interface of a line of `ipv6_route`, if it is a default route learned from a router. The
/// fields: destination, its length, source, its length, next hop, metric, references, use, flags,
/// interface; numbers in hexadecimal.
fn advertised_default(line: &str) -> Option<&str> {
    let mut fields = line.split_whitespace();
    let prefix_length = fields.nth(1)?;
    let flags = u32::from_str_radix(fields.nth(6)?, 16).ok()?;
    let interface = fields.next()?;
    let wanted = RTF_DEFAULT | RTF_ADDRCONF;
    (prefix_length == "00" && flags & wanted == wanted).then_some(interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: &str = "00000000000000000000000000000000";
    const ROUTER: &str = "fe800000000000000000000000000001";

    #[test]
    fn only_a_default_route_from_a_router_is_one_that_can_be_lost() {
        let line = |length: &str, flags: &str| {
            format!(
                "{ZERO} {length} {ZERO} 00 {ROUTER} 00000400 00000001 00000000 {flags}     eth0"
            )
        };
        assert_eq!(advertised_default(&line("00", "00450003")), Some("eth0"));
        // Static; a prefix; the kernel's own entry for what it has no route to.
        assert_eq!(advertised_default(&line("00", "00000003")), None);
        assert_eq!(advertised_default(&line("40", "00450003")), None);
        assert_eq!(advertised_default(&line("00", "00200200")), None);
        assert_eq!(advertised_default("short line"), None);
    }
}
