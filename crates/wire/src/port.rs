//! A port that somebody asks about: `--port` of `culvert ping` and `culvert admin explain`, and the console's Explain.

use crate::model::{self, Filter};
use crate::words;
use culvert_policy::Service;
use std::fmt;
use std::str::FromStr;

/// A port of TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Of TCP.
    Tcp(u16),
    /// Of UDP.
    Udp(u16),
}

impl FromStr for Port {
    type Err = String;

    /// Reads `tcp:80`, `udp:53`, or `80`, which is TCP's.
    fn from_str(text: &str) -> Result<Self, String> {
        let (protocol, port) = text.split_once(':').unwrap_or(("tcp", text));
        let is_plain = port.bytes().all(|digit| digit.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_plain);
        match (protocol, port) {
            ("tcp", Some(port)) => Ok(Self::Tcp(port)),
            ("udp", Some(port)) => Ok(Self::Udp(port)),
            _ => Err("it must be such as tcp:443, udp:53, or 443, which is TCP".to_owned()),
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(port) => write!(out, "tcp:{port}"),
            Self::Udp(port) => write!(out, "udp:{port}"),
        }
    }
}

impl Port {
    /// True if these filters let it through; filters that can't be read let nothing through.
    #[must_use]
    pub fn passes(self, filters: &[Filter]) -> bool {
        let service = match self {
            Self::Tcp(port) => Service::Tcp(port),
            Self::Udp(port) => Service::Udp(port),
        };
        model::filters(filters).is_ok_and(|filters| filters.allows(service))
    }

    /// The same in a sentence about a resource.
    #[must_use]
    pub fn in_words(self, resource: &str, filters: &[Filter]) -> String {
        let allow = words::filters(filters);
        match self.passes(filters) {
            true => format!("the filters of {resource} let {self} through"),
            false => format!("the filters of {resource} forbid {self}: they allow {allow}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_with_and_without_a_protocol() {
        for (text, port) in [
            ("80", Port::Tcp(80)),
            ("tcp:80", Port::Tcp(80)),
            ("udp:53", Port::Udp(53)),
        ] {
            assert_eq!(text.parse(), Ok(port), "{text}");
        }
        for text in [
            "", "tcp", "tcp:", "icmp", "sctp:80", "70000", "+80", "80-90",
        ] {
            assert!(text.parse::<Port>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn filters_say_which_ports_pass() {
        let allowed = |text| match words::parse_allowed(text) {
            Ok(words::Allowed::Filter(filter)) => filter,
            other => panic!("{text}: {other:?}"),
        };
        let filters = [allowed("tcp:80,8000-8100"), allowed("icmp")];
        assert!(Port::Tcp(8050).passes(&filters));
        assert!(!Port::Tcp(81).passes(&filters));
        assert!(!Port::Udp(80).passes(&filters));
        assert!(Port::Udp(80).passes(&[allowed("any")]));
        assert_eq!(
            Port::Tcp(81).in_words("web", &filters),
            "the filters of web forbid tcp:81: they allow tcp:80,8000-8100 icmp"
        );
        assert_eq!(
            Port::Tcp(81).in_words("web", &[]),
            "the filters of web forbid tcp:81: they allow none"
        );
    }
}
