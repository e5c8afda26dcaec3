//! A provider's metadata (OpenID Connect Discovery 1.0), and its keys (RFC 7517).

use super::fault::{SignInFault, copyable};
use super::fetch::{Fetcher, https};
use super::flows::Begun;
use culvert_store::Provider;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use serde::Deserialize;
use serde_json::Value;

/// The path of a provider's metadata, below its issuer.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// Keys of a provider that are looked at: those in use, and those before and after.
const MAX_KEYS: usize = 64;

/// A provider, as it says it is.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) jwks_uri: String,
    pub(super) userinfo_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl Metadata {
    pub(super) async fn fetch(fetcher: &Fetcher, issuer: &str) -> Result<Self, SignInFault> {
        let url = format!("{}{WELL_KNOWN}", issuer.trim_end_matches('/'));
        let metadata: Self = fetcher.get(&url).await?;
        // Discovery §4.3: "The issuer value returned MUST be identical to the Issuer URL".
        if metadata.issuer != issuer {
            let text = other_issuer(&url, &metadata.issuer, issuer);
            return Err(SignInFault::Wrong(text));
        }
        let endpoints = [
            &metadata.authorization_endpoint,
            &metadata.token_endpoint,
            &metadata.jwks_uri,
        ];
        for endpoint in endpoints.into_iter().chain(&metadata.userinfo_endpoint) {
            https(endpoint)?;
        }
        Ok(metadata)
    }

    /// The address that a browser is sent to. With `asks_anew` the provider asks, whatever session it has.
    pub(super) fn authorization_url(
        &self,
        provider: &Provider,
        begun: &Begun,
        redirect_uri: &str,
        asks_anew: bool,
    ) -> String {
        let scopes = std::iter::once("openid");
        let scopes = scopes.chain(provider.settings.scopes.iter().map(String::as_str));
        let mut query = form_urlencoded::Serializer::new(String::new());
        if asks_anew {
            // Core §3.1.2.1. With `max_age` the ID token must say when the person signed in. Some providers, Google
            // among them, do that only where the claim is asked for (§5.5).
            query
                .append_pair("prompt", "login")
                .append_pair("max_age", "0")
                .append_pair("claims", r#"{"id_token":{"auth_time":{"essential":true}}}"#);
        }
        let query = query
            .append_pair("response_type", "code")
            .append_pair("client_id", &provider.client_id)
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("scope", &scopes.collect::<Vec<_>>().join(" "))
            .append_pair("state", &begun.state)
            .append_pair("nonce", &begun.nonce)
            .append_pair("code_challenge", &begun.challenge)
            .append_pair("code_challenge_method", "S256")
            .finish();
        let endpoint = &self.authorization_endpoint;
        // RFC 6749 §3.1: the endpoint may have a query of its own, which stays.
        let joined = if endpoint.contains('?') { '&' } else { '?' };
        format!("{endpoint}{joined}{query}")
    }

    /// Checks that the answer says that it is from this provider, against mix-up attacks (RFC 9207
    /// §2.4).
    pub(super) fn check_issuer(&self, said: Option<&str>) -> Result<(), SignInFault> {
        match said {
            Some(said) if said == self.issuer => Ok(()),
            None if !self.authorization_response_iss_parameter_supported => Ok(()),
            Some(_) | None => Err(SignInFault::WrongIssuer {
                came: said.map_or_else(|| "nothing".to_owned(), copyable),
                expected: self.issuer.clone(),
            }),
        }
    }

    /// True if the portal's secret goes into the form, because the provider knows no other way.
    pub(super) fn takes_secret_in_form(&self) -> bool {
        // Discovery §3: "If omitted, the default is client_secret_basic".
        let methods = self.token_endpoint_auth_methods_supported.as_deref();
        methods.is_some_and(|methods| {
            let knows = |wanted| methods.iter().any(|method| method == wanted);
            knows("client_secret_post") && !knows("client_secret_basic")
        })
    }
}

/// Both issuers, ready to copy, and which one is to be used.
fn other_issuer(url: &str, came: &str, expected: &str) -> String {
    let hint = if came.contains('{') {
        "It has a placeholder in braces: give the issuer of your own tenant"
    } else if came.trim_end_matches('/') == expected.trim_end_matches('/') {
        "They differ by the slash at the end alone: create the provider anew with the one that came"
    } else {
        "If the one that came is your provider's, create the provider anew with it"
    };
    let came = copyable(came);
    format!("{url} speaks for another issuer: {came} came, and {expected} was expected. {hint}.")
}

/// The keys of a provider.
#[derive(Clone, Debug)]
pub(super) struct Keys(Vec<Jwk>);

#[derive(Deserialize)]
pub(super) struct KeySet {
    pub(super) keys: Vec<Value>,
}

impl Keys {
    pub(super) async fn fetch(fetcher: &Fetcher, url: &str) -> Result<Self, SignInFault> {
        let set: KeySet = fetcher.get(url).await?;
        Ok(Self::of(set.keys))
    }

    /// Those that can be understood; RFC 7517 §5: others "SHOULD" be ignored.
    pub(super) fn of(keys: Vec<Value>) -> Self {
        let keys = keys.into_iter().take(MAX_KEYS);
        let keys = keys.filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        let signs = |key: &Jwk| {
            let purpose = key.common.public_key_use.as_ref();
            purpose.is_none_or(|purpose| *purpose == PublicKeyUse::Signature)
        };
        Self(keys.filter(signs).collect())
    }

    /// The number of keys.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Those that a token may be signed by that names `kid`, or none.
    pub(super) fn for_token<'k>(&'k self, kid: Option<&'k str>) -> impl Iterator<Item = &'k Jwk> {
        self.0
            .iter()
            .filter(move |key| kid.is_none() || key.common.key_id.as_deref() == kid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(more: &Value) -> Metadata {
        let mut all = serde_json::json!({
            "issuer": "https://id.example",
            "authorization_endpoint": "https://id.example/auth",
            "token_endpoint": "https://id.example/token",
            "jwks_uri": "https://id.example/jwks",
        });
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn an_answer_of_another_issuer_is_refused_and_one_that_should_say_it_has_to() {
        let silent = metadata(&serde_json::json!({}));
        assert!(silent.check_issuer(None).is_ok());
        assert!(silent.check_issuer(Some("https://id.example")).is_ok());
        assert!(silent.check_issuer(Some("https://evil.example")).is_err());
        let says =
            metadata(&serde_json::json!({"authorization_response_iss_parameter_supported": true}));
        assert!(says.check_issuer(Some("https://id.example")).is_ok());
        assert!(says.check_issuer(None).is_err());
    }

    #[test]
    fn the_secret_goes_into_a_header_unless_the_provider_knows_no_header() {
        for (methods, in_form) in [
            (None, false),
            (Some(vec!["client_secret_basic"]), false),
            (
                Some(vec!["client_secret_post", "client_secret_basic"]),
                false,
            ),
            (Some(vec!["client_secret_post"]), true),
        ] {
            let said = serde_json::json!({"token_endpoint_auth_methods_supported": methods});
            assert_eq!(
                metadata(&said).takes_secret_in_form(),
                in_form,
                "{methods:?}"
            );
        }
    }
}
