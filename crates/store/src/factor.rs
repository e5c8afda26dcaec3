//! Second factors of people who sign in with a password.

use crate::SecretBytes;
use culvert_ids::ActorId;
use culvert_wire::Timestamp;
use culvert_wire::token::SecretDigest;

/// A change of a person's second factor. The person signs in with a password, or there is nothing
/// that it could be second to.
#[derive(Clone, Debug)]
pub enum FactorChange {
    /// From now on codes of an authenticator app are asked for. Earlier codes and secrets are void.
    Set {
        /// The secret that the codes are made of.
        secret: SecretBytes,
        /// The time step of the code that confirmed it, which is used up.
        step: u64,
        /// The digests of recovery codes; at most [`crate::MAX_RECOVERY_CODES`].
        codes: Vec<SecretDigest>,
    },
    /// Other recovery codes; those from before are void.
    NewCodes(Vec<SecretDigest>),
    /// No codes of an app any more. Recovery codes go with the last factor.
    RemoveApp,
    /// A passkey more.
    AddPasskey {
        /// The passkey.
        passkey: NewPasskey,
        /// Recovery codes, where the person had no second factor before.
        codes: Vec<SecretDigest>,
    },
    /// Another name for a passkey. It is no configuration: nothing is recorded.
    RenamePasskey {
        /// The authenticator's id of the credential.
        credential: Vec<u8>,
        /// The name that the person gives it.
        name: String,
    },
    /// A passkey less. Recovery codes go with the last factor.
    RemovePasskey(Vec<u8>),
    /// Nothing beside the password any more: no codes of an app, no passkeys, no recovery codes.
    RemoveAll,
    /// Notes a use of a passkey. It is no configuration: nothing is recorded.
    ///
    /// It is denied where the authenticator has not counted on since the last use: two have the same key.
    UsePasskey {
        /// The authenticator's id of the credential.
        credential: Vec<u8>,
        /// The authenticator's count of signatures; 0 if it does not count.
        uses: u32,
    },
    /// Uses up the code of a time step, and all before it. It is no configuration: nothing is recorded.
    ///
    /// It is denied where a code of this step or a later one was used before, or the app has another secret by now.
    UseStep {
        /// The secret by which the code is right.
        secret: SecretBytes,
        /// The time step of the code.
        step: u64,
    },
    /// Uses up a recovery code. It is denied where there is none that has this digest.
    UseCode(SecretDigest),
}

/// A passkey as it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPasskey {
    /// The authenticator's id of the credential, at most [`crate::MAX_CREDENTIAL_LEN`] bytes.
    pub credential: Vec<u8>,
    /// The key that checks its signatures, as COSE has it; at most [`crate::MAX_PUBLIC_KEY_LEN`] bytes.
    pub public_key: Vec<u8>,
    /// The authenticator's count of signatures; 0 if it does not count.
    pub uses: u32,
    /// The name that the person gives it.
    pub name: String,
}

/// A passkey as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passkey {
    /// Its owner.
    pub actor: ActorId,
    /// The authenticator's id of the credential.
    pub credential: Vec<u8>,
    /// The key that checks its signatures, as COSE has it.
    pub public_key: Vec<u8>,
    /// The name that the person gives it.
    pub name: String,
    /// The time at which it was added.
    pub created: Timestamp,
    /// The time of its last use to sign in.
    pub last_used: Option<Timestamp>,
}
