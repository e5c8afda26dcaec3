//! The fields of an identity provider, as an administrator gives them.

use culvert_ids::ProviderId;
use culvert_policy::deceptive_character;
use culvert_portal_auth::oidc;
use culvert_portal_base::Fault;
use culvert_store::{MAX_SECRET_LEN, Mutation, SecretBytes};
use culvert_wire::check_authority;

/// Bytes of an issuer and of what it calls this portal: a URL that people type in.
pub(super) const MAX_URL_LEN: usize = 512;
/// Bytes of certificates: a dozen.
const MAX_CA_LEN: usize = 32 * 1024;
/// Scopes and their bytes: those of a request that is a URL.
const MAX_SCOPES: usize = 16;
const MAX_SCOPE_LEN: usize = 128;
/// Bytes of a value of the groups' claim: names of directories are long.
pub(super) const MAX_VALUE_LEN: usize = 256;

/// A secret that is to be kept.
pub(super) struct NewSecret(SecretBytes);

impl NewSecret {
    /// The secret that a patch brings; an empty one takes it away.
    pub(super) fn of(given: Option<&str>) -> Result<Option<Self>, Fault> {
        match given {
            None | Some("") => Ok(None),
            Some(secret) if secret.len() > MAX_SECRET_LEN => {
                let detail = format!("it has at most {MAX_SECRET_LEN} bytes");
                Err(Fault::invalid("client_secret", detail))
            }
            Some(secret) => Ok(Some(Self(SecretBytes::new(secret.as_bytes().to_vec())))),
        }
    }

    pub(super) const fn bytes(&self) -> &SecretBytes {
        &self.0
    }

    pub(super) fn mutation(self, provider: ProviderId) -> Option<Mutation> {
        let secret = self.0;
        Some(Mutation::SetProviderSecret { provider, secret })
    }
}

pub(super) fn filled(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

pub(super) fn text(field: &str, given: &str, limit: usize) -> Result<String, Fault> {
    let given = given.trim();
    if given.is_empty() || given.len() > limit {
        return Err(Fault::invalid(
            field,
            format_args!("it has 1 to {limit} bytes"),
        ));
    }
    if let Some(found) = deceptive_character(given) {
        return Err(Fault::invalid(
            field,
            format_args!("it must not contain {found}"),
        ));
    }
    Ok(given.to_owned())
}

/// Core §1.2: an issuer is a URL of HTTPS without query and fragment.
pub(super) fn issuer(given: &str) -> Result<String, Fault> {
    let given = text("issuer", given, MAX_URL_LEN)?;
    let wrong = || Fault::invalid("issuer", "it is a URL like https://id.example.com/realm");
    let rest = given.strip_prefix("https://").ok_or_else(wrong)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    check_authority(authority).map_err(|error| Fault::invalid("issuer", error))?;
    oidc::https(&given).map_err(|_| wrong())?;
    match given.contains(['?', '#', ' ']) {
        true => Err(wrong()),
        false => Ok(given),
    }
}

pub(super) fn authorities(pem: &str) -> Result<String, Fault> {
    let wrong = |detail: String| Err(Fault::invalid("ca", detail));
    if pem.len() > MAX_CA_LEN {
        return wrong(format!("it has at most {MAX_CA_LEN} bytes"));
    }
    match oidc::certificates(pem) {
        Some(found) if !found.is_empty() => Ok(format!("{pem}\n")),
        Some(_) | None => {
            wrong("it holds no certificate in PEM, or one that is damaged".to_owned())
        }
    }
}

/// RFC 6749 §3.3: a scope is of printable characters but space, quote and backslash.
pub(super) fn checked_scopes(given: &[String]) -> Result<Vec<String>, Fault> {
    let is_scope = |scope: &String| {
        let of = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        (1..=MAX_SCOPE_LEN).contains(&scope.len()) && scope.bytes().all(of)
    };
    if given.len() > MAX_SCOPES || !given.iter().all(is_scope) {
        let detail = format!("there are at most {MAX_SCOPES}, each a word like `profile`");
        return Err(Fault::invalid("scopes", detail));
    }
    let asked = given.iter().filter(|scope| *scope != "openid");
    Ok(asked.cloned().collect())
}
