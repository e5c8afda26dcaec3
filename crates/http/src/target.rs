//! The target of a request, from its URL.

use culvert_wire::check_authority;
use hyper::Uri;
use std::net::IpAddr;
use thiserror::Error;

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// True for `https`.
    pub is_tls: bool,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port, the scheme's own where the URL has none.
    pub port: u16,
    /// `Host` of the request, as the URL has it.
    pub authority: String,
    /// Path and query.
    pub path: String,
}

/// The reason why a URL can't be asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// It can't be read.
    #[error("the URL is none")]
    NoUrl,
    /// It has no scheme or no host.
    #[error("the URL names no host")]
    NoHost,
    /// Its host or port can't be.
    #[error("the URL: {0}")]
    Authority(String),
}

impl Target {
    /// Reads a URL of `http` or `https`.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        let uri: Uri = url.parse().map_err(|_| TargetError::NoUrl)?;
        let is_tls = uri.scheme_str() == Some("https");
        let authority = uri
            .authority()
            .filter(|authority| uri.scheme().is_some() && !authority.host().is_empty())
            .ok_or(TargetError::NoHost)?;
        check_authority(authority.as_str())
            .map_err(|error| TargetError::Authority(error.to_string()))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            is_tls,
            host: bare(authority.host()).to_owned(),
            port: authority
                .port_u16()
                .unwrap_or(if is_tls { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            path: path.to_owned(),
        })
    }

    /// True if nobody on the way can read what is sent there: a secret may be.
    pub fn is_private(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.is_tls || address.is_ok_and(|address| address.is_loopback())
    }
}

/// The host of a URL without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_to_connect_and_what_to_ask_for() {
        let of = |url| {
            let it = Target::parse(url).unwrap();
            (it.is_tls, it.host, it.port, it.path)
        };
        let https = of("https://siem.example/in?a=b");
        assert_eq!(https, (true, "siem.example".into(), 443, "/in?a=b".into()));
        let http = of("http://[::1]:8080");
        assert_eq!(http, (false, "::1".into(), 8080, "/".into()));
        let with_port = Target::parse("https://[::1]:443/").unwrap();
        assert_eq!(with_port.authority, "[::1]:443");
    }

    #[test]
    fn a_url_that_can_not_be_asked_is_refused() {
        for url in [
            "https://:80",
            "nonsense",
            "https://siem.example:99999/in",
            "https://",
            "https://user@siem.example/",
        ] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }
}
