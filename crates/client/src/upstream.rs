//! A resolver for names that are no resource, as people name it.

use culvert_client_core::DNS_PORT;
use rustls::pki_types::ServerName;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// The port of DNS over TLS (RFC 7858, section 3.1).
const DNS_OVER_TLS_PORT: u16 = 853;

/// A resolver for names that are no resource: `ADDR[:PORT]`, or `ADDR[:PORT]#NAME`, as systemd-resolved writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Its address and port.
    pub address: SocketAddr,
    /// The name or address that its certificate is for. It is asked over TLS then (RFC 7858), and in no other way
    /// (RFC 8310, section 5: strict privacy). Without one it is asked in the clear.
    pub tls_name: Option<ServerName<'static>>,
}

impl Upstream {
    /// One that is asked in the clear.
    #[must_use]
    pub const fn in_clear(address: SocketAddr) -> Self {
        Self {
            address,
            tls_name: None,
        }
    }
}

/// A text that names no resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// There is no address.
    #[error(
        "it must be an address, such as 9.9.9.9 or [2620:fe::fe]:53, and for DNS over TLS also the certificate's name, \
         such as 9.9.9.9#dns.quad9.net"
    )]
    Address,
    /// Behind `#` there is no name.
    #[error(
        "behind # must stand the name of the server's certificate, such as 9.9.9.9#dns.quad9.net"
    )]
    Name,
}

impl FromStr for Upstream {
    type Err = UpstreamError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (place, name) = match text.split_once('#') {
            Some((place, name)) => (place, Some(name)),
            None => (text, None),
        };
        let usual_port = match name {
            Some(_) => DNS_OVER_TLS_PORT,
            None => DNS_PORT,
        };
        let address = place.parse().map(|ip| SocketAddr::new(ip, usual_port));
        let address = address
            .or_else(|_| place.parse())
            .map_err(|_| UpstreamError::Address)?;
        let tls_name = name.map(|name| ServerName::try_from(name.to_owned()));
        let tls_name = tls_name.transpose().map_err(|_| UpstreamError::Name)?;
        Ok(Self { address, tls_name })
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.address)?;
        match &self.tls_name {
            Some(name) => write!(formatter, "#{}", name.to_str()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_alone_is_asked_in_the_clear_and_one_with_a_name_over_tls() {
        for (text, whole) in [
            ("9.9.9.9", "9.9.9.9:53"),
            ("9.9.9.9:5353", "9.9.9.9:5353"),
            ("2620:fe::fe", "[2620:fe::fe]:53"),
            ("9.9.9.9#dns.quad9.net", "9.9.9.9:853#dns.quad9.net"),
            (
                "[2620:fe::fe]:8853#dns.quad9.net",
                "[2620:fe::fe]:8853#dns.quad9.net",
            ),
            ("1.1.1.1#1.1.1.1", "1.1.1.1:853#1.1.1.1"),
        ] {
            let upstream: Upstream = text.parse().unwrap();
            assert_eq!(upstream.to_string(), whole);
            assert_eq!(upstream.tls_name.is_some(), text.contains('#'));
        }
    }

    #[test]
    fn neither_a_name_in_place_of_an_address_nor_nothing_behind_the_sign_is_taken() {
        for (text, error) in [
            ("dns.quad9.net", UpstreamError::Address),
            ("", UpstreamError::Address),
            ("#dns.quad9.net", UpstreamError::Address),
            ("9.9.9.9:0x35", UpstreamError::Address),
            ("9.9.9.9#", UpstreamError::Name),
            ("9.9.9.9#a b", UpstreamError::Name),
            ("9.9.9.9#dns.quad9.net#x", UpstreamError::Name),
        ] {
            assert_eq!(text.parse::<Upstream>(), Err(error), "{text}");
        }
    }
}
