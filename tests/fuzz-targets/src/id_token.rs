use crate::signer::{Signer, decode, encode};
use culvert_portal_auth::fuzzing;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

const ISSUER: &str = "https://id.example";
const CLIENT: &str = "culvert";
const NONCE: &str = "n-0S6_WzA2Mj";
const WANTED: [&str; 3] = [ISSUER, CLIENT, NONCE];

/// The most that the provider's clock may be off, plus the duration of a run, in seconds.
const LEEWAY_S: f64 = 70.0;

/// Keys of a set that are looked at.
const MAX_KEYS: usize = 64;

/// Heads of tokens: the first two are good ones.
const HEADS: [&str; 8] = [
    r#"{"alg":"EdDSA","kid":"a"}"#,
    r#"{"alg":"EdDSA"}"#,
    r#"{"alg":"EdDSA","kid":"b"}"#,
    r#"{"alg":"none"}"#,
    r#"{"alg":"HS256","kid":"a"}"#,
    r#"{"alg":"ES256","kid":"a"}"#,
    r#"{"alg":"RS256"}"#,
    r#"{"alg":"EdDSA","kid":"a","crit":["x"],"x":1}"#,
];

/// The portal accepts an ID token only if the provider signed it, for this client and this sign-in, and it is
/// valid now. No key set without the provider's key makes a token valid.
///
/// The first byte says what the others are: a token, the claims of one that is signed, or a set of keys.
///
/// # Panics
/// If a property does not hold.
pub fn id_token(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    match kind % 3 {
        0 => {
            if let Ok(token) = std::str::from_utf8(rest) {
                any_token(token);
            }
        }
        1 => any_claims(rest),
        _ => any_keys(rest),
    }
}

fn provider() -> Signer {
    Signer::new(7)
}

fn key_set(key: &Signer) -> String {
    let x = encode(key.public());
    json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "use": "sig", "x": x}]})
        .to_string()
}

fn token(head: &str, claims: &[u8]) -> String {
    let signed = format!("{}.{}", encode(head.as_bytes()), encode(claims));
    let signature = encode(&provider().sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn any_token(token: &str) {
    let Ok(believed) = fuzzing::id_token(key_set(&provider()).as_bytes(), token, WANTED) else {
        return;
    };
    let (signed, signature) = token.rsplit_once('.').expect("a signature");
    let signature = decode(signature).expect("base64url");
    assert!(
        provider().has_signed(signed.as_bytes(), &signature),
        "{token}"
    );
    let (head, claims) = signed.split_once('.').expect("head and claims");
    let head: Value = serde_json::from_slice(&decode(head).expect("base64url")).expect("JSON");
    assert_eq!(head["alg"], "EdDSA");
    assert_good(&decode(claims).expect("base64url"), &believed);
}

fn any_claims(data: &[u8]) {
    let Some((&head, claims)) = data.split_first() else {
        return;
    };
    let head = usize::from(head) % HEADS.len();
    let token = token(HEADS[head], claims);
    let set = key_set(&provider());
    if let Ok(believed) = fuzzing::id_token(set.as_bytes(), &token, WANTED) {
        assert!(head < 2, "{}", HEADS[head]);
        assert_good(claims, &believed);
    }
    // The same, signed by somebody else.
    let set = key_set(&Signer::new(8));
    let stranger = fuzzing::id_token(set.as_bytes(), &token, WANTED);
    assert!(stranger.is_err(), "{stranger:?}");
}

/// OpenID Connect Core 1.0 §3.1.3.7, claim by claim.
fn assert_good(claims: &[u8], believed: &fuzzing::Believed) {
    let said: Value = serde_json::from_slice(claims).expect("JSON");
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now_s.expect("a clock behind 1970").as_secs_f64();
    assert_eq!(said["iss"], ISSUER, "{said}");
    assert_eq!(said["nonce"], NONCE, "{said}");
    assert_eq!(said["sub"], believed.subject.as_str(), "{said}");
    match &said["aud"] {
        Value::String(audience) => assert_eq!(audience, CLIENT),
        Value::Array(several) => {
            assert!(several.iter().any(|audience| audience == CLIENT), "{said}");
            assert!(several.len() == 1 || said["azp"] == CLIENT, "{said}");
        }
        other => panic!("{other} as audience"),
    }
    assert!(said["azp"].is_null() || said["azp"] == CLIENT, "{said}");
    let number = |claim: &str| said[claim].as_f64();
    assert!(
        number("exp").is_some_and(|exp| exp > now_s - LEEWAY_S),
        "{said}"
    );
    assert!(
        number("iat").is_some_and(|iat| iat < now_s + LEEWAY_S),
        "{said}"
    );
    assert!(
        number("nbf").is_none_or(|nbf| nbf < now_s + LEEWAY_S),
        "{said}"
    );
    for (claim, value) in &believed.others {
        assert_eq!(said[claim], *value, "{claim}");
    }
}

fn any_keys(set: &[u8]) {
    let token = token(HEADS[0], good_claims().to_string().as_bytes());
    if fuzzing::id_token(set, &token, WANTED).is_err() {
        return;
    }
    let said: Value = serde_json::from_slice(set).expect("JSON");
    let is_ours = |key: &Value| {
        key["kty"] == "OKP"
            && key["crv"] == "Ed25519"
            && key["kid"] == "a"
            && (key["use"].is_null() || key["use"] == "sig")
            && key["x"].as_str().and_then(decode).as_deref() == Some(provider().public())
    };
    let keys = said["keys"].as_array().expect("a list of keys");
    assert!(keys.iter().take(MAX_KEYS).any(is_ours), "{said}");
}

/// Good until the year 2286, whenever they are looked at.
fn good_claims() -> Value {
    json!({
        "iss": ISSUER, "aud": CLIENT, "sub": "1", "nonce": NONCE, "exp": 9_999_999_999_u64,
        "iat": 1_700_000_000, "groups": ["staff"],
    })
}

/// Good tokens, claims and sets of keys, and each with one thing that is not as it should be.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let good = good_claims();
    let mut claims = vec![good.clone()];
    for (claim, value) in [
        ("iss", json!("https://evil.example")),
        ("iss", json!([ISSUER])),
        ("aud", json!("other")),
        ("aud", json!([CLIENT])),
        ("aud", json!([CLIENT, "other"])),
        ("azp", json!(CLIENT)),
        ("azp", json!("other")),
        ("nonce", json!("other")),
        ("nonce", Value::Null),
        ("exp", json!(1)),
        ("exp", json!("9999999999")),
        ("exp", json!(1e300)),
        ("iat", json!(9_999_999_999_u64)),
        ("iat", Value::Null),
        ("nbf", json!(9_999_999_999_u64)),
        ("nbf", json!(1)),
        ("sub", json!(7)),
    ] {
        let mut other = good.clone();
        other[claim] = value;
        claims.push(other);
    }
    let mut several = good.clone();
    several["aud"] = json!([CLIENT, "other"]);
    several["azp"] = json!(CLIENT);
    claims.push(several);
    let mut seeds = Vec::new();
    for claims in &claims {
        let text = claims.to_string();
        seeds.push([&[0], token(HEADS[0], text.as_bytes()).as_bytes()].concat());
        seeds.push([&[1, 0], text.as_bytes()].concat());
    }
    let text = good.to_string();
    for head in 1..HEADS.len() as u8 {
        seeds.push([&[1, head], text.as_bytes()].concat());
        let token = token(HEADS[usize::from(head)], text.as_bytes());
        seeds.push([&[0], token.as_bytes()].concat());
    }
    let twice = text.replacen('{', r#"{"nonce":"other","exp":1,"#, 1);
    seeds.push([&[1, 0], twice.as_bytes()].concat());
    let ours = key_set(&provider());
    let p256 = r#"{"kty":"EC","crv":"P-256","kid":"a","x":"AA","y":"AA"}"#;
    let with = |key: &str| ours.replacen('[', &format!("[{key},"), 1);
    for set in [
        ours.clone(),
        key_set(&Signer::new(8)),
        ours.replace(r#""sig""#, r#""enc""#),
        ours.replace(r#""kid":"a""#, r#""kid":"b""#),
        with(r#"{"kty":"strange"}"#),
        with(p256),
        with(r#"{"kty":"oct","k":"AA","kid":"a"}"#),
        with(&[p256; MAX_KEYS].join(",")),
        with(r#"{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"a"}"#),
    ] {
        seeds.push([&[2], set.as_bytes()].concat());
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without these the target could refuse everything and look well.
    #[test]
    fn good_tokens_claims_and_keys_are_believed() {
        let good = good_claims().to_string();
        for head in &HEADS[..2] {
            let token = token(head, good.as_bytes());
            let believed = fuzzing::id_token(key_set(&provider()).as_bytes(), &token, WANTED);
            assert_eq!(believed.expect("good").subject, "1");
        }
    }
}
