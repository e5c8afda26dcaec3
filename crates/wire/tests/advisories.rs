//! Failures of other products, tried here.

use culvert_wire::token::{Secret, SecretDigest};

/// TS-2025-003: a secret that was compared byte by byte up to the first difference could be guessed
/// byte by byte. This test is about the result alone. `cargo xtask layering` refuses a derived comparison, and
/// `make constant-time` measures the time.
#[test]
fn ts_2025_003_a_digest_is_compared_to_its_last_bit() {
    let digest = Secret::new([7; 32]).digest();
    assert_eq!(digest, SecretDigest::from_bytes(*digest.as_bytes()));
    for bit in 0..256 {
        let mut other = *digest.as_bytes();
        other[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(digest, SecretDigest::from_bytes(other), "bit {bit}");
    }
}
