//! The authenticator's data about itself and the person who was present (section 6.1).

use super::cbor::next_value;
use super::error::WebauthnError;

/// "User Present (UP)", "User Verified (UV)", "Backup Eligibility (BE)", "Backup State (BS)", "Attested
/// credential data included (AT)", "Extension data included (ED)".
const UP: u8 = 1;
const UV: u8 = 1 << 2;
const BE: u8 = 1 << 3;
const BS: u8 = 1 << 4;
const AT: u8 = 1 << 6;
const ED: u8 = 1 << 7;

/// "If credentialIdLength is greater than 1023", it is refused.
const MAX_CREDENTIAL_LEN: usize = culvert_store::MAX_CREDENTIAL_LEN;

#[derive(Debug)]
pub(super) struct AuthenticatorData {
    rp_id_hash: [u8; 32],
    flags: u8,
    pub(super) sign_count: u32,
    pub(super) attested: Option<Attested>,
}

/// A key that was just made (section 6.5.1).
#[derive(Debug)]
pub(super) struct Attested {
    pub(super) credential: Vec<u8>,
    /// As COSE has it.
    pub(super) public_key: Vec<u8>,
}

impl AuthenticatorData {
    pub(super) fn parse(data: &[u8]) -> Result<Self, WebauthnError> {
        const SHORT: WebauthnError = WebauthnError::Malformed("authenticatorData");
        let (rp_id_hash, rest) = data.split_first_chunk().ok_or(SHORT)?;
        let (&flags, rest) = rest.split_first().ok_or(SHORT)?;
        let (count, mut rest) = rest.split_first_chunk().ok_or(SHORT)?;
        let attested = match flags & AT {
            0 => None,
            _ => Some(Attested::take(&mut rest)?),
        };
        if flags & ED != 0 {
            next_value(&mut rest)?;
        }
        if !rest.is_empty() {
            return Err(SHORT);
        }
        Ok(Self {
            rp_id_hash: *rp_id_hash,
            flags,
            sign_count: u32::from_be_bytes(*count),
            attested,
        })
    }

    /// That it is about this portal, and that the authenticator knows who was there: a passkey stands for two
    /// factors, to have it and to be who may use it.
    pub(super) fn check(&self, rp_id_hash: &[u8; 32]) -> Result<(), WebauthnError> {
        if self.rp_id_hash != *rp_id_hash {
            return Err(WebauthnError::OtherParty);
        }
        if self.flags & UP == 0 {
            return Err(WebauthnError::NobodyPresent);
        }
        if self.flags & UV == 0 {
            return Err(WebauthnError::NobodyVerified);
        }
        // "If the BE bit of the flags in authData is not set, verify that the BS bit is not set."
        if self.flags & BE == 0 && self.flags & BS != 0 {
            return Err(WebauthnError::Malformed("the flag BS without BE"));
        }
        Ok(())
    }
}

impl Attested {
    fn take(rest: &mut &[u8]) -> Result<Self, WebauthnError> {
        const SHORT: WebauthnError = WebauthnError::Malformed("attestedCredentialData");
        const AAGUID_LEN: usize = 16;
        let after_aaguid = rest.get(AAGUID_LEN..).ok_or(SHORT)?;
        let (len, after_len) = after_aaguid.split_first_chunk().ok_or(SHORT)?;
        let len = usize::from(u16::from_be_bytes(*len));
        if len == 0 || len > MAX_CREDENTIAL_LEN {
            return Err(SHORT);
        }
        let (credential, key) = after_len.split_at_checked(len).ok_or(SHORT)?;
        let mut after_key = key;
        next_value(&mut after_key)?;
        let (public_key, _) = key.split_at(key.len() - after_key.len());
        *rest = after_key;
        Ok(Self {
            credential: credential.to_vec(),
            public_key: public_key.to_vec(),
        })
    }
}
