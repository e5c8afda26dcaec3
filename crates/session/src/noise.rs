//! The handshake of §5.4: Noise IKpsk2 over Curve25519 and BLAKE2s, with either cipher.
//!
//! ```text
//! <- s
//! -> e, es, s, ss, {timestamp}
//! <- e, ee, se, psk, {}
//! ```
//!
//! Each state is a type that its own step consumes: [`SentInitiation`] waits for the response,
//! [`ReceivedInitiation`] knows who claims to initiate, [`VerifiedInitiation`] may respond. The two
//! ciphers have different protocol names, hence different initial hashes: ends that disagree share
//! no key from the first message on.

mod symmetric;

use crate::crypto::{Scalar, Secret};
use crate::ids::Index;
use crate::parse::{
    INITIATION_LEN, INITIATION_TYPE, Initiation, RESPONSE_LEN, RESPONSE_TYPE, Response,
};
use crate::time::Tai64n;
use culvert_aead::Suite;
use culvert_base::{PresharedKey, PublicKey};
use symmetric::{NotAuthentic, Symmetric};

/// Our own static key pair.
pub(crate) struct Identity {
    private: Scalar,
    public: PublicKey,
}

impl Identity {
    pub(crate) fn new(private: Scalar) -> Self {
        let public = private.public_key();
        Self { private, public }
    }

    pub(crate) fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// The static-static secret with a peer; `None` for a public key of low order.
    pub(crate) fn static_static(&self, peer: &PublicKey) -> Option<Secret> {
        self.private.diffie_hellman(peer)
    }
}

/// The reason why a handshake message was refused; the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeRefusal {
    NotAuthentic,
    LowOrderKey,
}

impl From<NotAuthentic> for HandshakeRefusal {
    fn from(_: NotAuthentic) -> Self {
        Self::NotAuthentic
    }
}

/// The two keys of a finished handshake, as seen from one end; each is for one direction.
pub(crate) struct SessionKeys {
    pub(crate) send: Secret,
    pub(crate) receive: Secret,
}

/// The initiator's state between initiation and response.
pub(crate) struct SentInitiation {
    symmetric: Symmetric,
    ephemeral: Scalar,
}

impl SentInitiation {
    /// §5.4.2. The two MACs are left zero. `ephemeral` is random and used for this message alone.
    ///
    /// # Errors
    /// [`HandshakeRefusal::LowOrderKey`] where the peer's public key is of low order.
    pub(crate) fn new(
        identity: &Identity,
        peer: &PublicKey,
        static_static: &Secret,
        suite: Suite,
        ephemeral: Scalar,
        timestamp: Tai64n,
        sender: Index,
    ) -> Result<(Self, [u8; INITIATION_LEN]), HandshakeRefusal> {
        let mut message = [0; INITIATION_LEN];
        message[..4].copy_from_slice(&INITIATION_TYPE);
        message[4..8].copy_from_slice(&sender.to_wire());

        let mut symmetric = Symmetric::new(suite, peer);
        let ephemeral_public = ephemeral.public_key();
        message[8..40].copy_from_slice(ephemeral_public.as_bytes());
        symmetric.mix_ephemeral(ephemeral_public.as_bytes());

        let es = ephemeral
            .diffie_hellman(peer)
            .ok_or(HandshakeRefusal::LowOrderKey)?;
        let key = symmetric.mix_key(&es);
        message[40..72].copy_from_slice(identity.public.as_bytes());
        symmetric.seal(&key, &mut message[40..88]);

        let key = symmetric.mix_key(static_static);
        message[88..100].copy_from_slice(&timestamp.to_bytes());
        symmetric.seal(&key, &mut message[88..116]);

        let state = Self {
            symmetric,
            ephemeral,
        };
        Ok((state, message))
    }

    /// §5.4.3, the initiator's half. Borrows, since a forged response must not end the handshake.
    pub(crate) fn read_response(
        &self,
        identity: &Identity,
        preshared: &PresharedKey,
        response: &Response<'_>,
    ) -> Result<SessionKeys, HandshakeRefusal> {
        let mut symmetric = self.symmetric.clone();
        let remote = PublicKey::from_bytes(*response.ephemeral);
        symmetric.mix_ephemeral(response.ephemeral);
        // ee and se.
        for private in [&self.ephemeral, &identity.private] {
            let shared = private
                .diffie_hellman(&remote)
                .ok_or(HandshakeRefusal::LowOrderKey)?;
            symmetric.mix_chain(&shared);
        }
        let key = symmetric.mix_preshared(preshared.as_bytes());
        symmetric.open::<16, 0>(&key, response.sealed_nothing)?;
        let (send, receive) = symmetric.split();
        Ok(SessionKeys { send, receive })
    }
}

/// The responder's state once the initiator's static key is decrypted.
pub(crate) struct ReceivedInitiation {
    symmetric: Symmetric,
    initiator: PublicKey,
    initiator_ephemeral: PublicKey,
}

impl ReceivedInitiation {
    /// §5.4.2, the responder's half up to the static key. The suite of the initiator is not
    /// written in the message: the first of `suites` that decrypts is the one. The expensive
    /// Diffie-Hellman is the same for all.
    pub(crate) fn read(
        identity: &Identity,
        suites: impl IntoIterator<Item = Suite>,
        initiation: &Initiation<'_>,
    ) -> Result<Self, HandshakeRefusal> {
        let initiator_ephemeral = PublicKey::from_bytes(*initiation.ephemeral);
        let es = identity
            .private
            .diffie_hellman(&initiator_ephemeral)
            .ok_or(HandshakeRefusal::LowOrderKey)?;
        for suite in suites {
            let mut symmetric = Symmetric::new(suite, &identity.public);
            symmetric.mix_ephemeral(initiation.ephemeral);
            let key = symmetric.mix_key(&es);
            if let Ok(initiator) = symmetric.open::<48, 32>(&key, initiation.sealed_static) {
                return Ok(Self {
                    symmetric,
                    initiator: PublicKey::from_bytes(initiator),
                    initiator_ephemeral,
                });
            }
        }
        Err(HandshakeRefusal::NotAuthentic)
    }

    /// The key that the initiation claims to be from; anyone may claim that so far.
    pub(crate) fn initiator(&self) -> &PublicKey {
        &self.initiator
    }

    /// The suite in which the initiation was made.
    pub(crate) fn suite(&self) -> Suite {
        self.symmetric.suite()
    }

    /// The rest of the initiation, which only the holder of the static key can have made.
    pub(crate) fn verify(
        mut self,
        static_static: &Secret,
        initiation: &Initiation<'_>,
    ) -> Result<VerifiedInitiation, HandshakeRefusal> {
        let key = self.symmetric.mix_key(static_static);
        let timestamp = self
            .symmetric
            .open::<28, 12>(&key, initiation.sealed_timestamp)?;
        Ok(VerifiedInitiation {
            symmetric: self.symmetric,
            initiator: self.initiator,
            initiator_ephemeral: self.initiator_ephemeral,
            timestamp: Tai64n::from_bytes(timestamp),
        })
    }
}

/// The responder's state once the whole initiation is authentic, though perhaps replayed.
pub(crate) struct VerifiedInitiation {
    symmetric: Symmetric,
    initiator: PublicKey,
    initiator_ephemeral: PublicKey,
    timestamp: Tai64n,
}

impl VerifiedInitiation {
    /// The stamp by which a replay is recognised.
    pub(crate) fn timestamp(&self) -> Tai64n {
        self.timestamp
    }

    /// §5.4.3. The two MACs are left zero. `ephemeral` is random and used for this message alone.
    ///
    /// # Errors
    /// [`HandshakeRefusal::LowOrderKey`] where one of the initiator's public keys is of low order.
    pub(crate) fn respond(
        mut self,
        preshared: &PresharedKey,
        ephemeral: &Scalar,
        sender: Index,
        receiver: Index,
    ) -> Result<(SessionKeys, [u8; RESPONSE_LEN]), HandshakeRefusal> {
        let mut message = [0; RESPONSE_LEN];
        message[..4].copy_from_slice(&RESPONSE_TYPE);
        message[4..8].copy_from_slice(&sender.to_wire());
        message[8..12].copy_from_slice(&receiver.to_wire());

        let ephemeral_public = ephemeral.public_key();
        message[12..44].copy_from_slice(ephemeral_public.as_bytes());
        self.symmetric.mix_ephemeral(ephemeral_public.as_bytes());

        // ee and se.
        for public in [&self.initiator_ephemeral, &self.initiator] {
            let shared = ephemeral
                .diffie_hellman(public)
                .ok_or(HandshakeRefusal::LowOrderKey)?;
            self.symmetric.mix_chain(&shared);
        }
        let key = self.symmetric.mix_preshared(preshared.as_bytes());
        self.symmetric.seal(&key, &mut message[44..60]);

        let (receive, send) = self.symmetric.split();
        Ok((SessionKeys { send, receive }, message))
    }
}

#[cfg(test)]
mod tests;
