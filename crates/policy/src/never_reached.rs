//! Targets that are well written, and that nobody ever reaches, whatever is granted.

use crate::{NEVER_FORWARDED, NamePattern, Prefix, Target, is_forwarded};
use std::net::{IpAddr, Ipv4Addr};

/// The reason why nobody ever reaches a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NeverReached {
    /// No gateway forwards packets there.
    #[error(
        "no gateway forwards packets to {target}, whatever is granted: loopback, link-local, multicast, broadcast and \
         unspecified addresses, and metadata services of clouds{}",
        or_write(*.instead)
    )]
    NotForwarded {
        /// The target.
        target: Target,
        /// The same host in another form, to which packets are forwarded.
        instead: Option<Ipv4Addr>,
    },
    /// The tunnel has these addresses itself: machines have one half, names of resources the other.
    #[error(
        "{target} lies in {range}, which is the tunnel's own: give the host's address in its own network"
    )]
    InTunnel {
        /// The target.
        target: Target,
        /// The network inside the tunnel.
        range: Prefix,
    },
    /// Every resolver answers it with a loopback address (RFC 6761 §6.3).
    #[error(
        "{0} is the machine itself that looks it up, and no gateway forwards packets to itself: give the host's address, or \
         its name in the DNS of the site"
    )]
    Localhost(NamePattern),
    /// No such name exists anywhere (RFC 6761 §6.4).
    #[error("{0} never exists: names that end in `invalid` are reserved for examples of that")]
    Invalid(NamePattern),
}

impl NeverReached {
    /// The reason for this target; none where somebody may reach it. `tunnel` are the networks inside the tunnel.
    /// A network that holds other addresses besides is reached, in part.
    #[must_use]
    pub fn of(target: &Target, tunnel: &[Prefix]) -> Option<Self> {
        match target {
            Target::Name(pattern) => of_pattern(pattern),
            Target::Network(_) | Target::Address(_) => target
                .prefix()
                .and_then(|prefix| of_prefix(target, prefix, tunnel)),
        }
    }
}

fn of_pattern(pattern: &NamePattern) -> Option<NeverReached> {
    match pattern.as_str().rsplit('.').next()? {
        "localhost" => Some(NeverReached::Localhost(pattern.clone())),
        "invalid" => Some(NeverReached::Invalid(pattern.clone())),
        _ => None,
    }
}

fn of_prefix(target: &Target, prefix: Prefix, tunnel: &[Prefix]) -> Option<NeverReached> {
    let is_within =
        |range: &&Prefix| range.len() <= prefix.len() && range.contains(prefix.address());
    let is_host_refused = prefix.is_host() && !is_forwarded(prefix.address());
    if is_host_refused || NEVER_FORWARDED.iter().any(|range| is_within(&range)) {
        let instead = match prefix.address().to_canonical() {
            IpAddr::V4(address) if prefix.is_host() && prefix.address().is_ipv6() => {
                Some(address).filter(|address| is_forwarded((*address).into()))
            }
            _ => None,
        };
        let target = target.clone();
        return Some(NeverReached::NotForwarded { target, instead });
    }
    let range = *tunnel.iter().find(is_within)?;
    let target = target.clone();
    Some(NeverReached::InTunnel { target, range })
}

fn or_write(address: Option<Ipv4Addr>) -> String {
    address.map_or_else(String::new, |address| format!("; write {address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> Option<String> {
        let target = match text.parse() {
            Ok(prefix) => Target::Network(prefix),
            Err(_) => match text.parse() {
                Ok(address) => Target::Address(address),
                Err(_) => Target::Name(text.parse().unwrap()),
            },
        };
        let tunnel = ["100.64.0.0/11", "100.96.0.0/11", "fd00:2021:1111::/107"];
        let tunnel = tunnel.map(|range| range.parse().unwrap());
        NeverReached::of(&target, &tunnel).map(|reason| reason.to_string())
    }

    #[test]
    fn a_target_that_nobody_reaches_is_told_with_the_reason() {
        for (text, says) in [
            ("127.0.0.1", "no gateway forwards"),
            ("0.0.0.0", "no gateway forwards"),
            ("224.0.0.1", "no gateway forwards"),
            ("255.255.255.255", "no gateway forwards"),
            ("169.254.169.254", "metadata services"),
            ("::1", "no gateway forwards"),
            ("::ffff:10.0.0.1", "write 10.0.0.1"),
            ("100.64.0.5", "100.64.0.0/11, which is the tunnel's own"),
            ("100.96.0.0/16", "100.96.0.0/11, which is the tunnel's own"),
            ("fd00:2021:1111::7", "the tunnel's own"),
            ("localhost", "the machine itself"),
            ("db.localhost", "the machine itself"),
            ("*.localhost", "the machine itself"),
            ("LOCALHOST.", "the machine itself"),
            ("db.invalid", "never exists"),
        ] {
            let reason = reason(text).unwrap_or_default();
            assert!(reason.contains(says), "{text}: {reason}");
        }
    }

    #[test]
    fn a_target_that_somebody_may_reach_is_none() {
        for text in [
            "10.0.0.1",
            "0.0.0.0/0",
            "100.0.0.0/8",
            "100.128.0.1",
            "localhost.corp.example",
            "notlocalhost",
            "*.corp.example",
        ] {
            assert_eq!(reason(text), None, "{text}");
        }
    }
}
