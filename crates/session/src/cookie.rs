//! The two MACs of handshake messages and the cookies behind the second (§5.3, §5.4.4, §5.4.7).

use crate::constants::{COOKIE_LATENCY, COOKIE_SECRET_MAX_AGE};
use crate::crypto::{self, MAC_LEN};
use crate::ids::Index;
use crate::parse::{COOKIE_REPLY_LEN, COOKIE_REPLY_TYPE, CookieReply, Macs};
use crate::random::Random;
use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use culvert_base::{BootTime, PublicKey};
use std::net::{IpAddr, SocketAddr};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The keys for the two MACs of messages *to* the owner of a public key.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct MacKeys {
    /// `HASH(Label-Mac1 || S_pub)`.
    mac1: [u8; 32],
    /// `HASH(Label-Cookie || S_pub)`.
    cookie: [u8; 32],
}

impl MacKeys {
    pub(crate) fn of(public_key: &PublicKey) -> Self {
        Self {
            mac1: crypto::hash(&[b"mac1----", public_key.as_bytes()]),
            cookie: crypto::hash(&[b"cookie--", public_key.as_bytes()]),
        }
    }
}

/// The receiver's side: checks MACs, hands out cookies.
pub(crate) struct CookieChecker {
    keys: MacKeys,
    secret: Option<(Zeroizing<[u8; 32]>, BootTime)>,
}

impl CookieChecker {
    pub(crate) fn new(own_public_key: &PublicKey) -> Self {
        Self {
            keys: MacKeys::of(own_public_key),
            secret: None,
        }
    }

    /// §5.4.4: "a responder … must check that msg.mac1 is as expected".
    pub(crate) fn is_mac1_valid(&self, macs: &Macs<'_>) -> bool {
        let expected = crypto::mac(&self.keys.mac1, &[macs.before_mac1]);
        crypto::same_mac(&expected, macs.mac1)
    }

    /// True if the sender at `source` has proven to receive there.
    pub(crate) fn is_mac2_valid(&self, macs: &Macs<'_>, source: SocketAddr, now: BootTime) -> bool {
        let Some((secret, made_at)) = &self.secret else {
            return false;
        };
        if now.has_passed(*made_at, COOKIE_SECRET_MAX_AGE) {
            return false;
        }
        let cookie = cookie_for(secret, source);
        let expected = crypto::mac(cookie.as_slice(), &[macs.before_mac2]);
        crypto::same_mac(&expected, macs.mac2)
    }

    /// §5.4.7: the answer to the message with `macs`, whose sender listens on `receiver`. Without
    /// state per sender, and smaller than what it answers.
    pub(crate) fn reply(
        &mut self,
        macs: &Macs<'_>,
        receiver: Index,
        source: SocketAddr,
        random: &mut Random,
        now: BootTime,
    ) -> [u8; COOKIE_REPLY_LEN] {
        let cookie = cookie_for(self.fresh_secret(random, now), source);
        let mut nonce = [0; 24];
        nonce.copy_from_slice(&random.bytes()[..24]);
        let mut sealed = *cookie;
        let tag = XChaCha20Poly1305::new(&self.keys.cookie.into())
            .encrypt_inout_detached(&nonce.into(), macs.mac1, sealed.as_mut_slice().into())
            .expect("the cipher refuses only inputs of 2^38 bytes, and a cookie has 16");
        let mut message = [0; COOKIE_REPLY_LEN];
        message[..4].copy_from_slice(&COOKIE_REPLY_TYPE);
        message[4..8].copy_from_slice(&receiver.to_wire());
        message[8..32].copy_from_slice(&nonce);
        message[32..48].copy_from_slice(&sealed);
        message[48..].copy_from_slice(&tag);
        message
    }

    /// Forgets the secret: cookies given so far are worth nothing from here on.
    pub(crate) fn forget_secret(&mut self) {
        self.secret = None;
    }

    /// §5.4.7: the secret "changes every two minutes".
    fn fresh_secret(&mut self, random: &mut Random, now: BootTime) -> &[u8; 32] {
        let current = self
            .secret
            .take_if(|(_, made_at)| !now.has_passed(*made_at, COOKIE_SECRET_MAX_AGE));
        &self
            .secret
            .insert(current.unwrap_or_else(|| (random.key(), now)))
            .0
    }
}

/// The sender's side, one per peer: adds MACs, remembers the cookie that the peer gave us.
pub(crate) struct MacAdder {
    keys: MacKeys,
    /// The `mac1` that a cookie reply must answer.
    last_mac1: Option<[u8; MAC_LEN]>,
    cookie: Option<(Zeroizing<[u8; MAC_LEN]>, BootTime)>,
}

/// The reply answers nothing we sent, or was not made by the peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidCookieReply;

impl MacAdder {
    pub(crate) fn new(peer_public_key: &PublicKey) -> Self {
        Self {
            keys: MacKeys::of(peer_public_key),
            last_mac1: None,
            cookie: None,
        }
    }

    /// Fills the last 32 bytes of `message`: "msg.mac1 := MAC(HASH(Label-Mac1 || S_pub), msg_α)",
    /// and `mac2` where there is a cookie young enough to be accepted.
    pub(crate) fn add<const LEN: usize>(&mut self, message: &mut [u8; LEN], now: BootTime) {
        const { assert!(LEN > 2 * MAC_LEN) };
        let (before_mac1, macs) = message.split_at_mut(LEN - 2 * MAC_LEN);
        let mac1 = crypto::mac(&self.keys.mac1, &[before_mac1]);
        macs[..MAC_LEN].copy_from_slice(&mac1);
        self.last_mac1 = Some(mac1);
        let fresh_for = COOKIE_SECRET_MAX_AGE - COOKIE_LATENCY;
        if let Some((cookie, received_at)) = &self.cookie
            && !now.has_passed(*received_at, fresh_for)
        {
            let mac2 = crypto::mac(cookie.as_slice(), &[before_mac1, &mac1]);
            macs[MAC_LEN..].copy_from_slice(&mac2);
        }
    }

    /// Takes the cookie from a reply. Each message is answered at most once.
    pub(crate) fn take_reply(
        &mut self,
        reply: &CookieReply<'_>,
        now: BootTime,
    ) -> Result<(), InvalidCookieReply> {
        let mac1 = self.last_mac1.ok_or(InvalidCookieReply)?;
        let mut cookie = Zeroizing::new([0; MAC_LEN]);
        let (sealed, tag) = reply.sealed_cookie.split_at(MAC_LEN);
        cookie.copy_from_slice(sealed);
        let tag = tag.try_into().map_err(|_| InvalidCookieReply)?;
        XChaCha20Poly1305::new(&self.keys.cookie.into())
            .decrypt_inout_detached(
                &(*reply.nonce).into(),
                &mac1,
                cookie.as_mut_slice().into(),
                tag,
            )
            .map_err(|_| InvalidCookieReply)?;
        self.last_mac1 = None;
        self.cookie = Some((cookie, now));
        Ok(())
    }
}

/// §5.3: "a MAC of the initiator's source IP address" and, as all implementations have it, port.
fn cookie_for(secret: &[u8; 32], source: SocketAddr) -> Zeroizing<[u8; MAC_LEN]> {
    let port = source.port().to_be_bytes();
    Zeroizing::new(match source.ip() {
        IpAddr::V4(address) => crypto::mac(secret, &[&address.octets(), &port]),
        IpAddr::V6(address) => crypto::mac(secret, &[&address.octets(), &port]),
    })
}

#[cfg(test)]
mod tests;
