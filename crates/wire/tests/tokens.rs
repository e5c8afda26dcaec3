//! Tokens: what is accepted, what is said about the rest, and that nothing leaks.

use culvert_base::UnixTime;
use culvert_ids::TokenId;
use culvert_wire::token::{Bearer, CertificatePin, Portal, Secret, Token, TokenError, TokenKind};
use proptest::prelude::*;

fn token(kind: TokenKind, portal: Option<Portal>) -> Token {
    Token {
        bearer: Bearer {
            kind,
            id: TokenId::new(UnixTime::from_millis(1_790_000_000_000), [3; 10]),
            secret: Secret::new([7; 32]),
        },
        portal,
    }
}

#[test]
fn a_token_says_its_kind_and_its_id() {
    let token = token(TokenKind::Gateway, None);
    let text = token.expose();
    let id = token.bearer.id.to_string();
    let expected = format!("cv_gateway_{}.", id.trim_start_matches("tok_"));
    assert!(text.starts_with(&expected));
}

#[test]
fn a_token_carries_where_the_portal_is_and_how_to_know_it() {
    let pin = CertificatePin::of(b"certificate");
    let portal = Portal::new("https://[2001:db8::1]:8443/", Some(pin)).unwrap();
    assert_eq!(portal.url, "https://[2001:db8::1]:8443");
    let text = token(TokenKind::Client, Some(portal.clone())).expose();
    let parsed: Token = text.parse().unwrap();
    assert_eq!(parsed.portal, Some(portal));
    assert_eq!(pin.to_string().parse(), Ok(pin));
}

#[test]
fn a_token_of_another_kind_is_refused_by_name() {
    let text = token(TokenKind::Api, None).expose();
    let error = Token::parse_as(&text, TokenKind::Client).unwrap_err();
    assert_eq!(
        error.to_string(),
        "this is a token of kind `api`, but one of kind `client` is needed here"
    );
}

#[test]
fn a_secret_is_in_no_debug_text() {
    let token = token(TokenKind::Client, None);
    let secret = token.expose().rsplit_once('.').unwrap().1.to_owned();
    assert!(!format!("{token:?}").contains(&secret));
    assert!(format!("{token:?}").contains("Secret(…)"));
}

#[test]
fn a_secret_is_known_by_its_digest() {
    let right = Secret::new([7; 32]).digest();
    let wrong = Secret::new([8; 32]).digest();
    assert_eq!(right, Secret::new([7; 32]).digest());
    assert_ne!(right, wrong);
}

#[test]
fn every_fault_of_a_token_has_a_message_of_its_own() {
    let whole = token(TokenKind::Client, None).expose();
    let cut = &whole[..whole.len() - 1];
    for (text, expected) in [
        ("", TokenError::Prefix),
        ("nothing", TokenError::Prefix),
        ("cv_", TokenError::Kind),
        ("cv_king_x.y", TokenError::Kind),
        ("cv_client_x", TokenError::Secret),
        ("cv_client_x.y", TokenError::Id),
        (cut, TokenError::Secret),
        (&format!("{}.!", *whole), TokenError::Portal),
        (&format!("{}.e30", *whole), TokenError::Portal),
        (&"x".repeat(1025), TokenError::TooLong),
    ] {
        assert_eq!(text.parse::<Token>().unwrap_err(), expected, "{text}");
    }
}

#[test]
fn a_portal_is_reached_by_https_alone() {
    for url in [
        "http://portal.example",
        "portal.example",
        "https://",
        "https://user@portal.example",
        "https://portal.example/path",
        "https://portal.example?x",
        "https://portal.example\n",
    ] {
        assert_eq!(Portal::new(url, None), Err(TokenError::Url), "{url}");
    }
}

#[test]
fn a_portal_is_where_somebody_can_connect_to() {
    for (url, part) in [
        ("https://portal.example:99999", "65535"),
        ("https://portal.example:99999/", "65535"),
        ("https://portal.example:0", "65535"),
        ("https://portal.example:65536", "65535"),
        ("https://[::1]:99999", "65535"),
        ("https://portal.example:", "65535"),
        ("https://:8443", "names no host"),
        ("https://10.0.0.300", "IPv4"),
        ("https://2001:db8::1", "brackets"),
        ("https://[2001:db8::1", "brackets"),
    ] {
        let error = Portal::new(url, None).unwrap_err().to_string();
        assert!(error.contains(part), "{url}: {error}");
    }
    for port in ["+443", "44x", "-1", " 443", "443:443"] {
        let url = format!("https://portal.example:{port}");
        assert!(Portal::new(&url, None).is_err(), "{url}");
    }
}

#[test]
fn the_port_that_browsers_leave_out_is_left_out() {
    for (url, path) in [
        ("https://portal.example:443", "https://portal.example"),
        ("https://portal.example:443/", "https://portal.example"),
        ("https://[::1]:443", "https://[::1]"),
        ("https://portal.example:8443", "https://portal.example:8443"),
        ("https://portal.example:4443", "https://portal.example:4443"),
    ] {
        assert_eq!(Portal::new(url, None).unwrap().url, path);
    }
}

proptest! {
    #[test]
    fn every_token_survives_its_text(id: [u8; 16], secret: [u8; 32], kind in 0..4_usize) {
        let token = Token {
            bearer: Bearer {
                kind: TokenKind::ALL[kind],
                id: TokenId::from_bytes(id),
                secret: Secret::new(secret),
            },
            portal: None,
        };
        let parsed: Token = format!(" {}\n", *token.expose()).parse().unwrap();
        prop_assert_eq!(parsed.bearer.kind, token.bearer.kind);
        prop_assert_eq!(parsed.bearer.id, token.bearer.id);
        prop_assert_eq!(parsed.bearer.secret.digest(), token.bearer.secret.digest());
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "(cv_)?(client_)?[0-9a-z]{0,26}\\.?\\PC{0,60}") {
        let _any = text.parse::<Token>();
    }
}
