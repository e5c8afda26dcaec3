//! The address of a resource: to copy, and to open where a service of it has a program.

use crate::status::Resource;

/// Services with a program on the desktop: the TCP port and the scheme of its URL, the preferred first.
const SCHEMES: [(u16, &str); 5] = [
    (443, "https"),
    (80, "http"),
    (8443, "https"),
    (8080, "http"),
    (22, "ssh"),
];

/// The ports of the two schemes that a URL leaves out.
const fn is_default(scheme: &str, port: u16) -> bool {
    matches!(
        (scheme.as_bytes(), port),
        (b"https", 443) | (b"http", 80) | (b"ssh", 22)
    )
}

/// The text that "copy address" copies. None if it holds characters that no address has.
#[must_use]
pub fn to_copy(resource: &Resource) -> Option<&str> {
    let target = resource.target.as_str();
    let is_address =
        |character: char| character.is_alphanumeric() || "-._:/*[]%".contains(character);
    (!target.is_empty() && target.chars().all(is_address)).then_some(target)
}

/// The URL that "open" opens: of a single host, by the first of [`SCHEMES`] that may be used. None for networks, name
/// patterns, and resources without such a service.
#[must_use]
pub fn to_open(resource: &Resource) -> Option<String> {
    let host = host(to_copy(resource)?)?;
    let allow = resource.allow.as_ref()?;
    let (port, scheme) = SCHEMES
        .into_iter()
        .find(|(port, _)| allow.iter().any(|filter| allows_tcp(filter, *port)))?;
    Some(match is_default(scheme, port) {
        true => format!("{scheme}://{host}/"),
        false => format!("{scheme}://{host}:{port}/"),
    })
}

/// The host of a URL, if `target` is a single one.
fn host(target: &str) -> Option<String> {
    let single = match target.split_once('/') {
        Some((address, "32")) if address.contains('.') => address,
        Some((address, "128")) if address.contains(':') => address,
        Some(_) => return None,
        None => target,
    };
    if single.contains('*') {
        return None;
    }
    let bare = single.trim_matches(['[', ']']);
    match bare.parse::<std::net::Ipv6Addr>() {
        Ok(address) => Some(format!("[{address}]")),
        Err(_) if bare.contains([':', '%', '[', ']']) => None,
        Err(_) => Some(bare.trim_end_matches('.').to_owned()),
    }
}

/// True if a filter as access.toml has it (`any`, `tcp`, `tcp:80,443`, `tcp:1-1024`) allows this TCP port.
fn allows_tcp(filter: &str, port: u16) -> bool {
    let (protocol, ports) = match filter.split_once(':') {
        Some((protocol, ports)) => (protocol, Some(ports)),
        None => (filter, None),
    };
    let includes = |part: &str| match part.trim().split_once('-') {
        Some((first, last)) => {
            let bounds = (first.parse::<u16>(), last.parse::<u16>());
            matches!(bounds, (Ok(first), Ok(last)) if (first..=last).contains(&port))
        }
        None => part.trim().parse() == Ok(port),
    };
    match (protocol, ports) {
        ("any" | "tcp", None) => true,
        ("tcp", Some(ports)) => ports.split(',').any(includes),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(target: &str, allow: &[&str]) -> Resource {
        Resource {
            target: target.to_owned(),
            allow: Some(allow.iter().map(|&filter| filter.to_owned()).collect()),
            ..Resource::default()
        }
    }

    #[test]
    fn a_host_opens_by_the_service_that_is_allowed() {
        let url = |target, allow: &[&str]| to_open(&resource(target, allow));
        assert_eq!(
            url("wiki.corp.example", &["tcp:80,443"]).as_deref(),
            Some("https://wiki.corp.example/")
        );
        assert_eq!(
            url("10.0.0.5/32", &["tcp:8000-8100"]).as_deref(),
            Some("http://10.0.0.5:8080/")
        );
        assert_eq!(
            url("fd00::5", &["udp:53", "tcp:22"]).as_deref(),
            Some("ssh://[fd00::5]/")
        );
        assert_eq!(
            url("host.example", &["any"]).as_deref(),
            Some("https://host.example/")
        );
    }

    #[test]
    fn networks_patterns_and_other_services_do_not_open() {
        assert_eq!(to_open(&resource("10.0.0.0/8", &["any"])), None);
        assert_eq!(to_open(&resource("*.corp.example", &["tcp:443"])), None);
        assert_eq!(to_open(&resource("db.corp.example", &["tcp:5432"])), None);
        assert_eq!(to_open(&resource("db.corp.example", &[])), None);
        assert_eq!(
            to_open(&resource("db.corp.example", &["icmp", "udp:443"])),
            None
        );
    }

    #[test]
    fn nothing_but_an_address_is_copied_or_opened() {
        for hostile in [
            "a b",
            "x\nrm",
            "javascript:alert(1)",
            "a\u{202e}b",
            "",
            "<b>",
            "h?q",
            "u@h",
            "h#f",
        ] {
            assert_eq!(to_copy(&resource(hostile, &["any"])), None, "{hostile:?}");
            assert_eq!(to_open(&resource(hostile, &["any"])), None, "{hostile:?}");
        }
        assert_eq!(to_copy(&resource("10.0.0.0/8", &[])), Some("10.0.0.0/8"));
        assert_eq!(to_open(&resource("host:22", &["any"])), None);
    }
}
