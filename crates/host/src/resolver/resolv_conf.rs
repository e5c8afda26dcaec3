//! The text of `/etc/resolv.conf` as it is, and as it is to be (`resolv.conf(5)`). Pure.

use culvert_policy::{DomainName, MAX_SEARCH_DOMAINS, MAX_SEARCH_LEN};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

/// The first line of a file that a client wrote: by it the next start knows that it is to be undone.
pub(super) const HEADER: &str =
    "# Written by the culvert client, which puts the file from before back when it ends.";

/// The second line where there was no file before.
const NONE_BEFORE: &str = "# Before, there was no file.";

/// The port of DNS.
const DNS_PORT: u16 = 53;

/// The file as far as Culvert reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResolvConf {
    /// The servers that are asked, in this order.
    pub(super) servers: Vec<Server>,
    /// All other directives, such as `search` and `options`, each a line as it stands.
    pub(super) directives: Vec<String>,
}

/// One `nameserver`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) address: IpAddr,
    /// The interface of a link-local address.
    pub(super) zone: Option<String>,
}

impl ResolvConf {
    /// Reads it; lines without a directive are left out, as the C library does.
    pub(super) fn parse(text: &str) -> Self {
        let mut servers = Vec::new();
        let mut directives = Vec::new();
        for line in text.lines() {
            // The C library takes both as comments, in the first column alone.
            if line.starts_with(['#', ';']) {
                continue;
            }
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                None => {}
                Some("nameserver") => servers.extend(words.next().and_then(Server::parse)),
                Some(_) => directives.push(line.trim_end().to_owned()),
            }
        }
        Self {
            servers,
            directives,
        }
    }

    /// The servers that can be asked instead of the C library. If nobody is named, it asks this
    /// machine.
    pub(super) fn upstreams(&self, zone_index: impl Fn(&str) -> Option<u32>) -> Vec<SocketAddr> {
        if self.servers.is_empty() {
            return vec![(Ipv4Addr::LOCALHOST, DNS_PORT).into()];
        }
        let servers = self.servers.iter();
        servers
            .filter_map(|server| server.reached_at(&zone_index))
            .collect()
    }

    /// The search domains for short names. The last such line counts, and `domain` is the
    /// older word for one domain.
    pub(super) fn search(&self) -> Vec<&str> {
        let said = self.directives.iter().rev().find_map(|directive| {
            let mut words = directive.split_ascii_whitespace();
            match words.next() {
                Some("search") => Some(words.collect()),
                Some("domain") => Some(words.take(1).collect()),
                Some(_) | None => None,
            }
        });
        said.unwrap_or_default()
    }
}

/// The search domains for short names: `ours`, then `theirs`, as far as every resolver reads a
/// list.
pub(super) fn joined_search(ours: &[DomainName], theirs: &[&str]) -> Vec<String> {
    let mut joined: Vec<String> = ours.iter().map(ToString::to_string).collect();
    let mut len: usize = joined.iter().map(|domain| domain.len() + 1).sum();
    for domain in theirs {
        let is_there = |other: &String| {
            let plain = |text: &str| text.trim_end_matches('.').to_ascii_lowercase();
            plain(other) == plain(domain)
        };
        if joined.iter().any(is_there) {
            continue;
        }
        len += domain.len() + 1;
        if joined.len() >= MAX_SEARCH_DOMAINS || len > MAX_SEARCH_LEN + 1 {
            break;
        }
        joined.push((*domain).to_owned());
    }
    joined
}

/// All but the server that is the client itself.
pub(super) fn without(own: IpAddr, mut known: ResolvConf) -> ResolvConf {
    known.servers.retain(|server| server.address != own);
    known
}

impl Server {
    fn parse(word: &str) -> Option<Self> {
        let (address, zone) = match word.split_once('%') {
            Some((address, zone)) => (address, Some(zone.to_owned())),
            None => (word, None),
        };
        let address = address.parse().ok()?;
        Some(Self { address, zone })
    }

    fn reached_at(&self, zone_index: impl Fn(&str) -> Option<u32>) -> Option<SocketAddr> {
        match (self.address, &self.zone) {
            (IpAddr::V6(address), Some(zone)) => {
                let index = zone_index(zone)?;
                Some(SocketAddrV6::new(address, DNS_PORT, 0, index).into())
            }
            // The C library means this machine by it.
            (IpAddr::V4(address), _) if address.is_unspecified() => {
                Some((Ipv4Addr::LOCALHOST, DNS_PORT).into())
            }
            (address, _) => Some((address, DNS_PORT).into()),
        }
    }
}

/// True if a client wrote a part of this.
pub(super) fn has_header(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n')
        .any(|line| line == HEADER.as_bytes())
}

/// True if a client wrote this.
pub(super) fn is_ours(text: &[u8]) -> bool {
    first_line(text) == Some(HEADER.as_bytes())
}

/// True if there was no file before the text that a client wrote.
pub(super) fn had_none_before(text: &[u8]) -> bool {
    is_ours(text) && text.split(|byte| *byte == b'\n').nth(1) == Some(NONE_BEFORE.as_bytes())
}

/// The file as it would be without the client, where another program has edited the client's: with the lines that it added,
/// before those of the file from before that it left. None where it names no server.
///
/// So do scripts of DHCP clients that write line by line, into the middle of which the client writes its own file.
pub(super) fn edited(now: &[u8], written: &str, before: &[u8]) -> Option<Vec<u8>> {
    let (now, before) = (
        String::from_utf8_lossy(now),
        String::from_utf8_lossy(before),
    );
    let has = |text: &str, line: &str| text.lines().any(|it| it == line);
    let added: Vec<&str> = now.lines().filter(|line| !has(written, line)).collect();
    if ResolvConf::parse(&added.join("\n")).servers.is_empty() {
        return None;
    }
    let has_all = written.lines().all(|line| has(&now, line));
    let is_left = |line: &&str| {
        let is_server = first_word(line) == Some("nameserver");
        has_all || (!is_server && has(&now, line))
    };
    let lines = added.iter().copied().chain(before.lines().filter(is_left));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    Some(text.into_bytes())
}

/// The text of the file by which every name is asked of `server` alone, and short names are
/// completed with `search` as well. A second server would be asked for names that this one refuses.
pub(super) fn ours(before: Option<&[u8]>, server: IpAddr, search: &[DomainName]) -> String {
    let mut text = format!("{HEADER}\n");
    if before.is_none() {
        // Writing to a string never fails.
        let _infallible = writeln!(text, "{NONE_BEFORE}");
    }
    let _infallible = writeln!(text, "nameserver {server}");
    let before = String::from_utf8_lossy(before.unwrap_or_default()).into_owned();
    let known = ResolvConf::parse(&before);
    if !search.is_empty() {
        let joined = joined_search(search, &known.search()).join(" ");
        let _infallible = writeln!(text, "search {joined}");
    }
    for directive in &known.directives {
        let is_search = matches!(first_word(directive), Some("search" | "domain"));
        if search.is_empty() || !is_search {
            let _infallible = writeln!(text, "{directive}");
        }
    }
    text
}

fn first_word(line: &str) -> Option<&str> {
    line.split_ascii_whitespace().next()
}

fn first_line(text: &[u8]) -> Option<&[u8]> {
    text.split(|byte| *byte == b'\n').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const USUAL: &str = "# by dhclient\nsearch corp.example lan\nnameserver 192.0.2.53\n\
         nameserver\t2001:db8::53 # second\n; nameserver 192.0.2.1\noptions edns0 trust-ad\n";

    #[test]
    fn the_usual_file_is_read() {
        let read = ResolvConf::parse(USUAL);
        let addresses: Vec<String> = read
            .servers
            .iter()
            .map(|it| it.address.to_string())
            .collect();
        assert_eq!(addresses, ["192.0.2.53", "2001:db8::53"]);
        let directives = ["search corp.example lan", "options edns0 trust-ad"];
        assert_eq!(read.directives, directives);
    }

    #[test]
    fn our_file_has_one_server_and_the_other_directives() {
        let text = ours(Some(USUAL.as_bytes()), "100.64.0.7".parse().unwrap(), &[]);
        assert_eq!(
            text,
            format!(
                "{HEADER}\nnameserver 100.64.0.7\nsearch corp.example lan\noptions edns0 trust-ad\n"
            )
        );
        assert!(is_ours(text.as_bytes()) && !had_none_before(text.as_bytes()));
        assert!(had_none_before(
            ours(None, "100.64.0.7".parse().unwrap(), &[]).as_bytes()
        ));
        assert!(!is_ours(USUAL.as_bytes()) && !is_ours(b""));
    }

    #[test]
    fn lines_that_another_program_added_to_ours_come_before_those_that_it_left() {
        const BEFORE: &str = "search lan\nnameserver 192.0.2.1\noptions edns0\n";
        let search = ["corp.example".parse().unwrap()];
        let written = ours(
            Some(BEFORE.as_bytes()),
            "100.64.0.7".parse().unwrap(),
            &search,
        );
        let other = "nameserver 9.9.9.9";
        for (now, expected) in [
            (written.clone(), None),
            (format!("{written}# a comment\noptions ndots:2\n"), None),
            (format!("{written}nameserver none\n"), None),
            (String::new(), None),
            (
                format!("{written}{other}\n"),
                Some(format!("{other}\n{BEFORE}")),
            ),
            (
                format!("{other}\n{written}"),
                Some(format!("{other}\n{BEFORE}")),
            ),
            (
                format!("{written}search home\n{other}\n"),
                Some(format!("search home\n{other}\n{BEFORE}")),
            ),
            (
                written.replace("nameserver 100.64.0.7", other),
                Some(format!("{other}\noptions edns0\n")),
            ),
            (format!("{HEADER}\n{other}\n"), Some(format!("{other}\n"))),
        ] {
            let found = edited(now.as_bytes(), &written, BEFORE.as_bytes());
            let found = found.map(|it| String::from_utf8(it).unwrap());
            assert_eq!(found, expected, "{now:?}");
        }
    }

    #[test]
    fn the_last_line_about_search_domains_counts() {
        for (text, expected) in [
            ("nameserver 9.9.9.9\n", &[][..]),
            ("search a.example b.example\n", &["a.example", "b.example"]),
            ("search a.example\ndomain lan other\n", &["lan"]),
            ("domain lan\nsearch\ta.example \n", &["a.example"]),
        ] {
            assert_eq!(ResolvConf::parse(text).search(), expected, "{text}");
        }
    }

    #[test]
    fn upstreams_are_what_the_c_library_would_ask() {
        let upstreams = |text: &str| {
            let index = |zone: &str| (zone == "eth0").then_some(2);
            let upstreams = ResolvConf::parse(text).upstreams(index);
            upstreams
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(upstreams("search x\n"), ["127.0.0.1:53"]);
        assert_eq!(upstreams("nameserver 0.0.0.0\n"), ["127.0.0.1:53"]);
        assert_eq!(upstreams("nameserver fe80::1%eth0"), ["[fe80::1%2]:53"]);
        assert!(upstreams("nameserver fe80::1%gone").is_empty());
        assert_eq!(upstreams("nameserver 9.9.9.9\r\n"), ["9.9.9.9:53"]);
    }

    fn a_line() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<Ipv4Addr>().prop_map(|it| format!("nameserver {it}")),
            any::<std::net::Ipv6Addr>().prop_map(|it| format!("  nameserver  {it}%eth0")),
            "search [a-z]{1,8}( [a-z.]{1,8})?",
            "options [a-z:0-9]{1,12}",
            "[#;] ?[ -~]{0,20}",
            "[ \\t]{0,3}",
            "[ -~]{0,20}",
        ]
    }

    proptest! {
        #[test]
        fn whatever_was_there_ours_names_our_server_alone_and_keeps_the_directives(
            lines in proptest::collection::vec(a_line(), 0..8),
            server: IpAddr,
        ) {
            let before = lines.join("\n");
            let written = ours(Some(before.as_bytes()), server, &[]);
            let read = ResolvConf::parse(&written);
            let expected = ResolvConf {
                servers: vec![Server { address: server, zone: None }],
                directives: ResolvConf::parse(&before).directives,
            };
            prop_assert_eq!(read, expected);
            prop_assert!(is_ours(written.as_bytes()) && !had_none_before(written.as_bytes()));
        }

        #[test]
        fn nothing_that_a_file_may_hold_is_too_much(bytes: Vec<u8>, server: IpAddr) {
            let written = ours(Some(&bytes), server, &[]);
            prop_assert!(is_ours(written.as_bytes()));
            let written = ours(Some(&bytes), server, &["corp.example".parse().unwrap()]);
            let read = ResolvConf::parse(&written);
            let search = read.search();
            prop_assert_eq!(search.first(), Some(&"corp.example"));
            prop_assert_eq!(read.servers, [Server { address: server, zone: None }]);
        }

        #[test]
        fn what_is_searched_first_is_ours_and_as_much_of_theirs_as_every_resolver_reads(
            ours in prop::collection::btree_set("[a-z]{1,9}\\.[a-z]{1,9}", 0..=MAX_SEARCH_DOMAINS),
            theirs in prop::collection::vec("[a-cA-C]{1,2}\\.?|[a-z]{1,40}\\.[a-z]{1,40}", 0..10),
        ) {
            let ours: Vec<DomainName> = ours.iter().map(|it| it.parse().unwrap()).collect();
            let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
            let joined = joined_search(&ours, &theirs);
            let first: Vec<String> = ours.iter().map(ToString::to_string).collect();
            prop_assert!(joined.starts_with(&first));
            prop_assert!(joined.len() <= MAX_SEARCH_DOMAINS);
            prop_assert!(joined.join(" ").len() <= MAX_SEARCH_LEN);
            // The rest is theirs, in their order.
            let mut left = theirs.iter();
            for domain in &joined[ours.len()..] {
                prop_assert!(left.any(|it| it == domain));
            }
            if ours.is_empty() && theirs.len() == 1 {
                prop_assert_eq!(joined, theirs);
            }
        }
    }
}
