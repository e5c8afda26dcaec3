//! Checks that an ID token proves who somebody is (OpenID Connect Core 1.0 §3.1.3.7).

use super::fault::{SignInFault, copyable, repeated};
use super::metadata::Keys;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_store::Provider;
use culvert_wire::Timestamp;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::time::Duration;

/// The largest accepted difference of the provider's clock, in seconds.
const LEEWAY_S: u64 = 60;

/// Algorithms by which tokens may be signed. Those with a shared secret are none of them: whoever has it
/// could make tokens, and a public key is no secret.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// The refusal of a text that is no JWT, or none of this kind.
const UNREADABLE: &str = "its token is not a readable JWT";

/// The values that a token must match.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    /// The time since the provider was told to ask the person anew; `None` if it was not told.
    pub(super) asked_anew: Option<Duration>,
}

/// The claims of a token that are believed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct IdClaims {
    /// The library compares it, but also accepts a list. OpenID Connect Core 1.0 §2 allows one string only.
    #[expect(
        dead_code,
        reason = "the library compares it; its type is checked here"
    )]
    iss: Option<String>,
    pub(super) sub: String,
    #[serde(default)]
    aud: Audience,
    azp: Option<String>,
    nonce: Option<String>,
    iat: Option<f64>,
    pub(super) auth_time: Option<Value>,
    #[serde(flatten)]
    pub(super) others: Map<String, Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(#[expect(dead_code, reason = "the library has compared it")] String),
    Several(Vec<String>),
    #[default]
    None,
}

/// The token's claims, once it is proven that this provider made them now, for this browser.
pub(super) fn check(token: &str, keys: &Keys, wanted: Wanted<'_>) -> Result<IdClaims, SignInFault> {
    let required = ["exp", "iss", "aud", "sub"];
    let claims = verify(token, keys, (wanted.issuer, wanted.client_id), &required)?;
    about(claims, wanted)
}

/// The claims of a signed answer of the userinfo endpoint. Core §5.3.2 wants issuer and audience in it, and no time.
pub(super) fn user_info(
    token: &str,
    keys: &Keys,
    provider: &Provider,
) -> Result<Map<String, Value>, SignInFault> {
    let parties = (&*provider.issuer, &*provider.client_id);
    verify_user_info(token, keys, parties)
}

fn verify_user_info(
    token: &str,
    keys: &Keys,
    parties: (&str, &str),
) -> Result<Map<String, Value>, SignInFault> {
    let claims: Map<String, Value> = verify(token, keys, parties, &["iss", "aud", "sub"])?;
    // The library accepts a list, which names no issuer.
    match claims.get("iss").is_some_and(Value::is_string) {
        true => Ok(claims),
        false => Err(SignInFault::token(UNREADABLE)),
    }
}

/// The claims of a token that one of the provider's keys has signed, from `issuer` for `client_id`.
fn verify<T: DeserializeOwned>(
    token: &str,
    keys: &Keys,
    (issuer, client_id): (&str, &str),
    required: &[&str],
) -> Result<T, SignInFault> {
    let header = decode_header(token);
    let header = header.map_err(|_| SignInFault::token(UNREADABLE))?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(SignInFault::token(
            "it is signed in a way that proves nothing",
        ));
    }
    // RFC 7515 §4.1.11: a signature with a critical extension that is not understood is invalid.
    if header.crit.is_some() {
        return Err(SignInFault::token(
            "it needs an extension that is not supported (crit)",
        ));
    }
    let mut validation = Validation::new(header.alg);
    validation.leeway = LEEWAY_S;
    validation.validate_nbf = true;
    validation.set_audience(&[client_id]);
    validation.set_issuer(&[issuer]);
    validation.set_required_spec_claims(required);
    let mut refused =
        SignInFault::Signature("it is signed by a key that the provider does not have");
    for key in keys.for_token(header.kid.as_deref()) {
        let Ok(key) = DecodingKey::from_jwk(key) else {
            continue;
        };
        match decode::<T>(token, &key, &validation) {
            Ok(token) => return Ok(token.claims),
            Err(error) => refused = refusal(error.kind(), token, (issuer, client_id)),
        }
        // Another key of the same id may have signed it.
        if !matches!(refused, SignInFault::Signature(_)) {
            break;
        }
    }
    Err(refused)
}

/// Checks the claims that the library does not compare.
fn about(claims: IdClaims, wanted: Wanted<'_>) -> Result<IdClaims, SignInFault> {
    let refuse = |why| Err(SignInFault::token(why));
    if claims.nonce.as_deref() != Some(wanted.nonce) {
        return refuse("it is not about this sign-in (nonce)");
    }
    let several = matches!(&claims.aud, Audience::Several(all) if all.len() > 1);
    match &claims.azp {
        Some(azp) if azp != wanted.client_id => {
            return refuse("it was made for somebody else (azp)");
        }
        None if several => return refuse("it is for several, and does not say for whom (azp)"),
        Some(_) | None => {}
    }
    let now_s = jsonwebtoken::get_current_timestamp();
    let Some(issued) = claims.iat else {
        return refuse("it does not say when it was made");
    };
    #[expect(clippy::cast_precision_loss, reason = "seconds stay far below 2^53")]
    let latest = (now_s + LEEWAY_S) as f64;
    if issued > latest {
        return refuse("it is from the future: compare the clocks");
    }
    if let Some(asked) = wanted.asked_anew {
        check_anew(claims.auth_time.as_ref(), now_s, asked)?;
    }
    Ok(claims)
}

/// Core §3.1.3.7, 13: the person signed in after the portal asked for it, as far as the clocks agree.
fn check_anew(auth_time: Option<&Value>, now_s: u64, asked: Duration) -> Result<(), SignInFault> {
    let refuse = |why: String| Err(SignInFault::NotAnew(why));
    let earliest_s = now_s.saturating_sub(asked.as_secs() + LEEWAY_S);
    let latest_s = now_s + LEEWAY_S;
    let expected = format!("expected is a time from {} on", instant(earliest_s));
    let Some(said) = auth_time else {
        return refuse(format!("its ID token has no auth_time; {expected}"));
    };
    match seconds(said) {
        None => refuse(format!(
            "its auth_time is {}; {expected}",
            repeated(&said.to_string())
        )),
        Some(at_s) if (earliest_s..=latest_s).contains(&at_s) => Ok(()),
        Some(at_s) => {
            let latest = instant(latest_s);
            let said = instant(at_s);
            refuse(format!(
                "its auth_time is {said}; {expected}, and until {latest}: compare the clocks, and look whether the provider \
                 heeds prompt=login"
            ))
        }
    }
}

/// A time of a claim: seconds since 1970, perhaps with a fraction.
pub(super) fn seconds(claim: &Value) -> Option<u64> {
    const LATEST_S: f64 = 253_402_300_799.0; // the year 9999
    let said = claim
        .as_f64()
        .filter(|said| (0.0..=LATEST_S).contains(said))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is within the bounds, and a fraction of a second is no matter"
    )]
    Some(said as u64)
}

fn instant(at_s: u64) -> Timestamp {
    Timestamp::from_unix_ms(at_s.saturating_mul(1_000))
}

/// The reason for which a token is refused. A claim that differs is shown beside the expected
/// value: the signature was good then.
fn refusal(kind: &ErrorKind, token: &str, (issuer, client_id): (&str, &str)) -> SignInFault {
    let differs = |what: &str, claim: &str, expected: &str| {
        let came = said(token, claim);
        let text = format!("it is {what} ({claim}): {came} came, and {expected} was expected");
        SignInFault::Token(text.into())
    };
    match kind {
        ErrorKind::InvalidSignature => SignInFault::Signature("its signature is wrong"),
        ErrorKind::InvalidAlgorithm => {
            SignInFault::Signature("its key is not for the way in which it is signed")
        }
        ErrorKind::ExpiredSignature => SignInFault::token("it has expired: compare the clocks"),
        ErrorKind::ImmatureSignature => {
            SignInFault::token("it does not hold yet: compare the clocks")
        }
        ErrorKind::InvalidIssuer => differs("from another issuer", "iss", issuer),
        ErrorKind::InvalidAudience => differs("for somebody else", "aud", client_id),
        ErrorKind::MissingRequiredClaim(_) => {
            SignInFault::token("it lacks a claim that it must have")
        }
        _ => SignInFault::token(UNREADABLE),
    }
}

/// The value of a claim, for people to read and copy.
fn said(token: &str, claim: &str) -> String {
    let payload = token.split('.').nth(1).unwrap_or_default();
    let payload = URL_SAFE_NO_PAD.decode(payload).unwrap_or_default();
    let claims: Value = serde_json::from_slice(&payload).unwrap_or_default();
    match claims.get(claim) {
        Some(Value::String(text)) => copyable(text),
        Some(other) => copyable(&other.to_string()),
        None => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonwebtoken::jwk::Jwk;
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::json;

    const WANTED: Wanted<'_> = Wanted {
        issuer: "https://id.example",
        client_id: "culvert",
        nonce: "n",
        asked_anew: None,
    };

    /// A key as a provider has it, and as it tells it.
    fn key(kid: &str) -> (EncodingKey, Value) {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let key = EncodingKey::from_ec_der(pair.serialized_der());
        let mut told = Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap();
        told.common.key_id = Some(kid.to_owned());
        (key, serde_json::to_value(told).unwrap())
    }

    fn claims() -> Value {
        let now_s = jsonwebtoken::get_current_timestamp();
        json!({
            "iss": "https://id.example", "aud": "culvert", "sub": "1", "nonce": "n",
            "exp": now_s + 60, "iat": now_s, "groups": ["staff"],
        })
    }

    fn sign(key: &EncodingKey, kid: Option<&str>, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = kid.map(str::to_owned);
        encode(&header, claims, key).unwrap()
    }

    fn refused(token: &str, keys: &Keys) -> String {
        match check(token, keys, WANTED) {
            Err(SignInFault::Token(why)) => why.into_owned(),
            Err(SignInFault::Signature(why)) => why.to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_token_of_the_provider_about_this_sign_in_is_believed() {
        let (private, public) = key("a");
        let (_, other) = key("b");
        let keys = Keys::of(vec![other, json!({"kty": "strange"}), public]);
        for kid in [Some("a"), None] {
            let token = sign(&private, kid, &claims());
            let claims = check(&token, &keys, WANTED).unwrap();
            assert_eq!(claims.sub, "1");
            assert_eq!(claims.others["groups"], json!(["staff"]));
        }
        let mut several = claims();
        several["aud"] = json!(["culvert", "other"]);
        several["azp"] = json!("culvert");
        assert!(check(&sign(&private, Some("a"), &several), &keys, WANTED).is_ok());
    }

    #[test]
    fn what_a_token_says_wrongly_is_named() {
        let (private, public) = key("a");
        let keys = Keys::of(vec![public]);
        let now_s = jsonwebtoken::get_current_timestamp();
        for (claim, value, why) in [
            ("iss", json!("https://evil.example"), "another issuer"),
            (
                "aud",
                json!("other"),
                "other came, and culvert was expected",
            ),
            (
                "iss",
                json!("https://evil.example/\u{202e}"),
                "https://evil.example/\\u{202e} came, and https://id.example was expected",
            ),
            ("aud", json!(["culvert", "other"]), "does not say for whom"),
            ("azp", json!("other"), "somebody else (azp)"),
            ("nonce", json!("other"), "nonce"),
            ("nonce", Value::Null, "nonce"),
            ("exp", json!(now_s - LEEWAY_S - 10), "expired"),
            ("nbf", json!(now_s + LEEWAY_S + 100), "does not hold yet"),
            ("iat", json!(now_s + LEEWAY_S + 100), "future"),
            ("iat", Value::Null, "when it was made"),
        ] {
            let mut wrong = claims();
            wrong[claim] = value.clone();
            let why_not = refused(&sign(&private, Some("a"), &wrong), &keys);
            assert!(why_not.contains(why), "{claim} {value}: {why_not}");
        }
        for issuer in [json!(["https://id.example"]), json!([]), json!(7)] {
            let mut several = claims();
            several["iss"] = issuer;
            refused(&sign(&private, Some("a"), &several), &keys);
        }
        for claim in ["iss", "aud", "exp", "sub"] {
            let mut lacking = claims();
            lacking.as_object_mut().unwrap().remove(claim);
            refused(&sign(&private, Some("a"), &lacking), &keys);
        }
    }

    /// Somebody who left a browser open has a session at the provider too.
    #[test]
    fn a_sign_in_that_the_provider_did_not_ask_for_anew_is_refused_and_says_what_came() {
        let (private, public) = key("a");
        let keys = Keys::of(vec![public]);
        let now_s = jsonwebtoken::get_current_timestamp();
        let asked = Duration::from_secs(120);
        let wanted = Wanted {
            asked_anew: Some(asked),
            ..WANTED
        };
        let checked = |auth_time: Option<Value>| {
            let mut claims = claims();
            if let Some(auth_time) = auth_time {
                claims["auth_time"] = auth_time;
            }
            let token = sign(&private, Some("a"), &claims);
            assert!(check(&token, &keys, WANTED).is_ok(), "nobody asked for it");
            check(&token, &keys, wanted).map(drop)
        };
        #[expect(clippy::cast_precision_loss, reason = "seconds stay far below 2^53")]
        let with_fraction = json!(now_s as f64 + 0.5);
        for good in [
            json!(now_s),
            with_fraction,
            json!(now_s - 120),
            json!(now_s - 120 - LEEWAY_S + 5),
            json!(now_s + LEEWAY_S - 5),
        ] {
            assert!(checked(Some(good.clone())).is_ok(), "{good}");
        }
        let day_ago = now_s - 86_400;
        for (wrong, says) in [
            (None, "no auth_time".to_owned()),
            (
                Some(json!(now_s - 120 - LEEWAY_S - 5)),
                "prompt=login".to_owned(),
            ),
            (
                Some(json!(now_s + LEEWAY_S + 5)),
                "compare the clocks".to_owned(),
            ),
            (Some(json!(day_ago)), instant(day_ago).to_string()),
            (Some(json!("soon")), "\"soon\"".to_owned()),
            (Some(json!(-1)), "-1".to_owned()),
            (Some(json!(1e300)), "1e+300".to_owned()),
            (Some(json!({"deep": "x".repeat(1_000)})), "deep".to_owned()),
        ] {
            let Err(SignInFault::NotAnew(why)) = checked(wrong.clone()) else {
                panic!("{wrong:?}");
            };
            assert!(why.contains(&says), "{wrong:?}: {why}");
            assert!(
                why.contains("expected is a time from 20") && why.len() < 500,
                "{why}"
            );
        }
    }

    #[test]
    fn a_token_with_a_critical_extension_is_refused() {
        let (private, public) = key("a");
        let mut header = Header::new(Algorithm::ES256);
        header.crit = Some(vec!["exp".to_owned()]);
        let token = encode(&header, &claims(), &private).unwrap();
        let why = refused(&token, &Keys::of(vec![public]));
        assert!(why.contains("crit"), "{why}");
    }

    #[test]
    fn a_token_that_somebody_else_signed_is_refused() {
        let (private, public) = key("a");
        let (forger, told) = key("a");
        let keys = Keys::of(vec![public.clone()]);
        let forged = sign(&forger, Some("a"), &claims());
        assert_eq!(refused(&forged, &keys), "its signature is wrong");
        let unknown = sign(&forger, Some("c"), &claims());
        assert!(refused(&unknown, &keys).contains("does not have"));
        // A key that is for something else signs nothing.
        let mut for_encryption = told;
        for_encryption["use"] = json!("enc");
        let keys = Keys::of(vec![for_encryption]);
        assert!(refused(&forged, &keys).contains("does not have"));
        // The claims of one, the signature of another.
        let keys = Keys::of(vec![public]);
        let (good, mut other) = (sign(&private, Some("a"), &claims()), claims());
        other["sub"] = json!("2");
        let other = sign(&private, Some("a"), &other);
        let parts: Vec<_> = good.split('.').collect();
        let mixed = format!(
            "{}.{}.{}",
            parts[0],
            other.split('.').nth(1).unwrap(),
            parts[2]
        );
        assert_eq!(refused(&mixed, &keys), "its signature is wrong");
    }

    /// RFC 8725 §2.1: nobody signs by "none", nor with the public key as a shared secret.
    #[test]
    fn a_token_whose_signature_proves_nothing_is_refused() {
        let (_, public) = key("a");
        let keys = Keys::of(vec![public.clone()]);
        let secret = EncodingKey::from_secret(public.to_string().as_bytes());
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some("a".to_owned());
        let shared = encode(&header, &claims(), &secret).unwrap();
        assert!(refused(&shared, &keys).contains("proves nothing"));
        let (_, rest) = shared.split_once('.').unwrap();
        // {"alg":"none"}
        let unsigned = format!("eyJhbGciOiJub25lIn0.{rest}");
        for token in [
            &unsigned,
            "",
            "a.b.c",
            "a.b",
            "..",
            "eyJhbGciOiJub25lIn0.e30.",
        ] {
            assert_eq!(refused(token, &keys), UNREADABLE, "{token}");
        }
    }

    #[test]
    fn a_key_is_to_blame_only_where_other_keys_could_help() {
        let (private, public) = key("a");
        let (_, other) = key("a");
        let is_about_keys = |keys: Vec<Value>, claims: &Value, kid| {
            let token = sign(&private, kid, claims);
            let checked = check(&token, &Keys::of(keys), WANTED);
            matches!(checked, Err(SignInFault::Signature(_)))
        };
        let mut expired = claims();
        expired["exp"] = json!(1);
        assert!(is_about_keys(vec![other.clone()], &claims(), Some("a")));
        assert!(is_about_keys(vec![other.clone()], &claims(), None));
        assert!(is_about_keys(vec![], &claims(), Some("a")));
        assert!(!is_about_keys(vec![public.clone()], &expired, Some("a")));
        // Two keys of one id, while one takes the place of the other.
        let token = sign(&private, Some("a"), &claims());
        for keys in [vec![other.clone(), public.clone()], vec![public, other]] {
            assert!(check(&token, &Keys::of(keys.clone()), WANTED).is_ok());
            assert!(!is_about_keys(keys, &expired, Some("a")));
        }
    }

    #[test]
    fn userinfo_needs_issuer_audience_and_subject_and_no_time() {
        let (private, public) = key("a");
        let keys = Keys::of(vec![public]);
        let parties = (WANTED.issuer, WANTED.client_id);
        let read = |claims: &Value| {
            let token = sign(&private, Some("a"), claims);
            verify_user_info(&token, &keys, parties)
        };
        let good = json!({"iss": "https://id.example", "aud": ["culvert"], "sub": "1"});
        assert_eq!(json!(read(&good).unwrap()), good);
        for (claim, value) in [
            ("iss", json!("https://evil.example")),
            ("iss", json!(["https://id.example"])),
            ("iss", Value::Null),
            ("aud", json!("other")),
            ("aud", Value::Null),
            ("exp", json!(1)),
        ] {
            let mut wrong = good.clone();
            match value {
                Value::Null => drop(wrong.as_object_mut().unwrap().remove(claim)),
                ref value => wrong[claim] = value.clone(),
            }
            assert!(read(&wrong).is_err(), "{claim} {value}");
        }
    }
}
