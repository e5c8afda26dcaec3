//! Under which URL machines reach the portal, and what is doubtful about it.

use super::certificate::Certificate;
use super::options::host_of;
use crate::PortalError;
use culvert_wire::messages::MAX_PORTAL_URLS;
use culvert_wire::token::Portal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use tokio::time::timeout;

/// The port of a URL that names none.
const HTTPS_PORT: u16 = 443;

/// The time limit for the look-up of the portal's own name. Only a line of the log waits for it.
const LOOK_UP_LIMIT: Duration = Duration::from_secs(10);

/// Addresses of the Internet, to ask the routing table which of this machine's own would be used on
/// the way there. They are set aside for documentation (RFC 5737, RFC 3849), and nothing is sent.
const FAR_AWAY: [(IpAddr, IpAddr); 2] = [
    (
        IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    ),
    (
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    ),
];

/// The portal's URL, with the doubts about it.
#[derive(Debug)]
pub(crate) struct Whereabouts {
    pub(crate) url: Portal,
    pub(crate) warnings: Vec<String>,
}

/// The URL as configured, or one made of an address of this machine, or the one of the last start where this
/// machine has no address yet.
///
/// # Errors
/// [`PortalError::Url`] where the configured one can't be used, [`PortalError::NoAddress`] where there is none.
pub(crate) fn whereabouts(
    configured: Option<&str>,
    also: &[Portal],
    listening: SocketAddr,
    before: Option<&Portal>,
) -> Result<Whereabouts, PortalError> {
    let address = reachable_address(listening.ip());
    locate(configured, also, listening, address, before)
}

/// The other URLs of the portal.
///
/// # Errors
/// [`PortalError::Url`] where one can't be used, or there are more than machines keep.
pub(crate) fn also(urls: &[String]) -> Result<Vec<Portal>, PortalError> {
    let wrong = |url: &str, reason: String| PortalError::Url {
        url: url.to_owned(),
        reason,
    };
    if let Some(url) = urls.get(MAX_PORTAL_URLS - 1) {
        let reason =
            format!("machines keep {MAX_PORTAL_URLS} URLs at most, that of --url among them");
        return Err(wrong(url, reason));
    }
    let portal = |url: &String| {
        let portal = Portal::new(url, None).map_err(|error| wrong(url, error.to_string()))?;
        match is_local(&portal) || is_loopback(&portal) || is_unspecified(&portal) {
            true => Err(wrong(
                url,
                "no other machine finds the portal there".to_owned(),
            )),
            false => Ok(portal),
        }
    };
    urls.iter().map(portal).collect()
}

/// Checks that machines find the portal by a token that it makes now.
///
/// # Errors
/// [`PortalError::UselessTokens`] with the fix.
pub(crate) fn check_tokens(
    certificate: &Certificate,
    has_proxies: bool,
) -> Result<(), PortalError> {
    let portal = certificate.portal();
    let url = &portal.url;
    if certificate.is_own() && has_proxies {
        return Err(PortalError::UselessTokens(format!(
            "--trusted-proxy is given without --cert, so it would name the certificate of the portal, and machines see \
             that of the proxy at {url}. Give the portal the proxy's certificate (--cert and --key)"
        )));
    }
    if !certificate.names_host() {
        return Err(PortalError::UselessTokens(format!(
            "the certificate of --cert does not name the host of {url}. Give --url a host that the certificate names, or \
             another --cert; without --cert the portal makes one that needs no authority"
        )));
    }
    Ok(())
}

/// The same, on a machine that reaches others from `own`.
fn locate(
    configured: Option<&str>,
    also: &[Portal],
    listening: SocketAddr,
    own: Option<IpAddr>,
    before: Option<&Portal>,
) -> Result<Whereabouts, PortalError> {
    let mut warnings = Vec::new();
    let of_own = own.map(|address| url_of(address, listening.port()));
    let lasting = before.filter(|before| !is_local(before));
    let text = match (configured, of_own, lasting) {
        (Some(url), _, _) => url.to_owned(),
        (None, Some(url), _) => url,
        (None, None, Some(before)) => {
            warnings.push(format!(
                "this machine has no address towards the Internet, so the URL is {} as at the last start: name it \
                 by --url",
                before.url
            ));
            before.url.clone()
        }
        (None, None, None) => return Err(PortalError::NoAddress),
    };
    let wrong = |reason: String| PortalError::Url {
        url: text.clone(),
        reason,
    };
    let url = Portal::new(&text, None).map_err(|error| wrong(error.to_string()))?;
    if is_unspecified(&url) {
        let reason = "nobody can connect to it: name an address of this machine, or its name";
        return Err(wrong(reason.to_owned()));
    }
    if configured.is_some() && is_loopback(&url) && !listening.ip().is_loopback() {
        let port = listening.port();
        return Err(wrong(format!(
            "no other machine finds the portal there: name the address at which others do, or try it on this machine \
             alone with --listen 127.0.0.1:{port}"
        )));
    }
    if configured.is_none() && is_local(&url) {
        warnings.push(format!(
            "tokens lead to {}, where other machines do not find the portal: name by --url where they do, and \
             then make tokens",
            url.url
        ));
    }
    // Machines that know the former URL are not lost while it is one of the others.
    let lost = before.filter(|before| also.iter().all(|other| other.url != before.url));
    warnings.extend(lost.and_then(|lost| change(lost, &url, configured.is_some())));
    Ok(Whereabouts { url, warnings })
}

/// The consequence of a change of the URL since the last start.
fn change(before: &Portal, now: &Portal, is_configured: bool) -> Option<String> {
    let (was, is) = (&before.url, &now.url);
    if was == is {
        return None;
    }
    let fix = match is_configured {
        true => format!(
            "name the former one by --also-url {was} for as long as machines are to find the portal there"
        ),
        false => format!(
            "an address may change at every start: name a lasting one by --url, such as --url {was}"
        ),
    };
    Some(format!(
        "the portal's URL is {is}, and was {was} at the last start: tokens that were made before, and machines that \
         came with them, look for it there; {fix}"
    ))
}

/// True if machines probably see the certificate of a proxy: `--trusted-proxy` is set, the URL's port is not listened
/// on, or its host is another machine.
pub(crate) async fn is_behind_another(
    url: &Portal,
    listening: SocketAddr,
    has_proxies: bool,
) -> bool {
    let authority = url.url.trim_start_matches("https://");
    let port = authority
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok())
        .unwrap_or(HTTPS_PORT);
    if has_proxies || port != listening.port() {
        return true;
    }
    let found = tokio::net::lookup_host((host_of(url), port));
    let Ok(Ok(found)) = timeout(LOOK_UP_LIMIT, found).await else {
        return false;
    };
    let addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    !addresses.is_empty() && !addresses.iter().any(|address| is_of_this_machine(*address))
}

fn is_of_this_machine(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// True for the addresses that mean every address of a machine.
fn is_unspecified(portal: &Portal) -> bool {
    let address = host_of(portal).parse::<IpAddr>();
    address.is_ok_and(|address| address.to_canonical().is_unspecified())
}

/// True for the addresses of the machine itself.
fn is_loopback(portal: &Portal) -> bool {
    let host = host_of(portal);
    let address = host.parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// True for loopback and link-local addresses, which other machines can't use.
fn is_local(portal: &Portal) -> bool {
    match host_of(portal)
        .parse::<IpAddr>()
        .map(|host| host.to_canonical())
    {
        Ok(IpAddr::V4(host)) => host.is_loopback() || host.is_link_local(),
        Ok(IpAddr::V6(host)) => host.is_loopback() || host.is_unicast_link_local(),
        Err(_) => false,
    }
}

fn url_of(address: IpAddr, port: u16) -> String {
    let authority = SocketAddr::new(address, port);
    match port {
        443 => format!("https://{}", authority.to_string().trim_end_matches(":443")),
        _ => format!("https://{authority}"),
    }
}

/// The address that is listened on; where that is every address, the one that this machine uses
/// towards the Internet; none where there is no way there.
pub(super) fn reachable_address(listening: IpAddr) -> Option<IpAddr> {
    if !listening.is_unspecified() {
        return Some(listening);
    }
    FAR_AWAY
        .iter()
        .filter(|(any, _)| listening.is_ipv6() || any.is_ipv4())
        .find_map(|(any, far)| own_address_towards(*any, *far))
}

fn own_address_towards(any: IpAddr, far: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // The discard port; connecting a UDP socket only looks up the route.
    socket.connect((far, 9)).ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_unspecified()).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: &str = "[::]:8443";

    fn of(
        configured: Option<&str>,
        listening: &str,
        own: Option<&str>,
        before: Option<&str>,
    ) -> Result<Whereabouts, PortalError> {
        let before = before.map(|url| Portal::new(url, None).unwrap());
        let own = own.map(|own| own.parse().unwrap());
        let listening = listening.parse().unwrap();
        locate(configured, &[], listening, own, before.as_ref())
    }

    #[test]
    fn a_configured_url_is_taken_as_it_is() {
        let found = of(Some("https://portal.example:8443/"), ANY, None, None).unwrap();
        assert_eq!(found.url.url, "https://portal.example:8443");
        assert_eq!(found.warnings, [] as [String; 0]);
        for wrong in [
            "http://portal.example",
            "portal.example",
            "https://",
            "https://a/b",
            "https://portal.example:99999",
            "https://portal.example:0",
            "https://10.0.0.300",
            "https://0.0.0.0:8443",
            "https://[::]:8443",
        ] {
            let error = of(Some(wrong), ANY, None, None).unwrap_err();
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }

    #[test]
    fn without_one_the_address_that_is_listened_on_is_used() {
        for (listening, url) in [
            ("192.0.2.7:8443", "https://192.0.2.7:8443"),
            ("[2001:db8::7]:443", "https://[2001:db8::7]"),
        ] {
            let own = listening.parse::<SocketAddr>().unwrap().ip();
            assert_eq!(reachable_address(own), Some(own));
            let found = of(None, listening, Some(&own.to_string()), None).unwrap();
            assert_eq!(found.url.url, url);
            assert_eq!(found.warnings, [] as [String; 0]);
        }
    }

    #[test]
    fn a_portal_without_an_address_keeps_the_url_of_its_last_start_or_does_not_start() {
        let stored = of(None, ANY, None, Some("https://192.0.2.7:8443")).unwrap();
        assert_eq!(stored.url.url, "https://192.0.2.7:8443");
        assert_eq!(stored.warnings.len(), 1, "{stored:?}");
        assert!(stored.warnings[0].contains("--url"), "{stored:?}");
        for before in [
            None,
            Some("https://[::1]:8443"),
            Some("https://127.0.0.1:8443"),
        ] {
            let error = of(None, ANY, None, before).unwrap_err();
            assert!(matches!(error, PortalError::NoAddress), "{error}");
            assert!(error.to_string().contains("--url"), "{error}");
        }
    }

    #[test]
    fn tokens_that_would_lead_to_an_address_of_this_machine_or_link_alone_are_doubted_unless_that_was_asked_for()
     {
        for own in ["127.0.0.1", "127.0.0.2", "::1", "169.254.7.7", "fe80::7"] {
            let listening = SocketAddr::new(own.parse().unwrap(), 8443).to_string();
            let found = of(None, &listening, Some(own), None).unwrap();
            assert_eq!(found.warnings.len(), 1, "{found:?}");
            assert!(found.warnings[0].contains("--url"), "{found:?}");
        }
        for own in ["https://127.0.0.1:8443", "https://localhost:8443"] {
            let asked = of(Some(own), "127.0.0.1:8443", None, None).unwrap();
            assert_eq!(asked.warnings, [] as [String; 0]);
            for listening in [ANY, "192.0.2.7:8443"] {
                let error = of(Some(own), listening, None, None).unwrap_err();
                let text = error.to_string();
                assert!(text.contains("--listen 127.0.0.1:8443"), "{text}");
            }
        }
    }

    #[test]
    fn a_url_that_has_changed_since_the_last_start_is_doubted_with_the_one_before() {
        let before = Some("https://192.0.2.7:8443");
        for (configured, own) in [
            (None, Some("192.0.2.8")),
            (Some("https://portal.example"), None),
        ] {
            let found = of(configured, ANY, own, before).unwrap();
            assert_eq!(found.warnings.len(), 1, "{found:?}");
            assert!(found.warnings[0].contains("192.0.2.7"), "{found:?}");
            let option = match configured {
                Some(_) => "--also-url https://192.0.2.7:8443",
                None => "--url",
            };
            assert!(found.warnings[0].contains(option), "{found:?}");
        }
        let same = of(None, ANY, Some("192.0.2.7"), before).unwrap();
        assert_eq!(same.warnings, [] as [String; 0]);
    }

    #[test]
    fn a_former_url_that_machines_are_told_of_is_not_doubted() {
        let before = Portal::new("https://192.0.2.7:8443", None).unwrap();
        let new = Some("https://portal.example");
        let listening = ANY.parse().unwrap();
        let others = also(std::slice::from_ref(&before.url)).unwrap();
        let found = whereabouts(new, &others, listening, Some(&before)).unwrap();
        assert_eq!(found.warnings, [] as [String; 0]);
        let found = whereabouts(new, &[], listening, Some(&before)).unwrap();
        assert_eq!(found.warnings.len(), 1);
        // A machine without an address still has it.
        let alone = locate(None, &others, listening, None, Some(&before)).unwrap();
        assert_eq!(alone.url, before);
    }

    #[test]
    fn other_urls_are_urls_of_portals_that_others_find_and_not_too_many() {
        for wrong in [
            "http://a.example",
            "https://127.0.0.1",
            "https://localhost",
            "https://[fe80::1]",
            "https://0.0.0.0:8443",
            "https://[::]:8443",
        ] {
            let error = also(&[wrong.to_owned()]).unwrap_err();
            assert!(error.to_string().contains(wrong), "{error}");
        }
        let urls = |count| -> Vec<String> {
            let urls = 0..count;
            urls.map(|n| format!("https://{n}.example")).collect()
        };
        assert_eq!(also(&urls(7)).unwrap().len(), 7);
        let error = also(&urls(8)).unwrap_err();
        assert!(error.to_string().contains("8 URLs"), "{error}");
    }

    #[tokio::test]
    async fn a_portal_is_behind_another_where_its_url_leads_to_another_machine_or_port() {
        let listening = "127.0.0.1:8443".parse().unwrap();
        for (url, has_proxies, expected) in [
            ("https://127.0.0.1:8443", false, false),
            ("https://localhost:8443", false, false),
            ("https://127.0.0.1:8443", true, true),
            ("https://127.0.0.1", false, true),
            ("https://192.0.2.7:8443", false, true),
            ("https://portal.invalid:8443", false, false),
        ] {
            let portal = Portal::new(url, None).unwrap();
            let found = is_behind_another(&portal, listening, has_proxies).await;
            assert_eq!(found, expected, "{url}");
        }
    }
}
