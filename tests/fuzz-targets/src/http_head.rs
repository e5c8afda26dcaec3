use culvert_policy::Prefix;
use culvert_portal::fuzzing::{Head, heads};
use std::net::IpAddr;

const OWN: &str = "portal.example:8443";
const URL: &str = "https://portal.example:8443";

/// Longer inputs than a fuzzer makes are not tried: each is copied several times.
const MAX_LEN: usize = 64 * 1024;

/// Bytes of an answer: an empty one, with a date.
const MAX_ANSWER_LEN: usize = 512;

/// A head that reaches the portal means the same to a second parser that reads it line by line. Only the
/// connection and trusted proxies decide the client's address. Only requests from pages of this portal count as
/// its own. A header that must be unique counts as absent if it is there twice.
///
/// The first byte says from where the connection comes.
///
/// # Panics
/// If a property does not hold.
pub fn http_head(data: &[u8]) {
    let Some((&from, bytes)) = data.split_first() else {
        return;
    };
    if bytes.len() > MAX_LEN {
        return;
    }
    let proxy: IpAddr = [10, 0, 0, 1].into();
    let stranger: IpAddr = [198, 51, 100, 7].into();
    let trusted: [Prefix; 1] = ["10.0.0.0/8".parse().expect("a range")];
    let peer = if from & 1 == 0 { proxy } else { stranger };
    let (heads, answer) = heads(bytes, URL, peer, &trusted);
    assert!(heads.len() <= 1, "a connection that is for one request");
    assert!(answer.len() <= MAX_ANSWER_LEN, "{}", answer.len());
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."));
    let Some(head) = heads.first() else {
        assert!(!answer.starts_with(b"HTTP/1.1 2"), "an answer to nothing");
        return;
    };
    let lines = lines(bytes);
    assert!(!head.method.is_empty() && head.method.is_ascii());
    assert_is_from(head, &lines, peer, &trusted);
    if head.is_from_here {
        assert_is_from_here(head, &lines);
    }
    if let Some(session) = &head.session {
        let cookie = format!("__Host-culvert={session}");
        let mut cookies = values(&lines, "cookie").flat_map(|line| line.split(';'));
        assert!(cookies.any(|pair| pair.trim() == cookie), "{lines:?}");
    }
    if let Some(bearer) = &head.bearer {
        let given: Vec<_> = values(&lines, "authorization").collect();
        let [only] = given[..] else {
            panic!("{given:?}");
        };
        let (scheme, token) = only.split_once(' ').expect("a scheme");
        assert!(scheme.eq_ignore_ascii_case("bearer"));
        assert_eq!(token.trim(), bearer);
    }
}

/// The lines of a head behind the first, as names in small letters and values.
fn lines(bytes: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    // RFC 9112 §2.2: "a server … SHOULD ignore at least one empty line (CRLF) received prior to the request-line".
    let text = text.trim_start_matches(['\r', '\n']);
    text.split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.trim_matches([' ', '\t']).to_owned();
            (name.to_ascii_lowercase(), value)
        })
        .collect()
}

fn values<'a>(lines: &'a [(String, String)], name: &'a str) -> impl Iterator<Item = &'a str> {
    let named = lines.iter().filter(move |(known, _)| known == name);
    named.map(|(_, value)| value.as_str())
}

fn assert_is_from(head: &Head, lines: &[(String, String)], peer: IpAddr, trusted: &[Prefix]) {
    if head.from == peer {
        return;
    }
    assert!(trusted.iter().any(|range| range.contains(peer)), "{head:?}");
    let mut hops = values(lines, "x-forwarded-for").flat_map(|line| line.split(','));
    let is_it = |hop: &str| {
        let address = hop.trim().parse::<IpAddr>();
        address.is_ok_and(|address| address.to_canonical() == head.from)
    };
    assert!(hops.any(is_it), "{head:?} {lines:?}");
}

fn assert_is_from_here(head: &Head, lines: &[(String, String)]) {
    let hosts: Vec<_> = values(lines, "host").collect();
    let [host] = hosts[..] else {
        panic!("{hosts:?}");
    };
    // The port that browsers leave out.
    let host = match host.strip_suffix(":443") {
        Some(name) if !name.contains(':') || name.ends_with(']') => name,
        _ => host,
    };
    // An address, with or without a port.
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_address = name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost");
    assert!(is_address || host.eq_ignore_ascii_case(OWN), "{host}");
    if ["GET", "HEAD", "OPTIONS", "TRACE"].contains(&head.method.as_str()) {
        return;
    }
    let origins: Vec<_> = values(lines, "origin").collect();
    let mut sites = values(lines, "sec-fetch-site");
    let is_own_origin = origins[..] == [format!("https://{host}")];
    let is_own_site = sites.next() == Some("same-origin");
    assert!(is_own_origin || is_own_site, "{lines:?}");
    assert!(
        is_own_origin || origins.is_empty(),
        "another origin: {lines:?}"
    );
}

/// Requests of browsers, programs and proxies, and what makes heads hard to read.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let host = format!("Host: {OWN}\r\n");
    let get = format!("GET / HTTP/1.1\r\n{host}");
    let post = format!("POST /me/password HTTP/1.1\r\n{host}Content-Length: 3\r\n");
    let heads = [
        format!("{get}\r\n"),
        format!("{get}Cookie: a=b; __Host-culvert=secret; c\r\n\r\n"),
        format!("{get}Cookie: __Host-culvert=one\r\nCookie: __Host-culvert=two\r\n\r\n"),
        format!("{get}Authorization: Bearer culvert_abc\r\n\r\n"),
        format!("{get}Authorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n"),
        format!("{get}Host: evil.example\r\n\r\n"),
        "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: [::1]:8443\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n".to_owned(),
        format!("GET https://evil.example/ HTTP/1.1\r\n{host}\r\n"),
        format!("{post}Origin: {URL}\r\n\r\na=b"),
        format!("{post}Origin: https://evil.example\r\nSec-Fetch-Site: same-origin\r\n\r\na=b"),
        format!("{post}Origin: {URL}\r\nOrigin: https://evil.example\r\n\r\na=b"),
        format!("{post}Sec-Fetch-Site: same-origin\r\n\r\na=b"),
        format!("{post}Sec-Fetch-Site: cross-site\r\n\r\na=b"),
        format!("{post}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("{post}Content-Length: 5\r\n\r\na=b"),
        format!("{get}X-Forwarded-For: 1.1.1.1, 203.0.113.7\r\nX-Forwarded-For: 10.0.0.2\r\n\r\n"),
        format!("{get}X-Forwarded-For: ::ffff:203.0.113.7, unknown\r\n\r\n"),
        format!("{get} folded: x\r\n\r\n"),
        format!("{get}Na me: x\r\n\r\n"),
        format!("{get}X: a\nY: b\n\n{get}\r\n"),
        format!("\r\n\r\n{get}\r\n{get}\r\n"),
        format!("GET /{} HTTP/1.1\r\n{host}\r\n", "a".repeat(2000)),
        format!("GET / HTTP/1.0\r\n{host}\r\n"),
        format!("BREW /pot HTTP/1.1\r\n{host}\r\n"),
        "GET / HTTP/2.0\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}".to_owned(),
    ];
    let both = heads
        .iter()
        .flat_map(|head| [0, 1].map(|from: u8| [&[from], head.as_bytes()].concat()));
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without these the target could see no head at all and look well.
    #[test]
    fn a_good_head_is_seen_as_what_it_is() {
        let text = format!(
            "POST / HTTP/1.1\r\nHost: {OWN}\r\nOrigin: {URL}\r\nX-Forwarded-For: 203.0.113.7\r\n\
             Cookie: __Host-culvert=secret\r\nAuthorization: Bearer token\r\n\r\n"
        );
        let trusted = ["10.0.0.0/8".parse().expect("a range")];
        let (heads, answer) = heads(text.as_bytes(), URL, [10, 0, 0, 1].into(), &trusted);
        let expected = Head {
            method: "POST".to_owned(),
            from: [203, 0, 113, 7].into(),
            is_from_here: true,
            has_short_address: true,
            session: Some("secret".to_owned()),
            bearer: Some("token".to_owned()),
        };
        assert_eq!(heads, [expected]);
        assert!(answer.starts_with(b"HTTP/1.1 200"));
    }
}
