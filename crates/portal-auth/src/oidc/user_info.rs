//! The userinfo endpoint (OpenID Connect Core 1.0 §5.3): claims that the ID token lacks, in JSON or in a signed token.

use super::fault::SignInFault;
use super::fetch::{Answer, Ask};
use super::id_token;
use super::known::Known;
use culvert_store::Provider;
use serde_json::{Map, Value};
use std::time::Duration;
use zeroize::Zeroizing;

/// The claims of the endpoint at `url`. The caller compares their subject.
pub(super) async fn fetch(
    known: &Known,
    provider: &Provider,
    url: &str,
    access: &str,
    limit: Duration,
) -> Result<Map<String, Value>, SignInFault> {
    let ask = Ask {
        authorization: Some(Zeroizing::new(format!("Bearer {access}"))),
        accept: "application/json, application/jwt",
        limit,
        ..Ask::of(url)
    };
    let answer = known.fetcher.send(&ask).await?;
    answer.check_status(url)?;
    match token(&answer) {
        // Core §5.3.2: a signed answer "MUST contain the Claims iss (issuer) and aud (audience)".
        Some(token) => {
            let verified = known.verified(|keys| id_token::user_info(token, keys, provider));
            verified.await
        }
        None => answer.json(url),
    }
}

/// The answer as a JWT, if it is one: by its type, or by its three parts where a provider has forgotten the type.
fn token(answer: &Answer) -> Option<&str> {
    let text = answer.text()?.trim();
    let looks_like_one = text.starts_with("ey") && text.matches('.').count() == 2;
    (answer.is_of("application/jwt") || looks_like_one).then_some(text)
}
