//! Where a request comes from.

use axum::http::HeaderMap;
use culvert_policy::Prefix;
use std::net::IpAddr;

/// The address that a request comes from: the other end of the connection, or what a trusted proxy
/// says of it. Every request has one as an extension. IPv4 addresses are never mapped to IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PublicAddress(pub IpAddr);

/// The header in which proxies say where a request came from, each appending what it saw.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Entries of [`FORWARDED_FOR`] that are looked at: more proxies than anyone has in a row.
const MAX_HOPS: usize = 16;

impl PublicAddress {
    /// Takes the word of trusted proxies alone: from the last hop back to the first that is not one
    /// of them. What that one says of others is its own invention.
    pub(crate) fn of(peer: IpAddr, headers: &HeaderMap, trusted: &[Prefix]) -> Self {
        let is_trusted = |address: IpAddr| trusted.iter().any(|prefix| prefix.contains(address));
        let mut address = peer.to_canonical();
        let hops = headers
            .get_all(FORWARDED_FOR)
            .into_iter()
            .rev()
            .flat_map(|header| header.to_str().unwrap_or("?").rsplit(','))
            .take(MAX_HOPS);
        for hop in hops {
            if !is_trusted(address) {
                break;
            }
            // A trusted proxy that writes no address leaves the last that is known.
            let Ok(before) = hop.trim().parse::<IpAddr>() else {
                break;
            };
            address = before.to_canonical();
        }
        Self(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn public(peer: &str, forwarded: &[&str], trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, HeaderValue::from_str(value).unwrap());
        }
        let trusted: Vec<Prefix> = trusted.iter().map(|text| text.parse().unwrap()).collect();
        PublicAddress::of(peer.parse().unwrap(), &headers, &trusted)
            .0
            .to_string()
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
}
