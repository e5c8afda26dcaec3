//! The requests that `set=1` may make, and those that are refused.

use culvert_aead::Suite;
use culvert_session::PublicKey;
use culvert_uapi::{
    AllowedIpChange, Change, Endpoint, Errno, FirewallMark, InterfaceName, KeepaliveInterval,
    MAX_LINE, MAX_REQUEST, Prefix, Request, RequestError, RequestErrorReason, RequestParser,
    SetRequest, parse_set,
};
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};

const KEY: &str = "e84b5a6d2717c1003a13b431570353dbaca9146cf150c5f8575680feba52027a";
const ZERO: &str = "0000000000000000000000000000000000000000000000000000000000000000";

#[test]
fn a_request_of_wg_sets_interface_and_peers() {
    let request = parse(&format!(
        "set=1\nprivate_key={KEY}\nlisten_port=12912\nfwmark=51\nreplace_peers=true\n\
         public_key={KEY}\nreplace_allowed_ips=true\nallowed_ip=192.168.4.4/32\n\
         endpoint=[abcd:23::33%2]:51820\npreshared_key={KEY}\n\
         public_key={ZERO}\nupdate_only=true\npersistent_keepalive_interval=111\n\
         endpoint=182.122.22.19:3233\nprotocol_version=1\npublic_key={KEY}\nremove=true\n\n"
    ))
    .unwrap();

    let Change::Set(private_key) = &request.interface.private_key else {
        panic!("the private key is set");
    };
    assert_eq!(private_key.as_bytes()[1], 0x4b);
    assert_eq!(request.interface.listen_port, Some(12912));
    let mark = FirewallMark(NonZeroU32::new(51).unwrap());
    assert_eq!(request.interface.fwmark, Change::Set(mark));
    assert!(request.interface.replace_peers);

    let [first, second, third] = &request.peers[..] else {
        panic!("three sections");
    };
    assert_eq!(first.public_key.as_bytes()[..2], [0xe8, 0x4b]);
    assert!(first.replace_allowed_ips && !first.remove && !first.update_only);
    let range = Prefix::around("192.168.4.4".parse().unwrap(), 32).unwrap();
    assert_eq!(first.allowed_ips, [AllowedIpChange::Add(range)]);
    let scoped: SocketAddr = "[abcd:23::33%2]:51820".parse().unwrap();
    assert_eq!(first.endpoint, Some(scoped.into()));
    assert!(matches!(&first.preshared_key, Change::Set(key) if key.as_bytes()[0] == 0xe8));
    assert_eq!(second.public_key, PublicKey::from_bytes([0; 32]));
    assert!(second.update_only);
    let keepalive = KeepaliveInterval(NonZeroU16::new(111).unwrap());
    assert_eq!(second.keepalive, Change::Set(keepalive));
    assert!(third.remove);
}

#[test]
fn an_empty_set_changes_nothing() {
    assert_eq!(parse("set=1\n\n").unwrap(), SetRequest::default());
}

#[test]
fn zero_removes_keys_marks_and_keepalives() {
    let request = parse(&format!(
        "set=1\nprivate_key={ZERO}\nfwmark=0\npublic_key={KEY}\npreshared_key={ZERO}\n\
         persistent_keepalive_interval=0\n\n"
    ))
    .unwrap();
    assert!(matches!(request.interface.private_key, Change::Remove));
    assert_eq!(request.interface.fwmark, Change::Remove);
    assert!(matches!(request.peers[0].preshared_key, Change::Remove));
    assert_eq!(request.peers[0].keepalive, Change::Remove);
    assert_eq!(
        interface_line("fwmark=").unwrap().interface.fwmark,
        Change::Remove
    );
}

#[test]
fn the_cipher_may_be_named_for_the_interface_and_for_a_peer() {
    let request = interface_line("cipher=aes256gcm").unwrap();
    assert_eq!(request.interface.suite, Some(Suite::Aes256Gcm));
    let request = peer_line("cipher=chacha20poly1305").unwrap();
    assert_eq!(request.peers[0].suite, Change::Set(Suite::ChaCha20Poly1305));
    let request = peer_line("cipher=").unwrap();
    assert_eq!(request.peers[0].suite, Change::Remove);
}

#[test]
fn a_minus_removes_an_allowed_ip() {
    let request = peer_line("allowed_ip=10.0.0.0/8\nallowed_ip=-10.1.0.0/16").unwrap();
    let prefix = |address: &str, length| Prefix::around(address.parse().unwrap(), length).unwrap();
    assert_eq!(
        request.peers[0].allowed_ips,
        [
            AllowedIpChange::Add(prefix("10.0.0.0", 8)),
            AllowedIpChange::Remove(prefix("10.1.0.0", 16)),
        ]
    );
}

#[test]
fn allowed_ips_before_replace_allowed_ips_are_replaced_too() {
    let lines = "allowed_ip=10.0.0.0/8\nreplace_allowed_ips=true\nallowed_ip=::/0";
    let request = peer_line(lines).unwrap();
    let all = Prefix::around("::".parse().unwrap(), 0).unwrap();
    assert_eq!(request.peers[0].allowed_ips, [AllowedIpChange::Add(all)]);
}

#[test]
fn host_bits_of_an_allowed_ip_are_cleared() {
    for (given, stored) in [
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("255.255.255.255/0", "0.0.0.0/0"),
        ("10.1.2.3/32", "10.1.2.3/32"),
        ("2001:db8::ffff/33", "2001:db8::/33"),
        ("ffff::1/0", "::/0"),
        ("::ffff:10.0.0.0/104", "::ffff:10.0.0.0/104"),
    ] {
        let request = peer_line(&format!("allowed_ip={given}")).unwrap();
        let [AllowedIpChange::Add(prefix)] = request.peers[0].allowed_ips[..] else {
            panic!("{given} is added");
        };
        assert_eq!(prefix.to_string(), stored);
    }
}

#[test]
fn an_endpoint_may_be_scoped_by_interface_name() {
    let request = peer_line("endpoint=[fe80::1%eth0]:51820").unwrap();
    let endpoint = request.peers[0].endpoint.clone().unwrap();
    let eth0 = InterfaceName::new("eth0").unwrap();
    assert_eq!(endpoint.interface.as_ref(), Some(&eth0));
    let resolved = endpoint
        .resolve(|name| (*name == eth0).then_some(7))
        .unwrap();
    assert_eq!(resolved, "[fe80::1%7]:51820".parse().unwrap());
    assert!(endpoint.resolve(|_| None).is_err());
}

#[test]
fn an_ipv4_mapped_endpoint_is_ipv4() {
    let request = peer_line("endpoint=[::ffff:192.0.2.1]:1").unwrap();
    let plain: SocketAddr = "192.0.2.1:1".parse().unwrap();
    assert_eq!(request.peers[0].endpoint, Some(Endpoint::from(plain)));
}

#[test]
fn values_out_of_range_are_invalid() {
    for line in [
        "private_key=",
        "private_key=e84b",
        "private_key=x84b5a6d2717c1003a13b431570353dbaca9146cf150c5f8575680feba52027a",
        "listen_port=65536",
        "listen_port=+1",
        "listen_port=-1",
        "listen_port=",
        "listen_port=0x10",
        "listen_port= 1",
        "listen_port=1\r",
        "fwmark=4294967296",
        "fwmark=off",
        "replace_peers=false",
        "replace_peers=1",
        "cipher=",
        "cipher=none",
        "public_key=",
        "public_key=00",
    ] {
        assert_invalid(interface_line(line), line);
    }
    for line in [
        "remove=false",
        "update_only=TRUE",
        "replace_allowed_ips=",
        "preshared_key=00",
        "persistent_keepalive_interval=65536",
        "persistent_keepalive_interval=off",
        "protocol_version=2",
        "cipher=CHACHA20POLY1305",
        "allowed_ip=10.0.0.0",
        "allowed_ip=10.0.0.0/33",
        "allowed_ip=::/129",
        "allowed_ip=10.0.0.0/+8",
        "allowed_ip=--10.0.0.0/8",
        "allowed_ip=10.0.0/8",
        "allowed_ip=fe80::%1/64",
        "allowed_ip=",
        "endpoint=1.2.3.4",
        "endpoint=1.2.3.4:65536",
        "endpoint=1.2.3.4:",
        "endpoint=[1.2.3.4]:1",
        "endpoint=2001:db8::1:1",
        "endpoint=[2001:db8::1:1",
        "endpoint=[fe80::1%]:1",
        "endpoint=[fe80::1%a/b]:1",
        "endpoint=[::ffff:1.2.3.4%1]:1",
        "endpoint=example.com:51820",
    ] {
        assert_invalid(peer_line(line), line);
    }
}

#[test]
fn a_key_in_the_wrong_section_is_refused() {
    for line in [
        "endpoint=1.2.3.4:1",
        "remove=true",
        "protocol_version=1",
        "PRIVATE_KEY=0",
    ] {
        assert_eq!(
            interface_line(line).unwrap_err().reason,
            RequestErrorReason::UnknownKey
        );
    }
    for line in [
        "listen_port=1",
        "replace_peers=true",
        "errno=0",
        "tx_bytes=1",
        "=",
        " remove=true",
    ] {
        assert_eq!(
            peer_line(line).unwrap_err().reason,
            RequestErrorReason::UnknownKey
        );
    }
}

#[test]
fn the_error_names_the_line_and_answers_its_number() {
    let error = parse(&format!(
        "set=1\nlisten_port=1\npublic_key={KEY}\nfoo=1\nbar\n\n"
    ))
    .unwrap_err();
    assert_eq!((error.line, error.errno()), (4, Errno::INVALID));
    let error = interface_line("private_key").unwrap_err();
    assert_eq!(error.reason, RequestErrorReason::NotKeyAndValue);
    assert_eq!((error.line, error.errno()), (2, Errno::PROTOCOL));
    let error = parse_set(b"set=1\nfwmark=\xff\n\n").unwrap_err();
    assert_eq!(error.reason, RequestErrorReason::NotText);
    assert_eq!(parse("set=2\n\n").unwrap_err().errno(), Errno::INVALID);
    assert_eq!(parse("\n").unwrap_err().errno(), Errno::PROTOCOL);
}

#[test]
fn an_error_never_repeats_what_the_client_wrote() {
    for line in [
        format!("public_key={KEY}00"),
        format!("{KEY}=1"),
        KEY.to_owned(),
    ] {
        let error = interface_line(&line).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(&KEY[..8]));
    }
}

#[test]
fn a_request_without_its_empty_line_is_truncated() {
    let truncated = |text| parse(text).unwrap_err().reason;
    assert_eq!(
        truncated("set=1\nlisten_port=1\n"),
        RequestErrorReason::Truncated
    );
    assert_eq!(
        truncated("set=1\nlisten_port=1"),
        RequestErrorReason::Truncated
    );
    assert_eq!(truncated("set"), RequestErrorReason::Truncated);
    assert_eq!(truncated(""), RequestErrorReason::Truncated);
}

#[test]
fn the_end_of_a_connection_is_an_error_only_within_a_request() {
    for (text, end) in [
        ("", None),
        ("get=1\n\n", None),
        ("g", Some(RequestErrorReason::Truncated)),
        ("get=1\n", Some(RequestErrorReason::Truncated)),
        ("get=2\n", Some(RequestErrorReason::UnknownOperation)),
        ("get=1\n\ng", Some(RequestErrorReason::Truncated)),
    ] {
        let mut parser = RequestParser::new();
        let mut bytes = text.as_bytes();
        while !bytes.is_empty() {
            let _ = parser.handle_bytes(&mut bytes);
        }
        assert_eq!(
            parser.handle_end().map(|error| error.reason),
            end,
            "{text:?}"
        );
    }
}

#[test]
fn keys_may_have_digits_of_either_case() {
    let upper = format!("set=1\npublic_key={}\n\n", KEY.to_uppercase());
    let lower = format!("set=1\npublic_key={KEY}\n\n");
    assert_eq!(parse(&upper).unwrap(), parse(&lower).unwrap());
}

#[test]
fn the_longest_line_is_parsed_and_a_longer_one_is_refused() {
    let zeros = |count| format!("listen_port={}1", "0".repeat(count));
    let longest = zeros(MAX_LINE - "listen_port=1".len());
    assert_eq!(longest.len(), MAX_LINE);
    assert_eq!(
        interface_line(&longest).unwrap().interface.listen_port,
        Some(1)
    );
    let error = interface_line(&format!("{longest}0")).unwrap_err();
    assert_eq!(error.reason, RequestErrorReason::LineTooLong);
    assert_eq!(error.errno(), Errno::PROTOCOL);
}

#[test]
fn the_largest_request_is_parsed_and_a_larger_one_is_refused() {
    let mut request = b"set=1\n".to_vec();
    request.extend(b"fwmark=\n".repeat((MAX_REQUEST - request.len() - 10) / 8));
    request.extend(b"fwmark=7\n\n");
    assert_eq!(request.len(), MAX_REQUEST);
    parse_set(&request).unwrap();
    request.splice(6..6, *b"fwmark=7\n");
    let error = parse_set(&request).unwrap_err();
    assert_eq!(error.reason, RequestErrorReason::RequestTooLarge);
    assert_eq!(error.errno(), Errno::TOO_BIG);
}

#[test]
fn a_connection_carries_several_requests_in_pieces_of_any_size() {
    let text = format!(
        "get=1\n\nset=1\nbad\npublic_key={KEY}\n\nculvert_status=1\n\nset=1\n\nget=1\nx=1\n\n"
    );
    for piece_len in 1..text.len() {
        let mut parser = RequestParser::new();
        let mut requests = Vec::new();
        for mut piece in text.as_bytes().chunks(piece_len) {
            while !piece.is_empty() {
                requests.extend(parser.handle_bytes(&mut piece));
            }
        }
        assert_eq!(parser.handle_end(), None);
        let error = |line, reason| Err(RequestError { line, reason });
        assert_eq!(
            requests,
            [
                Ok(Request::Get),
                error(2, RequestErrorReason::NotKeyAndValue),
                Ok(Request::Status),
                Ok(Request::Set(SetRequest::default())),
                error(2, RequestErrorReason::UnknownKey),
            ]
        );
    }
}

#[test]
fn interface_names_are_safe_as_file_names() {
    for name in ["wg0", "a", "show", "wg-home", "tun0.100", "a234567890abcde"] {
        assert_eq!(InterfaceName::new(name).unwrap().as_str(), name);
    }
    for name in [
        "",
        ".",
        "..",
        "a/b",
        "../x",
        "wg 0",
        "wg%d",
        "-f",
        "a:1",
        "wg\n",
        "wgé",
        "a234567890abcdef",
    ] {
        assert!(InterfaceName::new(name).is_err(), "{name:?}");
    }
}

fn parse(text: &str) -> Result<SetRequest, RequestError> {
    parse_set(text.as_bytes())
}

fn interface_line(line: &str) -> Result<SetRequest, RequestError> {
    parse(&format!("set=1\n{line}\n\n"))
}

fn peer_line(lines: &str) -> Result<SetRequest, RequestError> {
    parse(&format!("set=1\npublic_key={KEY}\n{lines}\n\n"))
}

fn assert_invalid(outcome: Result<SetRequest, RequestError>, line: &str) {
    let error = outcome.expect_err(line);
    assert!(
        matches!(error.reason, RequestErrorReason::InvalidValue { .. }),
        "{line}: {error}"
    );
    assert_eq!(error.errno(), Errno::INVALID, "{line}");
}
