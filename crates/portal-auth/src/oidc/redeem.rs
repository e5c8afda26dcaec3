//! From a code to a person: the token endpoint, the ID token, and further claims.

use super::claims;
use super::fault::{SignInFault, repeated};
use super::fetch::{Ask, LIMIT};
use super::flows::Flow;
use super::groups::{self, Groups, Reading};
use super::id_token::{self, IdClaims, Wanted};
use super::known::Known;
use super::user_info;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_store::{MAX_SUBJECT_LEN, Provider, SecretBytes};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// The time limit for the userinfo endpoint if only a name is wanted, without which a person can
/// sign in too.
const NAME_LIMIT: Duration = Duration::from_secs(3);

/// A person as the provider knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The only thing that somebody is known by.
    pub subject: String,
    /// Names for the person, the best first.
    pub names: Vec<String>,
    /// Their groups there.
    pub groups: Groups,
    /// The time of the sign-in there, in seconds, if the provider says it.
    pub authenticated_s: Option<u64>,
}

/// The claims that are wanted beside the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// A name, for an actor that is to be made.
    pub name: bool,
    /// The groups, where any are mapped.
    pub groups: bool,
}

/// Somebody whom the provider's ID token proves.
pub struct Proven {
    known: Arc<Known>,
    provider: Provider,
    id: IdClaims,
    access: Option<Zeroizing<String>>,
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

pub(super) async fn redeem(
    known: Arc<Known>,
    provider: &Provider,
    secret: Option<&SecretBytes>,
    flow: &Flow,
    code: &str,
    redirect_uri: &str,
) -> Result<Proven, SignInFault> {
    let answer = exchange(&known, provider, secret, flow, code, redirect_uri).await?;
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
    let claims = claims::names(&id.others);
    tracing::debug!(provider = %provider.name, claims, "the ID token has these claims");
    Ok(Proven {
        known,
        provider: provider.clone(),
        id,
        access: answer.access_token.map(Zeroizing::new),
    })
}

impl Proven {
    /// The provider's id of the person.
    pub fn subject(&self) -> &str {
        &self.id.sub
    }

    /// The person's claims. The userinfo endpoint is asked only for those of `wanted` that the ID token lacks. If that
    /// fails, the ID token's claims are all.
    pub async fn claims(self, wanted: Lookup) -> Result<Claims, SignInFault> {
        let mut names = names(&self.id.others);
        let claim = self.provider.settings.groups_claim.as_deref();
        let claim = claim.filter(|_| wanted.groups);
        let mut reading = self.reading(&self.id.others, claim);
        let lacks_groups = claim.is_some() && !matches!(reading, Reading::Listed(_));
        let mut failed = None;
        if lacks_groups || (wanted.name && names.is_empty()) {
            match self.user_info(lacks_groups).await {
                Ok(Some(info)) => {
                    names.extend(self::names(&info));
                    reading = or(reading, self.reading(&info, claim));
                }
                Ok(None) => {}
                Err(fault @ SignInFault::OtherSubject) => return Err(fault),
                Err(fault) => {
                    tracing::warn!(provider = %self.provider.name, %fault, "userinfo was not read");
                    failed = Some(fault);
                }
            }
        }
        let groups = match (reading, failed) {
            (Reading::Listed(all), _) => Groups::Listed(all),
            (Reading::Withheld(why), _) => Groups::Withheld(why),
            (Reading::Absent, Some(fault)) if claim.is_some() => {
                Groups::Unknown(format!("the userinfo endpoint could not be read. {fault}"))
            }
            (Reading::Absent, _) => match claim {
                Some(claim) => {
                    self.explain(claim);
                    Groups::Listed(BTreeSet::new())
                }
                // It matters only where somebody maps groups while the person is on the way.
                None => Groups::Unknown("they were not asked for. Sign in once more.".to_owned()),
            },
        };
        Ok(Claims {
            authenticated_s: self.id.auth_time.as_ref().and_then(id_token::seconds),
            subject: self.id.sub,
            names,
            groups,
        })
    }

    fn reading(&self, all: &Map<String, Value>, claim: Option<&str>) -> Reading {
        claim.map_or(Reading::Absent, |claim| groups::read(all, claim))
    }

    /// Core §5.4: what scopes ask for is at the userinfo endpoint, wherever there is an access token.
    async fn user_info(&self, for_groups: bool) -> Result<Option<Map<String, Value>>, SignInFault> {
        let (Some(url), Some(access)) = (&self.known.metadata.userinfo_endpoint, &self.access)
        else {
            return Ok(None);
        };
        let limit = if for_groups { LIMIT } else { NAME_LIMIT };
        let info = user_info::fetch(&self.known, &self.provider, url, access, limit).await?;
        // Core §5.3.2: "The sub Claim in the UserInfo Response MUST be verified to exactly match".
        match info.get("sub").and_then(Value::as_str) {
            None => return Err(SignInFault::Wrong(format!("{url} says no sub"))),
            Some(subject) if subject != self.id.sub => return Err(SignInFault::OtherSubject),
            Some(_) => {}
        }
        let claims = claims::names(&info);
        tracing::debug!(provider = %self.provider.name, claims, "userinfo has these claims");
        Ok(Some(info))
    }

    /// A person may be in no group, and many providers leave the claim out then. A claim of another name looks the same.
    fn explain(&self, claim: &str) {
        let came = claims::names(&self.id.others);
        tracing::info!(
            provider = %self.provider.name, claim, id_token = came,
            "the groups' claim is in neither the ID token nor userinfo; --log-level debug lists the claims that came"
        );
    }
}

/// The groups of both answers together: a list counts before a reference to one.
fn or(of_token: Reading, of_info: Reading) -> Reading {
    match (of_token, of_info) {
        (Reading::Listed(all), _) | (_, Reading::Listed(all)) => Reading::Listed(all),
        (Reading::Withheld(why), _) | (_, Reading::Withheld(why)) => Reading::Withheld(why),
        (Reading::Absent, Reading::Absent) => Reading::Absent,
    }
}

async fn exchange(
    known: &Known,
    provider: &Provider,
    secret: Option<&SecretBytes>,
    flow: &Flow,
    code: &str,
    redirect_uri: &str,
) -> Result<TokenAnswer, SignInFault> {
    let code = Code {
        code,
        verifier: &flow.verifier,
        redirect_uri,
    };
    let url = &known.metadata.token_endpoint;
    let in_form = known.metadata.takes_secret_in_form();
    let ask = token_request(url, in_form, provider, secret, &code);
    let answer = known.fetcher.send(&ask).await?;
    if answer.status.is_client_error()
        && let Ok(error) = answer.json::<TokenError>(url)
    {
        let description = error.error_description.as_deref();
        return Err(SignInFault::answered(&error.error, description));
    }
    answer.good(url)
}

/// The answer of a provider to a client with a code that it never gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientTrial {
    /// It refuses the code alone.
    Accepted,
    /// It does not know the client, or not by this secret.
    Refused(String),
    /// It says something else, or nothing.
    Unclear(String),
}

/// Redeems a code that the provider never gave: its error says whether it takes the client (RFC 6749 §5.2).
pub(super) async fn try_client(
    known: &Known,
    provider: &Provider,
    secret: Option<&SecretBytes>,
    redirect_uri: &str,
) -> Result<ClientTrial, SignInFault> {
    let url = &known.metadata.token_endpoint;
    let in_form = known.metadata.takes_secret_in_form();
    let code = Code {
        code: "a-code-that-nobody-gave",
        // RFC 7636 §4.1: 43 to 128 characters.
        verifier: "a-test-of-the-client-and-of-nothing-else-than-that",
        redirect_uri,
    };
    let ask = token_request(url, in_form, provider, secret, &code);
    let answer = known.fetcher.send(&ask).await?;
    let Ok(error) = answer.json::<TokenError>(url) else {
        return Ok(ClientTrial::Unclear(format!(
            "it answers {}",
            answer.status
        )));
    };
    let said = match &error.error_description {
        Some(description) => repeated(&format!("{}: {description}", error.error)),
        None => repeated(&error.error),
    };
    Ok(match &*error.error {
        "invalid_grant" => ClientTrial::Accepted,
        "invalid_client" | "unauthorized_client" => ClientTrial::Refused(said),
        _ => ClientTrial::Unclear(said),
    })
}

/// A code, and what belongs to it.
struct Code<'a> {
    code: &'a str,
    verifier: &'a str,
    redirect_uri: &'a str,
}

fn token_request<'a>(
    url: &'a str,
    secret_in_form: bool,
    provider: &Provider,
    secret: Option<&SecretBytes>,
    code: &Code<'_>,
) -> Ask<'a> {
    let secret = secret.map(|secret| String::from_utf8_lossy(secret.expose()));
    let secret = secret.map(|secret| Zeroizing::new(secret.into_owned()));
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code.code)
        .append_pair("redirect_uri", code.redirect_uri)
        .append_pair("code_verifier", code.verifier);
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
        authorization,
        form: Some(Zeroizing::new(form.finish())),
        ..Ask::of(url)
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

fn names(claims: &Map<String, Value>) -> Vec<String> {
    let known = ["preferred_username", "name", "email"];
    let texts = known
        .iter()
        .filter_map(|claim| claims.get(*claim)?.as_str());
    texts.map(|text| text.trim().to_owned()).collect()
}
