//! The proof of a person, which a write compares with what the store has by then.

use crate::SecretBytes;
use culvert_ids::IdentityId;
use culvert_wire::Timestamp;

/// The first proof of a person, besides factors that the same write uses up ([`crate::FactorChange`]).
///
/// A proof takes time: a password is checked for up to some seconds, and a person looks for a phone. The writing
/// transaction therefore looks again at what the proof was made by.
#[derive(Clone, Debug)]
pub enum Proof {
    /// The password is right by this verifier. It is a whole proof for a person without a second factor.
    Password(SecretBytes),
    /// The provider of this identity knows the person, which is a whole proof.
    Identity {
        /// The identity.
        id: IdentityId,
        /// The time of the person's proof there; unknown if the provider does not say. A session of the provider
        /// may be hours old.
        at: Option<Timestamp>,
    },
}
