//! Crockford's base 32, for 16 bytes: 26 characters, whose first carries 3 bits.

use crate::ID_LEN;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Characters that 128 bits take at 5 bits each.
pub(crate) const TEXT_LEN: usize = 26;

pub(crate) fn encode(bytes: [u8; ID_LEN]) -> [u8; TEXT_LEN] {
    let mut rest = u128::from_be_bytes(bytes);
    let mut text = [0; TEXT_LEN];
    for place in text.iter_mut().rev() {
        *place = ALPHABET[(rest & 31) as usize];
        rest >>= 5;
    }
    text
}

/// Exactly one text decodes to each id: upper case and look-alikes are refused, so that two
/// spellings never name one thing.
pub(crate) fn decode(text: &[u8]) -> Option<[u8; ID_LEN]> {
    if text.len() != TEXT_LEN || text[0] > b'7' {
        return None;
    }
    let mut value = 0_u128;
    for character in text {
        let digit = ALPHABET.iter().position(|letter| letter == character)?;
        value = value << 5 | digit as u128;
    }
    Some(value.to_be_bytes())
}
