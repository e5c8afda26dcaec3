//! From a code to who somebody is: the token endpoint, the ID token, and what more is to be known.

use super::Known;
use super::fault::SignInFault;
use super::fetch::Ask;
use super::flows::Flow;
use super::id_token::{self, Wanted};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_store::{MAX_SUBJECT_LEN, Provider, SecretBytes};
use serde::Deserialize;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

/// Values of the groups' claim that are looked at: the largest directories put some hundreds into a token.
const MAX_GROUPS: usize = 1_000;

/// Who somebody is at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    /// The only thing that somebody is known by.
    pub(crate) subject: String,
    /// What the person may be called, the best first.
    pub(crate) names: Vec<String>,
    /// The values of the groups' claim.
    pub(crate) groups: Vec<String>,
    /// The time of the sign-in there, in seconds, if the provider says it.
    pub(crate) authenticated_s: Option<u64>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: Option<String>,
    access_token: Option<String>,
}

/// RFC 6749 §5.2.
#[derive(Deserialize)]
struct TokenError {
    error: String,
    error_description: Option<String>,
}

#[derive(Deserialize)]
struct UserInfo {
    sub: String,
    #[serde(flatten)]
    others: Map<String, Value>,
}

pub(super) async fn redeem(
    known: &Known,
    provider: &Provider,
    secret: Option<&SecretBytes>,
    flow: &Flow,
    code: &str,
    redirect_uri: &str,
) -> Result<Claims, SignInFault> {
    let answer = exchange(known, provider, secret, flow, code, redirect_uri).await?;
    let token = answer.id_token.map(Zeroizing::new);
    let token = token.ok_or_else(|| SignInFault::Wrong("it gave no ID token".to_owned()))?;
    let wanted = Wanted {
        issuer: &provider.issuer,
        client_id: &provider.client_id,
        nonce: &flow.nonce,
        asked_anew: flow.purpose.must_be_anew().then(|| flow.age()),
    };
    let id = known
        .verified(|keys| id_token::check(&token, keys, wanted))
        .await?;
    if id.sub.is_empty() || id.sub.len() > MAX_SUBJECT_LEN {
        return Err(SignInFault::token("its subject is no subject"));
    }
    let claim = provider.settings.groups_claim.as_deref();
    let mut groups = claim.and_then(|claim| id.others.get(claim)).cloned();
    let mut names = names(&id.others);
    // Core §5.4: what scopes ask for is at the userinfo endpoint, wherever there is an access token.
    let lacks = (claim.is_some() && groups.is_none()) || names.is_empty();
    if lacks
        && let Some(url) = &known.metadata.userinfo_endpoint
        && let Some(access) = answer.access_token.map(Zeroizing::new)
    {
        let info = user_info(known, url, &access).await?;
        // Core §5.3.2: "The sub Claim in the UserInfo Response MUST be verified to exactly match".
        if info.sub != id.sub {
            return Err(SignInFault::token("it speaks of two people"));
        }
        groups = groups.or_else(|| claim.and_then(|claim| info.others.get(claim)).cloned());
        names.extend(self::names(&info.others));
    }
    Ok(Claims {
        subject: id.sub,
        names,
        groups: groups.map(values).unwrap_or_default(),
        authenticated_s: id.auth_time.as_ref().and_then(id_token::seconds),
    })
}

async fn exchange(
    known: &Known,
    provider: &Provider,
    secret: Option<&SecretBytes>,
    flow: &Flow,
    code: &str,
    redirect_uri: &str,
) -> Result<TokenAnswer, SignInFault> {
    let url = &known.metadata.token_endpoint;
    let in_form = known.metadata.takes_secret_in_form();
    let ask = token_request(url, in_form, provider, secret, flow, code, redirect_uri);
    let answer = known.fetcher.send(&ask).await?;
    if answer.status.is_client_error()
        && let Ok(error) = answer.json::<TokenError>(url)
    {
        let description = error.error_description.as_deref();
        return Err(SignInFault::answered(&error.error, description));
    }
    answer.good(url)
}

fn token_request<'a>(
    url: &'a str,
    secret_in_form: bool,
    provider: &Provider,
    secret: Option<&SecretBytes>,
    flow: &Flow,
    code: &str,
    redirect_uri: &str,
) -> Ask<'a> {
    let secret = secret.map(|secret| String::from_utf8_lossy(secret.expose()));
    let secret = secret.map(|secret| Zeroizing::new(secret.into_owned()));
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code)
        .append_pair("redirect_uri", redirect_uri)
        .append_pair("code_verifier", &flow.verifier);
    let authorization = match &secret {
        Some(secret) if !secret_in_form => Some(basic(&provider.client_id, secret)),
        Some(secret) => {
            form.append_pair("client_id", &provider.client_id)
                .append_pair("client_secret", secret);
            None
        }
        None => {
            form.append_pair("client_id", &provider.client_id);
            None
        }
    };
    Ask {
        url,
        authorization,
        form: Some(Zeroizing::new(form.finish())),
    }
}

/// RFC 6749 §2.3.1: both are written as in a form before they are put together.
fn basic(client_id: &str, secret: &str) -> Zeroizing<String> {
    let encode = |text: &str| {
        let parts = form_urlencoded::byte_serialize(text.as_bytes());
        Zeroizing::new(parts.collect::<String>())
    };
    let pair = format!("{}:{}", *encode(client_id), *encode(secret));
    let pair = Zeroizing::new(pair);
    let encoded = Zeroizing::new(STANDARD.encode(pair.as_bytes()));
    Zeroizing::new(format!("Basic {}", *encoded))
}

async fn user_info(known: &Known, url: &str, access: &str) -> Result<UserInfo, SignInFault> {
    let ask = Ask {
        url,
        authorization: Some(Zeroizing::new(format!("Bearer {access}"))),
        form: None,
    };
    known.fetcher.send(&ask).await?.good(url)
}

fn names(claims: &Map<String, Value>) -> Vec<String> {
    let known = ["preferred_username", "name", "email"];
    let texts = known
        .iter()
        .filter_map(|claim| claims.get(*claim)?.as_str());
    texts.map(|text| text.trim().to_owned()).collect()
}

/// One value, or several; whatever is no text names no group.
fn values(claim: Value) -> Vec<String> {
    match claim {
        Value::String(one) => vec![one],
        Value::Array(all) => {
            let texts = all.into_iter().take(MAX_GROUPS);
            let texts = texts.filter_map(|value| value.as_str().map(str::to_owned));
            texts.collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}
