//! The address that a request comes from.

use axum::http::HeaderMap;
use culvert_policy::Prefix;
use std::net::{IpAddr, SocketAddr};

/// The address that a request comes from: the other end of the connection, or what a trusted proxy
/// says of it. Every request has one as an extension. IPv4 addresses are never mapped to IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PublicAddress(pub IpAddr);

/// A trusted proxy did not say where the request came from, so its [`PublicAddress`] is a proxy's.
/// Checks that depend on the client's address must not take it for that. It is an extension of such
/// requests.
#[derive(Clone, Copy, Debug)]
pub struct UnnamedClient;

/// The origin of a request, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The address.
    pub address: PublicAddress,
    /// The word of trusted proxies about it.
    pub word: ProxysWord,
}

/// The word of trusted proxies about a request's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxysWord {
    /// Nobody had to, or they did.
    Good,
    /// The request is a proxy's own, by all that it says.
    Missing,
    /// They said something that is no address.
    Unreadable,
}

/// The header in which proxies say where a request came from, each appending what it saw.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Entries of [`FORWARDED_FOR`] that are looked at: more proxies than anyone has in a row.
const MAX_HOPS: usize = 16;

impl Origin {
    /// Takes the word of trusted proxies alone: from the last hop back to the first that is not one
    /// of them. An untrusted hop's word about others may be its own invention.
    pub fn of(peer: IpAddr, headers: &HeaderMap, trusted: &[Prefix]) -> Self {
        let is_trusted = |address: IpAddr| trusted.iter().any(|prefix| prefix.contains(address));
        let mut address = peer.to_canonical();
        let mut word = match is_trusted(address) {
            true => ProxysWord::Missing,
            false => ProxysWord::Good,
        };
        let hops = headers
            .get_all(FORWARDED_FOR)
            .into_iter()
            .rev()
            .flat_map(|header| header.to_str().unwrap_or("?").rsplit(','));
        for (number, hop) in hops.enumerate() {
            if !is_trusted(address) {
                break;
            }
            match address_of(hop.trim()) {
                Some(before) if number < MAX_HOPS => {
                    address = before.to_canonical();
                    word = ProxysWord::Good;
                }
                // A trusted proxy that writes no address leaves the last that is known.
                _ => {
                    word = ProxysWord::Unreadable;
                    break;
                }
            }
        }
        Self {
            address: PublicAddress(address),
            word,
        }
    }
}

/// The address of a hop, as proxies write it: alone, in brackets, or with a port.
fn address_of(hop: &str) -> Option<IpAddr> {
    let in_brackets = || hop.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || hop.parse().ok().map(|socket: SocketAddr| socket.ip());
    hop.parse().ok().or_else(in_brackets).or_else(with_port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn public(peer: &str, forwarded: &[&str], trusted: &[&str]) -> String {
        origin(peer, forwarded, trusted).address.0.to_string()
    }

    fn origin(peer: &str, forwarded: &[&str], trusted: &[&str]) -> Origin {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, HeaderValue::from_str(value).unwrap());
        }
        let trusted: Vec<Prefix> = trusted.iter().map(|text| text.parse().unwrap()).collect();
        Origin::of(peer.parse().unwrap(), &headers, &trusted)
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        let header = &["203.0.113.7"][..];
        assert_eq!(public("198.51.100.1", header, &[]), "198.51.100.1");
        assert_eq!(
            public("198.51.100.1", header, &["10.0.0.0/8"]),
            "198.51.100.1"
        );
        assert_eq!(public("10.0.0.1", header, &["10.0.0.0/8"]), "203.0.113.7");
    }

    #[test]
    fn what_a_client_writes_in_front_of_the_proxys_word_is_ignored() {
        let trusted = &["10.0.0.0/8"][..];
        assert_eq!(
            public("10.0.0.1", &["1.1.1.1, 203.0.113.7"], trusted),
            "203.0.113.7"
        );
        assert_eq!(
            public("10.0.0.1", &["1.1.1.1, 203.0.113.7, 10.0.0.2"], trusted),
            "203.0.113.7"
        );
        assert_eq!(
            public("10.0.0.1", &["1.1.1.1", "203.0.113.7"], trusted),
            "203.0.113.7"
        );
    }

    #[test]
    fn what_is_no_address_ends_the_search() {
        let trusted = &["10.0.0.0/8"][..];
        assert_eq!(
            public("10.0.0.1", &["203.0.113.7, unknown"], trusted),
            "10.0.0.1"
        );
        assert_eq!(public("10.0.0.1", &[""], trusted), "10.0.0.1");
        assert_eq!(
            public("::ffff:10.0.0.1", &["::ffff:203.0.113.7"], trusted),
            "203.0.113.7"
        );
    }

    #[test]
    fn an_endless_list_is_not_read_to_its_end() {
        let hops = vec!["10.0.0.9"; 1000].join(",");
        let header = format!("203.0.113.7,{hops}");
        assert_eq!(public("10.0.0.1", &[&header], &["10.0.0.0/8"]), "10.0.0.9");
    }

    #[test]
    fn a_hop_has_its_address_alone_in_brackets_or_with_a_port() {
        let trusted = &["10.0.0.0/8"][..];
        for (hop, address) in [
            ("203.0.113.7", "203.0.113.7"),
            ("203.0.113.7:5678", "203.0.113.7"),
            ("2001:db8::7", "2001:db8::7"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("[2001:db8::7]:5678", "2001:db8::7"),
            ("[::ffff:203.0.113.7]:5678", "203.0.113.7"),
        ] {
            let origin = origin("10.0.0.1", &["1.1.1.1", hop], trusted);
            assert_eq!(origin.address.0.to_string(), address, "{hop}");
            assert_eq!(origin.word, ProxysWord::Good, "{hop}");
        }
    }

    #[test]
    fn a_proxy_that_does_not_say_readably_who_asks_is_not_taken_for_who_asks() {
        let trusted = &["10.0.0.0/8"][..];
        for hop in [
            "unknown",
            "",
            "203.0.113.7, ?",
            "203.0.113.7:",
            "203.0.113.7:99999",
            "[203.0.113.7]x",
            "203.0.113.7:5678,",
            "203.0.113.7 203.0.113.8",
            "203.0.113.7;203.0.113.8",
            "[2001:db8::7",
            "2001:db8::7]:443",
            "0x7f.1",
            "_hidden",
        ] {
            let origin = origin("10.0.0.1", &[hop], trusted);
            assert_eq!(origin.word, ProxysWord::Unreadable, "{hop}");
        }
        let endless = vec!["10.0.0.9"; MAX_HOPS + 1].join(",");
        let origin_of = |hops: &[&str]| origin("10.0.0.1", hops, trusted).word;
        assert_eq!(origin_of(&[&endless]), ProxysWord::Unreadable);
        assert_eq!(origin_of(&[]), ProxysWord::Missing);
        // The client's entries before the proxy's word do not count.
        assert_eq!(origin_of(&["unknown, 203.0.113.7"]), ProxysWord::Good);
        assert_eq!(origin("192.0.2.1", &["?"], trusted).word, ProxysWord::Good);
    }
}
