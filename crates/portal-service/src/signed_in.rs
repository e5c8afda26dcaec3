//! The results of a sign-in: a password that was right, the question for a code, a session.

use culvert_ids::ActorId;
use culvert_store::{Mutation, Proof, SecretBytes};
use zeroize::Zeroizing;

/// The mark that a browser keeps, by which it is known when a person signs in there again.
pub struct Mark(pub Zeroizing<String>);

/// A session that was just begun.
pub struct Begun {
    /// The whole token, which the browser keeps.
    pub token: Zeroizing<String>,
}

/// The result of a name and a password that belong together.
pub enum SignedIn {
    /// A session.
    Begun(Begun),
    /// A code is asked for as well. This stands for the password until then.
    CodeWanted(Zeroizing<String>),
}

/// The person whose password was right, and the verifier that accepted it. The store compares that when
/// a session begins by it.
#[derive(Clone, Debug)]
pub(super) struct ByPassword {
    pub(super) actor: ActorId,
    pub(super) verifier: SecretBytes,
}

impl ByPassword {
    pub(super) fn proof(&self) -> Mutation {
        let by = Proof::Password(self.verifier.clone());
        let actor = self.actor;
        Mutation::Prove { actor, by }
    }
}
