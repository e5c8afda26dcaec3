//! The credential by which a portal comes to the one that leads: `cv_portal_<id>.<secret>`.
//!
//! A portal draws it at its start and writes its digest into the database. Only a portal can do that, so the
//! database is all that two portals need to know each other.

use crate::token::{Secret, SecretDigest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_ids::PortalId;
use zeroize::Zeroizing;

const PREFIX: &str = "cv_";

/// A portal's proof that it is the one of its row in the database. Its only text form is [`PortalKey::expose`].
#[derive(Clone, Debug)]
pub struct PortalKey {
    /// The portal.
    pub portal: PortalId,
    /// The proof.
    pub secret: Secret,
}

impl PortalKey {
    /// The text that is presented, secret included.
    #[must_use]
    pub fn expose(&self) -> Zeroizing<String> {
        let secret = Zeroizing::new(URL_SAFE_NO_PAD.encode(self.secret.expose()));
        Zeroizing::new(format!("{PREFIX}{}.{}", self.portal, *secret))
    }

    /// Takes a presented text apart; none if it is not of this form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (portal, secret) = text.strip_prefix(PREFIX)?.split_once('.')?;
        Some(Self {
            portal: portal.parse().ok()?,
            secret: Secret::parse(secret)?,
        })
    }

    /// The form in which the database keeps the proof.
    #[must_use]
    pub fn digest(&self) -> SecretDigest {
        self.secret.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Token;

    #[test]
    fn a_portal_s_key_is_read_back_and_is_no_token() {
        let key = PortalKey {
            portal: PortalId::from_bytes([7; 16]),
            secret: Secret::new([9; 32]),
        };
        let text = key.expose();
        let read = PortalKey::parse(&text).unwrap();
        assert_eq!(read.portal, key.portal);
        assert_eq!(read.digest(), key.digest());
        assert!(text.parse::<Token>().is_err());
        for wrong in [
            "",
            "cv_",
            "cv_portal_x.y",
            &text[3..],
            &text[..text.len() - 1],
        ] {
            assert!(PortalKey::parse(wrong).is_none(), "{wrong}");
        }
        assert!(!format!("{key:?}").contains(&text[text.len() - 10..]));
    }
}
