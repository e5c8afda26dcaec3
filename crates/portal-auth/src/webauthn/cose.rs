//! Public keys as authenticators write them (RFC 9052, RFC 9053), and their signatures.

use super::cbor::one_value;
use super::error::WebauthnError;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use ciborium::Value;

/// The algorithms that are asked for, the best first, by the numbers of the COSE registry: ES256,
/// EdDSA over Ed25519, and RS256, the only one that the TPMs of many laptops know.
pub const ALGORITHMS: [i64; 3] = [ES256, EDDSA, RS256];

const ES256: i64 = -7;
const EDDSA: i64 = -8;
const RS256: i64 = -257;

/// Labels of COSE_Key: its kind, its algorithm, and what depends on the kind.
const KTY: i64 = 1;
const ALG: i64 = 3;
const CRV_OR_N: i64 = -1;
const X_OR_E: i64 = -2;
const Y: i64 = -3;

const KTY_OKP: i64 = 1;
const KTY_EC2: i64 = 2;
const KTY_RSA: i64 = 3;
const CRV_P256: i64 = 1;
const CRV_ED25519: i64 = 6;

/// Bytes of the shortest modulus whose signatures are checked: 2,048 bits.
const MIN_RSA_LEN: usize = 256;

#[derive(Debug)]
pub(super) enum PublicKey {
    /// An uncompressed point: 4, x, y.
    P256([u8; 65]),
    Ed25519([u8; 32]),
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
}

impl PublicKey {
    pub(super) fn parse(key: &[u8]) -> Result<Self, WebauthnError> {
        const BROKEN: WebauthnError = WebauthnError::Malformed("the public key");
        if key.len() > culvert_store::MAX_PUBLIC_KEY_LEN {
            return Err(BROKEN);
        }
        let Value::Map(entries) = one_value(key)? else {
            return Err(BROKEN);
        };
        let field = |label: i64| {
            let mut found = entries
                .iter()
                .filter(|(key, _)| key.as_integer() == Some(label.into()));
            found
                .next()
                .map(|(_, value)| value)
                .filter(|_| found.next().is_none())
        };
        let number = |label| field(label)?.as_integer()?.try_into().ok();
        let octets = |label| field(label)?.as_bytes().map(Vec::as_slice);
        let fixed = |label| <[u8; 32]>::try_from(octets(label)?).ok();
        match (number(ALG), number(KTY)) {
            (Some(ES256), Some(KTY_EC2)) if number(CRV_OR_N) == Some(CRV_P256) => {
                let (x, y) = (fixed(X_OR_E).ok_or(BROKEN)?, fixed(Y).ok_or(BROKEN)?);
                let mut point = [4; 65];
                point[1..33].copy_from_slice(&x);
                point[33..].copy_from_slice(&y);
                Ok(Self::P256(point))
            }
            (Some(EDDSA), Some(KTY_OKP)) if number(CRV_OR_N) == Some(CRV_ED25519) => {
                fixed(X_OR_E).map(Self::Ed25519).ok_or(BROKEN)
            }
            (Some(RS256), Some(KTY_RSA)) => {
                let n = octets(CRV_OR_N).filter(|n| n.len() >= MIN_RSA_LEN);
                Ok(Self::Rsa {
                    n: n.ok_or(BROKEN)?.to_vec(),
                    e: octets(X_OR_E).ok_or(BROKEN)?.to_vec(),
                })
            }
            (Some(_), Some(_)) => Err(WebauthnError::OtherAlgorithm),
            _ => Err(BROKEN),
        }
    }

    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), WebauthnError> {
        let verified = match self {
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(message, signature)
            }
            Self::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
            Self::Rsa { n, e } => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
        };
        verified.map_err(|_| WebauthnError::WrongSignature)
    }
}
