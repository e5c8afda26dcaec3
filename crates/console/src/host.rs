//! Checks that a request was meant for this portal and that a form came from one of its pages. Names the fix if a
//! reverse proxy has changed the header that tells.

use axum::http::{HeaderMap, Method, StatusCode, header};
use culvert_portal_base::Notice;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Instant;

/// The headers by which browsers say where a form came from, and that by which proxies say what they were asked for.
const SEC_FETCH_SITE: &str = "sec-fetch-site";
const FORWARDED_HOST: &str = "x-forwarded-host";

/// Bytes of a header that are repeated: the longest name and a port.
const MAX_SHOWN_BYTES: usize = 260;

/// The lines that make a proxy pass `Host` on.
const PASS_HOST: &str = "nginx: `proxy_set_header Host $http_host;`\n\
     HAProxy: no line that sets `Host`; it passes it on by itself\n\
     Caddy: `header_up Host {hostport}` in `reverse_proxy`";

/// The same so that it passes on where a form came from.
const PASS_ORIGIN: &str = "Where a reverse proxy is in front of the portal, it must pass both on. No line of its \
     configuration may take away `Origin` or `Sec-Fetch-Site`.";

/// The reason for which a request gets no page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostRefusal {
    pub(super) status: StatusCode,
    pub(super) title: &'static str,
    /// The header that came, and the one that was expected.
    pub(super) text: String,
    /// The lines for the administrator of the proxy.
    pub(super) fix: Option<&'static str>,
}

/// Lines of the log about requests that got no page: a minute apart at least.
#[derive(Debug)]
pub struct Refusals {
    hosts: Notice,
    forms: Notice,
}

impl Default for Refusals {
    fn default() -> Self {
        Self {
            hosts: Notice::once_a_minute(),
            forms: Notice::once_a_minute(),
        }
    }
}

impl Refusals {
    /// Notes a refusal, and logs it where a line is due.
    pub(super) fn note(&self, refusal: &HostRefusal) {
        let is_host = refusal.status == StatusCode::MISDIRECTED_REQUEST;
        let notice = if is_host { &self.hosts } else { &self.forms };
        let Some(count) = notice.due(Instant::now()) else {
            return;
        };
        let text = &refusal.text;
        let fix = refusal.fix.unwrap_or_default().replace('\n', ". ");
        tracing::warn!(count, "the console refused a request: {text} {fix}");
    }
}

impl HostRefusal {
    /// The reason for which a request to the portal at `url` is refused. None if it was meant for
    /// this portal and, if it changes something, one of the portal's pages sent it.
    pub(super) fn of(url: &str, method: &Method, headers: &HeaderMap) -> Option<Self> {
        let host = host_of(headers);
        let Some(host) = host.filter(|host| is_own(url, host) || is_address(host)) else {
            return Some(Self::of_host(url, headers));
        };
        if method.is_safe() || came_from(headers, host) {
            return None;
        }
        Some(Self::of_form(url, host, headers))
    }

    fn of_host(url: &str, headers: &HeaderMap) -> Self {
        let mut text = format!(
            "This portal is at {url}. The request came {}, and `Host: {}` was expected.",
            host_that_came(headers),
            own_host(url)
        );
        if headers.contains_key(FORWARDED_HOST) {
            text +=
                " The name in `X-Forwarded-Host` is not read: a proxy has to pass it on in `Host`.";
        }
        Self {
            status: StatusCode::MISDIRECTED_REQUEST,
            title: "Another address",
            text,
            fix: Some(PASS_HOST),
        }
    }

    fn of_form(url: &str, host: &str, headers: &HeaderMap) -> Self {
        let origin = one(headers, header::ORIGIN.as_str());
        let site = one(headers, SEC_FETCH_SITE);
        let is_of_own = origin.is_some_and(|origin| origin.eq_ignore_ascii_case(url));
        let mut text = String::new();
        let mut fix = None;
        match (origin, site) {
            // The browser was at the portal's URL, so somebody has put another name in the place of that.
            (Some(_), _) if is_of_own && !is_own(url, host) => {
                let _ = write!(
                    text,
                    "The form came from this portal (`Origin: {url}`), but reached it {} instead of `Host: {}`.",
                    host_that_came(headers),
                    own_host(url)
                );
                fix = Some(PASS_HOST);
            }
            (None, None) => {
                let _ = write!(
                    text,
                    "It is not known where the form came from: neither `Origin` nor `Sec-Fetch-Site` came with it. \
                     It is sent from a page of {url}."
                );
                fix = Some(PASS_ORIGIN);
            }
            (Some(origin), _) if origin != format!("https://{host}") => {
                let _ = write!(
                    text,
                    "The form was not sent by a page of this portal: it came with `Origin: {}`, and `Origin: {url}` \
                     was expected.",
                    shown(origin)
                );
            }
            (_, site) => {
                let _ = write!(
                    text,
                    "The form was not sent by a page of this portal: it came with `Sec-Fetch-Site: {}`, and \
                     `Sec-Fetch-Site: same-origin` was expected.",
                    shown(site.unwrap_or_default())
                );
            }
        }
        let _ = write!(text, " Open {url}, and send the form from there.");
        Self {
            status: StatusCode::FORBIDDEN,
            title: "Nothing was changed",
            text,
            fix,
        }
    }
}

/// True if `Host` is the authority of the portal's URL.
pub(super) fn is_at_own_name(url: &str, headers: &HeaderMap) -> bool {
    host_of(headers).is_some_and(|host| is_own(url, host))
}

/// With which `Host` a request came, for people.
pub(super) fn host_that_came(headers: &HeaderMap) -> String {
    match headers.get_all(header::HOST).iter().count() {
        0 => "without the header `Host`".to_owned(),
        1 => match one(headers, header::HOST.as_str()) {
            Some(host) => format!("with `Host: {}`", shown(host)),
            None => "with a `Host` that is no text".to_owned(),
        },
        _ => "with several headers `Host`".to_owned(),
    }
}

/// The host that was asked for, without the port that browsers leave out.
fn host_of(headers: &HeaderMap) -> Option<&str> {
    let host = one(headers, header::HOST.as_str())?;
    let name = host.strip_suffix(":443");
    let name = name.filter(|name| !name.contains(':') || name.ends_with(']'));
    Some(name.unwrap_or(host))
}

/// The header that the portal at `url` expects.
pub(super) fn own_host(url: &str) -> &str {
    url.trim_start_matches("https://")
}

fn is_own(url: &str, host: &str) -> bool {
    own_host(url).eq_ignore_ascii_case(host)
}

/// An address is no name that someone else could make lead here.
fn is_address(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

/// Browsers say where a form came from, in at least one of two headers; what none of them vouches for
/// came from nowhere.
fn came_from(headers: &HeaderMap, host: &str) -> bool {
    // One that can't be read, or is there twice, is not ours.
    let origin = headers.contains_key(header::ORIGIN).then(|| {
        one(headers, header::ORIGIN.as_str()).is_some_and(|it| it == format!("https://{host}"))
    });
    let site = headers
        .get(SEC_FETCH_SITE)
        .map(|site| site == "same-origin");
    match (origin, site) {
        (Some(origin), Some(site)) => origin && site,
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => false,
    }
}

/// The value of a header that is there once.
fn one<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    value.to_str().ok()
}

/// A header's value where it may be shown: anybody may have written it, and it goes into the log.
fn shown(value: &str) -> &str {
    let of_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:/[]".contains(&byte);
    match value.len() <= MAX_SHOWN_BYTES && value.bytes().all(of_host) {
        true => value,
        false => "(something that is no host)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = given
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        pairs
            .collect::<Vec<(header::HeaderName, HeaderValue)>>()
            .into_iter()
            .collect()
    }

    #[test]
    fn a_form_is_taken_from_a_page_of_this_portal_and_from_nowhere_else() {
        let here = "portal.example:8443";
        for given in [
            &[("origin", "https://portal.example:8443")] as &[_],
            &[("sec-fetch-site", "same-origin")],
            &[
                ("origin", "https://portal.example:8443"),
                ("sec-fetch-site", "same-origin"),
            ],
        ] {
            assert!(came_from(&headers(given), here), "{given:?}");
        }
        for given in [
            &[] as &[_],
            &[("origin", "null")],
            &[("origin", "http://portal.example:8443")],
            &[("origin", "https://portal.example")],
            &[("origin", "https://evil.example")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "none")],
            &[
                ("origin", "https://portal.example:8443"),
                ("sec-fetch-site", "cross-site"),
            ],
            &[
                ("origin", "https://evil.example"),
                ("sec-fetch-site", "same-origin"),
            ],
        ] {
            assert!(!came_from(&headers(given), here), "{given:?}");
        }
    }

    #[test]
    fn an_address_is_nobodys_name() {
        for host in ["127.0.0.1:8443", "[::1]:8443", "192.0.2.7", "localhost:1"] {
            assert!(is_address(host), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example:8443",
            "localhost.evil",
            "",
        ] {
            assert!(!is_address(host), "{host}");
        }
    }

    #[test]
    fn the_port_that_browsers_leave_out_makes_no_other_host() {
        let url = "https://portal.example";
        let of = |host| HostRefusal::of(url, &Method::GET, &headers(&[("host", host)]));
        assert_eq!(of("portal.example:443"), None);
        assert_eq!(of("PORTAL.example"), None);
        assert!(of("portal.example:8443").is_some());
        assert!(of("portal.example:443:443").is_some());
        let form = headers(&[("host", "portal.example:443"), ("origin", url)]);
        assert_eq!(HostRefusal::of(url, &Method::POST, &form), None);
    }

    #[test]
    fn a_request_without_a_host_or_with_two_is_told_so() {
        let url = "https://portal.example";
        let none = HostRefusal::of(url, &Method::GET, &headers(&[])).unwrap();
        assert!(none.text.contains("without the header `Host`"), "{none:?}");
        let two = headers(&[("host", "portal.example"), ("host", "portal.example")]);
        let two = HostRefusal::of(url, &Method::GET, &two).unwrap();
        assert!(two.text.contains("several"), "{two:?}");
    }
}
