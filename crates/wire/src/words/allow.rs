//! The protocols and ports of a resource that may be used: `tcp:80,443`, `udp:53`, `icmp`, `any`.

use crate::model::{Filter, PortRange};

const EVERY_PORT: PortRange = PortRange {
    first: 0,
    last: u16::MAX,
};

/// One permission, or that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Nothing.
    Nothing,
    /// This.
    Filter(Filter),
}

/// Reads one permission, in any case and with spaces around `:` and `,`: `TCP: 80, 443`.
///
/// # Errors
/// A description of the right form, for the person who wrote the text.
pub fn parse_allowed(text: &str) -> Result<Allowed, String> {
    let wrong = || {
        let text = text.to_ascii_lowercase();
        let protocols = text.matches("tcp").count() + text.matches("udp").count();
        let several = match protocols + text.matches("icmp").count() {
            0 | 1 => "",
            _ => {
                "; write several as a list, allow = [\"tcp:80\", \"udp:53\"], or with an --allow each"
            }
        };
        format!(
            "it must be tcp, udp, tcp:PORTS, udp:PORTS, icmp, any or none, where PORTS is such as 443 or \
             80,8000-8100{several}"
        )
    };
    let lower = text.trim().to_ascii_lowercase();
    let (protocol, ports) = match lower.split_once(':') {
        Some((protocol, ports)) => (protocol.trim_end(), Some(ports)),
        None => (&*lower, None),
    };
    let ranges = || match ports {
        None => Ok(vec![EVERY_PORT]),
        Some(ports) => {
            let ranges = ports.split(',').map(|range| range.trim().parse());
            ranges
                .collect::<Result<Vec<PortRange>, _>>()
                .map_err(|_| wrong())
        }
    };
    let filter = match (protocol, ports) {
        ("tcp", _) => Filter::Tcp { ports: ranges()? },
        ("udp", _) => Filter::Udp { ports: ranges()? },
        ("icmp", None) => Filter::Icmp,
        ("any", None) => Filter::Any,
        ("none", None) => return Ok(Allowed::Nothing),
        _ => return Err(wrong()),
    };
    Ok(Allowed::Filter(filter))
}

/// Reads permissions on lines, with spaces between or with commas: `tcp: 80, 443 icmp`.
///
/// # Errors
/// As [`parse_allowed`].
pub fn parse_all_allowed(text: &str) -> Result<Vec<Allowed>, String> {
    let mut each = Vec::new();
    for line in text.lines() {
        let mut one = String::new();
        for word in line.split_whitespace() {
            // A word of letters begins a permission, a number goes on with its ports.
            let begins = word.starts_with(|char: char| char.is_ascii_alphabetic());
            if begins && !one.is_empty() {
                let ended = one.trim_end_matches([',', ' ']).to_owned();
                each.push(parse_allowed(&ended)?);
                one.clear();
            }
            one.push_str(word);
            one.push(' ');
        }
        if !one.is_empty() {
            each.push(parse_allowed(one.trim_end())?);
        }
    }
    Ok(each)
}

/// All permissions of a resource together.
///
/// # Errors
/// `none` is given together with others.
pub fn allowed(each: &[Allowed]) -> Result<Vec<Filter>, String> {
    let filters = each.iter().filter_map(|allowed| match allowed {
        Allowed::Nothing => None,
        Allowed::Filter(filter) => Some(filter.clone()),
    });
    let filters: Vec<Filter> = filters.collect();
    if !filters.is_empty() && filters.len() < each.len() {
        return Err("`none` stands alone: nothing else can be allowed with it".to_owned());
    }
    Ok(filters)
}

/// Permissions as [`parse_allowed`] reads them, with spaces between.
pub fn filters(filters: &[Filter]) -> String {
    if filters.is_empty() {
        return "none".to_owned();
    }
    let ports = |protocol: &str, ports: &[PortRange]| match ports {
        [EVERY_PORT] => protocol.to_owned(),
        [] => format!("{protocol}:none"),
        ports => {
            let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
            format!("{protocol}:{}", ports.join(","))
        }
    };
    let each = filters.iter().map(|filter| match filter {
        Filter::Any => "any".to_owned(),
        Filter::Icmp => "icmp".to_owned(),
        Filter::Tcp { ports: ranges } => ports("tcp", ranges),
        Filter::Udp { ports: ranges } => ports("udp", ranges),
    });
    each.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn several_in_one_text_are_answered_with_a_list() {
        for text in ["tcp:80, udp:7", "tcp:80 tcp:443", "tcp,icmp", "icmp udp"] {
            let error = parse_allowed(text).unwrap_err();
            assert!(error.contains("allow = ["), "{text}: {error}");
        }
        let error = parse_allowed("tcp:99999").unwrap_err();
        assert!(!error.contains("allow = ["), "{error}");
    }

    #[test]
    fn permissions_are_read() {
        let port = |first, last| PortRange { first, last };
        for (text, filter) in [
            ("any", Filter::Any),
            ("icmp", Filter::Icmp),
            (
                "tcp",
                Filter::Tcp {
                    ports: vec![EVERY_PORT],
                },
            ),
            (
                "udp:53",
                Filter::Udp {
                    ports: vec![port(53, 53)],
                },
            ),
            (
                "tcp:80,443,8000-8100",
                Filter::Tcp {
                    ports: vec![port(80, 80), port(443, 443), port(8000, 8100)],
                },
            ),
        ] {
            assert_eq!(parse_allowed(text), Ok(Allowed::Filter(filter)), "{text}");
        }
        assert_eq!(parse_allowed("none"), Ok(Allowed::Nothing));
    }

    #[test]
    fn permissions_are_read_as_people_write_them() {
        for (text, same) in [
            ("TCP:443", "tcp:443"),
            ("tcp: 80, 443", "tcp:80,443"),
            (" Tcp :80 ,443 ", "tcp:80,443"),
            ("ANY", "any"),
            ("Icmp", "icmp"),
        ] {
            assert_eq!(parse_allowed(text), parse_allowed(same), "{text:?}");
            assert!(parse_allowed(text).is_ok(), "{text:?}");
        }
        let all = |text: &str| parse_all_allowed(text).and_then(|each| allowed(&each));
        for text in [
            "tcp:80,443\r\nicmp",
            "tcp:80,443 icmp",
            "TCP: 80, 443 ICMP",
            "tcp:80,443, icmp",
            "tcp : 80 , 443\n\n  icmp  ",
        ] {
            let read = all(text).map(|read| filters(&read));
            assert_eq!(read.as_deref(), Ok("tcp:80,443 icmp"), "{text:?}");
        }
        assert_eq!(all(" \n"), Ok(vec![]));
        for text in ["tcp 80", "80", "tcp:80 443 x", "none any", "tcp:80;443"] {
            assert!(all(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_permission_allows_nothing() {
        for text in [
            "",
            "tcp:",
            "tcp:,",
            "tcp:0x50",
            "tcp:70000",
            "tcp:9-1",
            "icmp:8",
            "any:80",
            "none:1",
            "sctp:80",
            "tcp 80",
            "80",
        ] {
            assert!(parse_allowed(text).is_err(), "{text:?}");
        }
        let any = Allowed::Filter(Filter::Any);
        assert!(allowed(&[any, Allowed::Nothing]).is_err());
        assert_eq!(allowed(&[Allowed::Nothing]), Ok(vec![]));
    }

    fn any_filter() -> impl Strategy<Value = Filter> {
        let range = (any::<u16>(), any::<u16>()).prop_map(|(a, b)| PortRange {
            first: a.min(b),
            last: a.max(b),
        });
        let ports = prop::collection::vec(range, 1..4);
        prop_oneof![
            Just(Filter::Any),
            Just(Filter::Icmp),
            ports.clone().prop_map(|ports| Filter::Tcp { ports }),
            ports.prop_map(|ports| Filter::Udp { ports }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_as_the_same(written in prop::collection::vec(any_filter(), 1..5)) {
            let text = filters(&written);
            let read = text.split(' ').map(parse_allowed).collect::<Result<Vec<_>, _>>().unwrap();
            prop_assert_eq!(allowed(&read).unwrap(), written);
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = parse_allowed(&text);
        }
    }
}
