//! A person's own passkeys: made, named and removed.

use super::{Question, descriptors, given, refused};
use crate::recovery_codes::new_codes;
use crate::write::Attempts;
use crate::{Caller, RecoveryCodes, Service, names};
use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_portal_auth::CHALLENGE_WITHIN;
use culvert_portal_auth::webauthn::{ALGORITHMS, Registration};
use culvert_portal_base::Fault;
use culvert_store::{self as store, FactorChange, NewPasskey, Passkey};
use culvert_wire::Timestamp;
use serde_json::json;

/// Bytes of a digest by which pages name a passkey: of ten, no two have the same.
const HANDLE_LEN: usize = 9;

/// A passkey as its owner sees it.
pub struct OwnPasskey {
    /// Its name on pages.
    pub handle: String,
    /// The name that its person gave it.
    pub name: String,
    /// Since when it is there.
    pub created: Timestamp,
    /// The time of its last use.
    pub last_used: Option<Timestamp>,
}

fn own(key: &Passkey) -> OwnPasskey {
    OwnPasskey {
        handle: handle_of(&key.credential),
        name: key.name.clone(),
        created: key.created,
        last_used: key.last_used,
    }
}

fn handle_of(credential: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, credential);
    URL_SAFE_NO_PAD.encode(&hash.as_ref()[..HANDLE_LEN])
}

/// The purpose of a challenge for another passkey.
fn enrolment_of(caller: &Caller) -> Vec<u8> {
    [b"enrol ", caller.token().as_bytes().as_slice()].concat()
}

impl Service {
    /// The caller's own passkeys.
    pub async fn own_passkeys(&self, caller: &Caller) -> Result<Vec<OwnPasskey>, Fault> {
        let keys = self.passkeys_of(caller.actor()?).await?;
        Ok(keys.iter().map(own).collect())
    }

    async fn passkey_called(&self, caller: &Caller, handle: &str) -> Result<Passkey, Fault> {
        let keys = self.passkeys_of(caller.actor()?).await?;
        let mut keys = keys.into_iter();
        let found = keys.find(|key| handle_of(&key.credential) == handle);
        found.ok_or_else(|| Fault::NotFound("you have no such passkey".to_owned()))
    }

    /// One of the caller's own passkeys.
    pub async fn own_passkey(&self, caller: &Caller, handle: &str) -> Result<OwnPasskey, Fault> {
        Ok(own(&self.passkey_called(caller, handle).await?))
    }

    /// Asks for another passkey of the caller.
    pub async fn begin_passkey(&self, caller: &Caller) -> Result<Question, Fault> {
        let party = self.party()?;
        let sign_in = self.own_sign_in_by_password(caller).await?;
        if sign_in.passkeys as usize >= store::MAX_PASSKEYS {
            let most = store::MAX_PASSKEYS;
            let detail = format!("you have {most} passkeys, and nobody has more: remove one first");
            return Err(Fault::Conflict(detail));
        }
        let actor = caller.actor()?;
        let name = self.own_name(caller).await?;
        let keys = self.passkeys_of(actor).await?;
        self.check_again(caller).await?;
        let challenge = self.challenges().await?;
        let at = self.pending().clock().await?;
        let challenge = challenge.make(&enrolment_of(caller), at)?;
        let algorithms = ALGORITHMS.map(|alg| json!({"type": "public-key", "alg": alg}));
        let question = json!({
            "rp": {"id": party.id, "name": format!("Culvert {}", party.id)},
            "user": {
                "id": URL_SAFE_NO_PAD.encode(actor.as_bytes()),
                "name": name,
                "displayName": name,
            },
            "challenge": challenge,
            "pubKeyCredParams": algorithms,
            "timeout": CHALLENGE_WITHIN.as_millis(),
            "excludeCredentials": descriptors(&keys),
            "authenticatorSelection": {
                "residentKey": "required",
                "requireResidentKey": true,
                "userVerification": "required",
            },
            "attestation": "none",
        });
        Ok(Question(question.to_string()))
    }

    /// Keeps the passkey that the caller's authenticator made. A caller whose first factor it is gets
    /// recovery codes.
    pub async fn confirm_passkey(
        &self,
        caller: &Caller,
        name: &str,
        credential: &str,
    ) -> Result<Option<RecoveryCodes>, Fault> {
        self.own_sign_in_by_password(caller).await?;
        let registration = given(credential, Registration::parse)?;
        let purpose = enrolment_of(caller);
        let challenge = self.known(&purpose, registration.challenge()).await?;
        let made = registration.check(&self.party()?).map_err(refused)?;
        self.spend(caller.actor()?, &challenge).await?;
        let passkey = NewPasskey {
            credential: made.credential,
            public_key: made.public_key,
            uses: made.uses,
            name: names::name("name", name)?,
        };
        let mut attempts = Attempts::default();
        loop {
            let tried = self.try_add_passkey(caller, &passkey).await;
            if let Some(end) = attempts.end(tried) {
                return end;
            }
        }
    }

    /// Of two first passkeys one has the recovery codes: the other is not the first.
    async fn try_add_passkey(
        &self,
        caller: &Caller,
        passkey: &NewPasskey,
    ) -> Result<Option<RecoveryCodes>, Fault> {
        let (row, sign_in) = self.own_row_by_password(caller).await?;
        let (shown, codes) = match sign_in.has_second_factor() {
            true => (None, Vec::new()),
            false => {
                let (shown, codes) = new_codes()?;
                (Some(shown), codes)
            }
        };
        let change = FactorChange::AddPasskey {
            passkey: passkey.clone(),
            codes,
        };
        match self.write_factor_of(caller, &row, change).await {
            Ok(()) => Ok(shown),
            Err(Fault::Unauthenticated) => {
                Err(Fault::Conflict("this passkey is known already".to_owned()))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Renames a passkey of the caller.
    pub async fn rename_passkey(
        &self,
        caller: &Caller,
        handle: &str,
        name: &str,
    ) -> Result<(), Fault> {
        let key = self.passkey_called(caller, handle).await?;
        let change = FactorChange::RenamePasskey {
            credential: key.credential,
            name: names::name("name", name)?,
        };
        self.write_factor(caller, change).await
    }

    /// Removes a passkey of the caller.
    pub async fn remove_passkey(&self, caller: &Caller, handle: &str) -> Result<(), Fault> {
        let mut attempts = Attempts::default();
        loop {
            let tried = self.try_remove_passkey(caller, handle).await;
            if let Some(end) = attempts.end(tried) {
                return end;
            }
        }
    }

    /// Of two who remove the last two, one comes second.
    async fn try_remove_passkey(&self, caller: &Caller, handle: &str) -> Result<(), Fault> {
        let key = self.passkey_called(caller, handle).await?;
        let (row, sign_in) = self.own_row(caller).await?;
        let is_last = sign_in.passkeys == 1 && sign_in.second_factor.is_none();
        if is_last && self.is_required_of(caller, sign_in).await? {
            return Err(Fault::Conflict(
                "a second factor is required: add another passkey or an app first".to_owned(),
            ));
        }
        let change = FactorChange::RemovePasskey(key.credential);
        self.write_factor_of(caller, &row, change).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_passkey_has_a_handle_of_its_own_that_stands_in_a_path_as_it_is() {
        let handles: HashSet<String> = (0_u8..=255).map(|byte| handle_of(&[byte])).collect();
        assert_eq!(handles.len(), 256);
        // The beginning of the SHA-256 digest of nothing (FIPS 180-4).
        assert_eq!(handle_of(b""), "47DEQpj8HBSa");
        let may_stand = |sign: char| sign.is_ascii_alphanumeric() || "-_".contains(sign);
        assert!(handles.iter().all(|handle| handle.chars().all(may_stand)));
    }
}
