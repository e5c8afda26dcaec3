//! Second factors of people who sign in with a password.

use crate::SecretBytes;
use culvert_wire::token::SecretDigest;

/// What is to become of a person's second factor. The person signs in with a password, or there is
/// nothing that it could be second to.
#[derive(Clone, Debug)]
pub enum FactorChange {
    /// From now on codes of an authenticator app are asked for. What there was before is void.
    Set {
        /// What the codes are made of.
        secret: SecretBytes,
        /// The time step of the code that confirmed it, which is used up.
        step: u64,
        /// What recovery codes are known by; at most [`crate::MAX_RECOVERY_CODES`].
        codes: Vec<SecretDigest>,
    },
    /// Other recovery codes; those from before are void.
    NewCodes(Vec<SecretDigest>),
    /// No second factor any more.
    Remove,
    /// Uses up the code of a time step, and all before it. It is no configuration: nothing is recorded.
    ///
    /// It is denied where a code of this step or a later one was used before.
    UseStep(u64),
    /// Uses up a recovery code. It is denied where there is none that has this digest.
    UseCode(SecretDigest),
}
