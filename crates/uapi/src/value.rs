//! The values of the protocol, each parsed once into its type.

use crate::error::RequestErrorReason;
use crate::{AllowedIpChange, Endpoint, FirewallMark, InterfaceName, KeepaliveInterval, Prefix};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::num::{NonZeroU16, NonZeroU32};
use culvert_aead::Suite;
use culvert_session::{PresharedKey, PrivateKey, PublicKey};
use zeroize::Zeroizing;

/// The word for `suite` in the protocol, on the command line and in the status.
pub fn cipher_name(suite: Suite) -> &'static str {
    match suite {
        Suite::ChaCha20Poly1305 => "chacha20poly1305",
        Suite::Aes256Gcm => "aes256gcm",
    }
}

/// The suite of a word, the inverse of [`cipher_name`].
pub fn parse_cipher(word: &str) -> Option<Suite> {
    [Suite::ChaCha20Poly1305, Suite::Aes256Gcm]
        .into_iter()
        .find(|&suite| cipher_name(suite) == word)
}

pub(crate) fn public_key(value: &str) -> Result<PublicKey, RequestErrorReason> {
    let bytes = key_bytes(value).ok_or(invalid("public_key", KEY))?;
    Ok(PublicKey::from_bytes(*bytes))
}

/// `None` for all zeros: the key is removed.
pub(crate) fn private_key(value: &str) -> Result<Option<PrivateKey>, RequestErrorReason> {
    let bytes = key_bytes(value).ok_or(invalid("private_key", KEY))?;
    Ok((*bytes != [0; 32]).then(|| PrivateKey::from_bytes(*bytes)))
}

/// `None` for all zeros: the key is removed.
pub(crate) fn preshared_key(value: &str) -> Result<Option<PresharedKey>, RequestErrorReason> {
    let bytes = key_bytes(value).ok_or(invalid("preshared_key", KEY))?;
    Ok((*bytes != [0; 32]).then(|| PresharedKey::from_bytes(*bytes)))
}

pub(crate) fn listen_port(value: &str) -> Result<u16, RequestErrorReason> {
    decimal(value).ok_or(invalid("listen_port", "a number from 0 to 65535"))
}

/// `None` for zero or nothing: no mark.
pub(crate) fn firewall_mark(value: &str) -> Result<Option<FirewallMark>, RequestErrorReason> {
    if value.is_empty() {
        return Ok(None);
    }
    let mark: u32 = decimal(value).ok_or(invalid("fwmark", "a number from 0 to 4294967295"))?;
    Ok(NonZeroU32::new(mark).map(FirewallMark))
}

/// `None` for zero: off.
pub(crate) fn keepalive(value: &str) -> Result<Option<KeepaliveInterval>, RequestErrorReason> {
    let seconds: u16 = decimal(value).ok_or(invalid(
        "persistent_keepalive_interval",
        "a number from 0 to 65535",
    ))?;
    Ok(NonZeroU16::new(seconds).map(KeepaliveInterval))
}

pub(crate) fn cipher(value: &str) -> Result<Suite, RequestErrorReason> {
    parse_cipher(value).ok_or(invalid("cipher", "chacha20poly1305 or aes256gcm"))
}

/// `None` for nothing: the cipher of the interface.
pub(crate) fn peer_cipher(value: &str) -> Result<Option<Suite>, RequestErrorReason> {
    if value.is_empty() {
        return Ok(None);
    }
    cipher(value).map(Some)
}

pub(crate) fn only_true(key: &'static str, value: &str) -> Result<bool, RequestErrorReason> {
    match value {
        "true" => Ok(true),
        _ => Err(invalid(key, "true")),
    }
}

pub(crate) fn protocol_version(value: &str) -> Result<(), RequestErrorReason> {
    match value {
        "1" => Ok(()),
        _ => Err(invalid("protocol_version", "1")),
    }
}

pub(crate) fn allowed_ip(value: &str) -> Result<AllowedIpChange, RequestErrorReason> {
    let (removed, range) = match value.strip_prefix('-') {
        Some(range) => (true, range),
        None => (false, value),
    };
    let prefix =
        ip_prefix(range).ok_or(invalid("allowed_ip", "an address, a slash and a length"))?;
    Ok(match removed {
        true => AllowedIpChange::Remove(prefix),
        false => AllowedIpChange::Add(prefix),
    })
}

pub(crate) fn endpoint(value: &str) -> Result<Endpoint, RequestErrorReason> {
    endpoint_of(value).ok_or(invalid("endpoint", "1.2.3.4:51820 or [2001:db8::1]:51820"))
}

const KEY: &str = "64 hexadecimal digits";

fn invalid(key: &'static str, expected: &'static str) -> RequestErrorReason {
    RequestErrorReason::InvalidValue { key, expected }
}

fn ip_prefix(range: &str) -> Option<Prefix> {
    let (address, length) = range.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    Prefix::around(address, decimal(length)?).ok()
}

fn endpoint_of(value: &str) -> Option<Endpoint> {
    let (host, port) = value.rsplit_once(':')?;
    let port = decimal(port)?;
    let Some(bracketed) = host.strip_prefix('[') else {
        let address: Ipv4Addr = host.parse().ok()?;
        return Some(SocketAddr::from((address, port)).into());
    };
    let inside = bracketed.strip_suffix(']')?;
    let (address, scope) = match inside.split_once('%') {
        Some((address, scope)) => (address, Some(scope)),
        None => (inside, None),
    };
    let address: Ipv6Addr = address.parse().ok()?;
    // A mapped address is IPv4 on the wire, and only the IPv4 socket reaches it.
    if let Some(mapped) = address.to_ipv4_mapped() {
        return scope
            .is_none()
            .then(|| SocketAddr::from((mapped, port)).into());
    }
    let (scope_id, interface) = match scope {
        None => (0, None),
        Some(scope) => match decimal(scope) {
            Some(index) => (index, None),
            None => (0, Some(InterfaceName::new(scope).ok()?)),
        },
    };
    Some(Endpoint {
        address: SocketAddrV6::new(address, port, 0, scope_id).into(),
        interface,
    })
}

/// Digits only: the standard parser would also take a leading `+`.
fn decimal<T: core::str::FromStr>(value: &str) -> Option<T> {
    if !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    value.parse().ok()
}

fn key_bytes(value: &str) -> Option<Zeroizing<[u8; 32]>> {
    let digits = value.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut key = Zeroizing::new([0; 32]);
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
    }
    Some(key)
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
