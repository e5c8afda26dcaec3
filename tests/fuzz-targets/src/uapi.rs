use culvert_session::{PresharedKey, PrivateKey};
use culvert_uapi::{
    AllowedIpChange, Change, Configuration, Endpoint, InterfaceChange, PeerChange,
    PeerConfiguration, Request, RequestError, RequestParser, SetRequest, cipher_name, parse_set,
};
use std::fmt::Write;

/// Any text is a request or an error, the same in whatever pieces it arrives. The request that was
/// parsed from a `set=1` is formatted and parsed as the same. The configuration that follows from
/// it comes back from `get=1` and can be set again.
///
/// # Panics
/// If a property does not hold.
pub fn uapi_set(data: &[u8]) {
    let whole = requests(data.len().max(1), data);
    for piece_len in [1, 7] {
        assert_eq!(requests(piece_len, data), whole, "in pieces of {piece_len}");
    }
    let parsed = parse_set(data);
    if let (Some(Ok(Request::Set(first))), Ok(request)) = (whole.first(), &parsed) {
        assert_eq!(first, request);
    }
    let Ok(request) = parsed else { return };
    assert_peers(&request, data);
    let text = format(&request);
    assert_eq!(parse_set(text.as_bytes()), Ok(request), "{text}");

    let Ok(request) = parse_set(data) else { return };
    let configuration = configuration(request);
    let response = configuration.to_response();
    let again = parse_set(as_set(&response).as_bytes()).expect("what get answers can be set");
    assert_same(&configuration, &self::configuration(again));
}

/// A property that formatting and parsing again cannot show. Each peer has the ranges of the lines
/// behind its last `replace_allowed_ips`, and an endpoint in the family in which it is reached.
fn assert_peers(request: &SetRequest, data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let end = text.find("\n\n").unwrap_or(text.len());
    let mut ranges: Vec<usize> = Vec::new();
    for line in text[..end].lines() {
        let key = line.split('=').next().unwrap_or_default();
        match (key, ranges.last_mut()) {
            ("public_key", _) => ranges.push(0),
            ("replace_allowed_ips", Some(count)) => *count = 0,
            ("allowed_ip", Some(count)) => *count += 1,
            _ => {}
        }
    }
    let found = request.peers.iter().map(|peer| peer.allowed_ips.len());
    assert!(found.eq(ranges));
    for endpoint in request
        .peers
        .iter()
        .filter_map(|peer| peer.endpoint.as_ref())
    {
        let ip = endpoint.address.ip();
        assert_eq!(ip, ip.to_canonical());
    }
}

/// Every request of a connection that sends `data` in pieces, and how it ended.
fn requests(piece_len: usize, data: &[u8]) -> Vec<Result<Request, RequestError>> {
    let mut parser = RequestParser::new();
    let mut requests = Vec::new();
    for mut piece in data.chunks(piece_len) {
        while !piece.is_empty() {
            requests.extend(parser.handle_bytes(&mut piece));
        }
    }
    requests.extend(parser.handle_end().map(Err));
    requests
}

/// The request as text: what a program like `wg` would write.
fn format(request: &SetRequest) -> String {
    let mut text = "set=1\n".to_owned();
    format_interface(&mut text, &request.interface).expect("writing to a string does not fail");
    for peer in &request.peers {
        format_peer(&mut text, peer).expect("writing to a string does not fail");
    }
    text + "\n"
}

fn format_interface(text: &mut String, interface: &InterfaceChange) -> std::fmt::Result {
    match &interface.private_key {
        Change::Keep => {}
        Change::Remove => writeln!(text, "private_key={}", hex(&[0; 32]))?,
        Change::Set(key) => writeln!(text, "private_key={}", hex(key.as_bytes()))?,
    }
    if let Some(port) = interface.listen_port {
        writeln!(text, "listen_port={port}")?;
    }
    match interface.fwmark {
        Change::Keep => {}
        Change::Remove => writeln!(text, "fwmark=0")?,
        Change::Set(mark) => writeln!(text, "fwmark={}", mark.0)?,
    }
    if let Some(suite) = interface.suite {
        writeln!(text, "cipher={}", cipher_name(suite))?;
    }
    if interface.replace_peers {
        writeln!(text, "replace_peers=true")?;
    }
    Ok(())
}

fn format_peer(text: &mut String, peer: &PeerChange) -> std::fmt::Result {
    writeln!(text, "public_key={}", hex(peer.public_key.as_bytes()))?;
    if peer.remove {
        writeln!(text, "remove=true")?;
    }
    if peer.update_only {
        writeln!(text, "update_only=true")?;
    }
    match &peer.preshared_key {
        Change::Keep => {}
        Change::Remove => writeln!(text, "preshared_key={}", hex(&[0; 32]))?,
        Change::Set(key) => writeln!(text, "preshared_key={}", hex(key.as_bytes()))?,
    }
    if let Some(endpoint) = &peer.endpoint {
        writeln!(text, "endpoint={}", endpoint_text(endpoint))?;
    }
    match peer.keepalive {
        Change::Keep => {}
        Change::Remove => writeln!(text, "persistent_keepalive_interval=0")?,
        Change::Set(interval) => {
            writeln!(text, "persistent_keepalive_interval={}", interval.0)?;
        }
    }
    if peer.replace_allowed_ips {
        writeln!(text, "replace_allowed_ips=true")?;
    }
    for change in &peer.allowed_ips {
        match change {
            AllowedIpChange::Add(range) => writeln!(text, "allowed_ip={range}")?,
            AllowedIpChange::Remove(range) => writeln!(text, "allowed_ip=-{range}")?,
        }
    }
    match peer.suite {
        Change::Keep => {}
        Change::Remove => writeln!(text, "cipher=")?,
        Change::Set(suite) => writeln!(text, "cipher={}", cipher_name(suite))?,
    }
    Ok(())
}

fn endpoint_text(endpoint: &Endpoint) -> String {
    match &endpoint.interface {
        None => endpoint.address.to_string(),
        Some(name) => format!(
            "[{}%{name}]:{}",
            endpoint.address.ip(),
            endpoint.address.port()
        ),
    }
}

fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares all that can be set.
fn assert_same(left: &Configuration, right: &Configuration) {
    assert!(left.private_key == right.private_key);
    assert_eq!(left.listen_port, right.listen_port);
    assert_eq!(left.fwmark, right.fwmark);
    assert_eq!(left.suite, right.suite);
    assert_eq!(left.peers.len(), right.peers.len());
    for (left, right) in left.peers.iter().zip(&right.peers) {
        assert_eq!(left.public_key, right.public_key);
        assert!(left.preshared_key == right.preshared_key);
        assert_eq!(left.suite, right.suite);
        assert_eq!(left.endpoint, right.endpoint);
        assert_eq!(left.keepalive, right.keepalive);
        assert_eq!(left.allowed_ips, right.allowed_ips);
    }
}

/// The configuration after the request of an interface that had no peers.
fn configuration(request: SetRequest) -> Configuration {
    let peers = request.peers.into_iter().filter(|peer| !peer.remove);
    Configuration {
        private_key: set_to::<PrivateKey>(request.interface.private_key),
        listen_port: request.interface.listen_port,
        fwmark: set_to(request.interface.fwmark),
        suite: request.interface.suite.unwrap_or_default(),
        peers: peers.map(peer_configuration).collect(),
    }
}

fn peer_configuration(peer: PeerChange) -> PeerConfiguration {
    let added = peer
        .allowed_ips
        .into_iter()
        .filter_map(|change| match change {
            AllowedIpChange::Add(range) => Some(range),
            AllowedIpChange::Remove(_) => None,
        });
    PeerConfiguration {
        public_key: peer.public_key,
        preshared_key: set_to::<PresharedKey>(peer.preshared_key),
        suite: set_to(peer.suite),
        endpoint: peer
            .endpoint
            .and_then(|endpoint| endpoint.resolve(|_| Some(7)).ok()),
        last_handshake: None,
        sent_bytes: 1,
        received_bytes: 2,
        keepalive: set_to(peer.keepalive),
        allowed_ips: added.collect(),
    }
}

fn set_to<T>(change: Change<T>) -> Option<T> {
    match change {
        Change::Set(value) => Some(value),
        Change::Keep | Change::Remove => None,
    }
}

/// The answer to `get=1` as a `set=1`: without what can only be read.
fn as_set(response: &str) -> String {
    const READ_ONLY: [&str; 5] = [
        "errno",
        "last_handshake_time_nsec",
        "last_handshake_time_sec",
        "rx_bytes",
        "tx_bytes",
    ];
    let settable = |line: &&str| {
        let (key, _) = line.split_once('=').unwrap_or_default();
        !READ_ONLY.contains(&key)
    };
    let mut text = "set=1\n".to_owned();
    for line in response
        .lines()
        .filter(|line| !line.is_empty())
        .filter(settable)
    {
        text.extend([line, "\n"]);
    }
    text + "\n"
}
