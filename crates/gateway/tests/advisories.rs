//! Faults of other products that are tried here: a gateway that believes a grant because it looks
//! like one.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use culvert_base::{BootTime, UnixTime};
use culvert_gateway_core::{Gateway, Options, Output, PeerUpdate};
use culvert_ids::{ClientId, GatewayId, GrantId, ResourceId};
use culvert_wire::messages::{
    FromGateway, GrantLabels, Interface, Ranges, ReasonCode, Sequenced, ToGateway,
};
use culvert_wire::model::{Filter, Target, TargetKind};
use culvert_wire::{
    Cipher, GrantClaims, GrantTarget, PROTOCOL, PresharedKey, PublicKey, Timestamp, encode,
};
use pasetors::keys::AsymmetricSecretKey;
use pasetors::version4::{PublicToken, V4};

/// A function that changes the usual claims.
type Change<'a> = &'a dyn Fn(&mut GrantClaims);

/// The portal's clock at the gateway's first millisecond.
const UNIX_MS: u64 = 1_800_000_000_000;
const START: BootTime = BootTime::ZERO;
const GATEWAY: GatewayId = GatewayId::from_bytes([1; 16]);

/// Somebody who signs: the portal, or who would like to be taken for it.
struct Signer {
    secret: AsymmetricSecretKey<V4>,
    public: Vec<u8>,
}

impl Signer {
    fn new(seed: [u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        let public = pair.public_key().as_ref().to_vec();
        let secret = AsymmetricSecretKey::from(&[&seed, public.as_slice()].concat()).unwrap();
        Self { secret, public }
    }

    fn sign(&self, claims: &GrantClaims) -> String {
        let payload = serde_json::to_vec(claims).unwrap();
        PublicToken::sign(&self.secret, &payload, None, None).unwrap()
    }
}

fn portal() -> Signer {
    Signer::new([7; 32])
}

fn claims() -> GrantClaims {
    GrantClaims {
        grant: GrantId::from_bytes([2; 16]),
        client: ClientId::from_bytes([3; 16]),
        client_key: PublicKey::from_bytes([4; 32]),
        client_ipv4: "100.64.0.9".parse().unwrap(),
        client_ipv6: "fd00:2021:1111::9".parse().unwrap(),
        gateway: GATEWAY,
        resource: ResourceId::from_bytes([5; 16]),
        target: address("10.0.0.1"),
        inbound: Vec::new().into(),
        filters: vec![Filter::Any].into(),
        cipher: Cipher::ChaCha20Poly1305,
        plain: false,
        iat: Timestamp::from_unix_ms(UNIX_MS),
        exp: Timestamp::from_unix_ms(UNIX_MS + 3_600_000),
    }
}

fn address(text: &str) -> GrantTarget {
    let (kind, address) = (TargetKind::Address, text.to_owned());
    Target { kind, address }.into()
}

/// A gateway that the portal has welcomed.
struct Welcomed {
    gateway: Gateway,
    seq: u64,
}

impl Welcomed {
    fn new() -> Self {
        let options = Options {
            machine: "machine".to_owned(),
            name: "gateway".to_owned(),
            version: "0".to_owned(),
            public_key: PublicKey::from_bytes([9; 32]),
            ciphers: vec![Cipher::ChaCha20Poly1305],
        };
        let mut gateway = Gateway::new(options, Vec::new(), [1; 32], START);
        gateway.handle_timeout(START);
        gateway.handle_connected(UnixTime::from_millis(UNIX_MS), START);
        let mut welcomed = Self { gateway, seq: 0 };
        welcomed.say(ToGateway::Welcome {
            protocol: PROTOCOL,
            gateway: GATEWAY,
            site: None,
            site_name: None,
            interface: Interface {
                ipv4: "100.64.0.1".parse().unwrap(),
                ipv6: "fd00:2021:1111::1".parse().unwrap(),
            },
            ranges: Ranges {
                machines_ipv4: "100.64.0.0/11".to_owned(),
                machines_ipv6: "fd00:2021:1111::/107".to_owned(),
                names_ipv4: "100.96.0.0/11".to_owned(),
                names_ipv6: "fd00:2021:1111:8000::/107".to_owned(),
            },
            grant_keys: vec![STANDARD.encode(portal().public)],
            grants: Vec::new(),
            more_grants: false,
            draining: false,
            verification_awaited: false,
            portals: culvert_wire::messages::PortalSet::default(),
        });
        welcomed.outputs();
        welcomed
    }

    fn say(&mut self, message: ToGateway) {
        self.seq += 1;
        let (epoch, seq) = (1, self.seq);
        let message = Sequenced {
            epoch,
            seq,
            message,
        };
        self.gateway.handle_text(&encode(&message), START);
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.gateway.poll_output()).collect()
    }

    /// The gateway's reaction to a token: the peers that it tells the data plane, and its answer.
    fn take(&mut self, token: &str) -> (Vec<PeerUpdate>, Option<FromGateway>) {
        self.say(ToGateway::Grant {
            token: token.to_owned(),
            preshared_key: PresharedKey::from_bytes([6; 32]),
            replaces: None,
            names: Vec::new(),
            labels: GrantLabels::default(),
        });
        let (mut updates, mut answer) = (Vec::new(), None);
        for output in self.outputs() {
            match output {
                Output::Engine { peers, .. } => updates.extend(peers),
                Output::ToPortal(message) => answer = Some(message),
                Output::Disconnect | Output::End(_) => panic!("the session goes on"),
                _ => {}
            }
        }
        (updates, answer)
    }

    #[track_caller]
    fn assert_opens_nothing(&mut self, token: &str) -> Option<ReasonCode> {
        let refused = self.gateway.counters().refused;
        let (updates, answer) = self.take(token);
        assert_eq!(updates, [], "{token}");
        assert_eq!(self.gateway.grants().count(), 0, "{token}");
        assert_eq!(self.gateway.client_count(), 0, "{token}");
        assert_eq!(self.gateway.counters().refused, refused + 1, "{token}");
        match answer {
            Some(FromGateway::GrantRefused { reason, .. }) => Some(reason.code),
            // A grant without a readable id can't be named in an answer.
            None => None,
            other => panic!("{other:?} to {token}"),
        }
    }
}

/// The parts of a token: header, and the body's bytes.
fn apart(token: &str) -> (&str, Vec<u8>) {
    let (header, body) = token.rsplit_once('.').unwrap();
    (header, URL_SAFE_NO_PAD.decode(body).unwrap())
}

fn together(header: &str, body: &[u8]) -> String {
    format!("{header}.{}", URL_SAFE_NO_PAD.encode(body))
}

#[test]
fn a_grant_that_the_portal_signed_is_taken() {
    let mut gateway = Welcomed::new();
    let (updates, answer) = gateway.take(&portal().sign(&claims()));
    assert!(matches!(updates[..], [PeerUpdate::Set { .. }]));
    assert!(matches!(answer, Some(FromGateway::GrantAccepted { .. })));
    assert_eq!(gateway.gateway.client_count(), 1);
}

/// CVE-2026-38651: a token whose signature nobody looked at.
#[test]
fn cve_2026_38651_a_grant_that_the_portal_did_not_sign_opens_nothing() {
    let mut gateway = Welcomed::new();
    let genuine = portal().sign(&claims());
    let forged = Signer::new([8; 32]).sign(&claims());
    assert_eq!(
        gateway.assert_opens_nothing(&forged),
        Some(ReasonCode::BadGrant)
    );

    let (header, body) = apart(&genuine);
    for bit in 0..body.len() * 8 {
        let mut other = body.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        gateway.assert_opens_nothing(&together(header, &other));
    }
    let signature = body.len() - 64;
    for len in [0, 1, 63, 64, 65, signature, body.len() - 1] {
        gateway.assert_opens_nothing(&together(header, &body[..len]));
    }
    let blank = [&body[..signature], &[0; 64]].concat();
    gateway.assert_opens_nothing(&together(header, &blank));
    let twice = [body.as_slice(), &body[signature..]].concat();
    gateway.assert_opens_nothing(&together(header, &twice));

    // The signature of something else that the portal has signed.
    let mut wider = claims();
    wider.target = address("10.0.0.2");
    let wider = serde_json::to_vec(&wider).unwrap();
    let moved = [wider.as_slice(), &body[signature..]].concat();
    gateway.assert_opens_nothing(&together(header, &moved));
}

/// OZ GHSA-4h58: who presents a token must not choose how it is checked.
#[test]
fn ghsa_4h58_a_grant_has_one_form_and_none_that_it_names_itself() {
    let mut gateway = Welcomed::new();
    let genuine = portal().sign(&claims());
    let (_, body) = apart(&genuine);
    for header in [
        "v4.local",
        "v3.public",
        "v2.public",
        "v1.public",
        "v5.public",
        "V4.PUBLIC",
        "v4.none",
        "v4.public.v4.public",
        "",
    ] {
        gateway.assert_opens_nothing(&together(header, &body));
    }
    // A JSON web token that says of itself that it needs no signature.
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
    let payload = serde_json::to_vec(&claims()).unwrap();
    gateway.assert_opens_nothing(&format!("{none}.{}.", URL_SAFE_NO_PAD.encode(&payload)));
    // A footer that somebody appended.
    gateway.assert_opens_nothing(&format!("{genuine}.{}", URL_SAFE_NO_PAD.encode("key-1")));
    for nothing in ["", ".", "v4.public.", "v4.public", "\u{1f980}"] {
        gateway.assert_opens_nothing(nothing);
    }
}

/// OZ GHSA-mrpr and GHSA-hhm9: a good proof, but of something else.
#[test]
fn ghsa_mrpr_a_well_signed_grant_is_worth_nothing_elsewhere_or_at_another_time() {
    let mut gateway = Welcomed::new();
    let ms = Timestamp::from_unix_ms;
    let with = |change: Change<'_>| {
        let mut claims = claims();
        change(&mut claims);
        portal().sign(&claims)
    };
    let cases: [(Change<'_>, ReasonCode); 7] = [
        (
            &|it| it.gateway = GatewayId::from_bytes([99; 16]),
            ReasonCode::BadGrant,
        ),
        (&|it| it.exp = ms(UNIX_MS), ReasonCode::Expired),
        (&|it| it.exp = ms(0), ReasonCode::Expired),
        (&|it| it.iat = ms(UNIX_MS + 60_001), ReasonCode::BadGrant),
        // Addresses that would let a client speak as a resource, or as the gateway.
        (
            &|it| it.client_ipv4 = "10.0.0.1".parse().unwrap(),
            ReasonCode::BadGrant,
        ),
        (
            &|it| it.client_ipv6 = "fd00:2021:1111::1".parse().unwrap(),
            ReasonCode::BadGrant,
        ),
        (
            &|it| it.target = address("10.0.0.0/8"),
            ReasonCode::BadGrant,
        ),
    ];
    for (number, (change, code)) in cases.into_iter().enumerate() {
        let refused = gateway.assert_opens_nothing(&with(change));
        assert_eq!(refused, Some(code), "case {number}");
    }
    // A second client must not get the key or an address of another one.
    gateway.take(&portal().sign(&claims()));
    let other = |change: Change<'_>| {
        with(&|it| {
            it.grant = GrantId::from_bytes([12; 16]);
            it.client = ClientId::from_bytes([13; 16]);
            it.client_key = PublicKey::from_bytes([14; 32]);
            it.client_ipv4 = "100.64.0.10".parse().unwrap();
            it.client_ipv6 = "fd00:2021:1111::10".parse().unwrap();
            change(it);
        })
    };
    let first = claims();
    let taken: [Change<'_>; 3] = [
        &|it| it.client_key = first.client_key,
        &|it| it.client_ipv4 = first.client_ipv4,
        &|it| it.client_ipv6 = first.client_ipv6,
    ];
    for change in taken {
        let (updates, answer) = gateway.take(&other(change));
        assert_eq!(updates, []);
        assert!(matches!(answer, Some(FromGateway::GrantRefused { .. })));
        assert_eq!(gateway.gateway.client_count(), 1);
    }
    let (updates, _) = gateway.take(&other(&|_| {}));
    assert!(matches!(updates[..], [PeerUpdate::Set { .. }]));
}
