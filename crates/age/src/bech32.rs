//! Bech32 (BIP 173), which age writes its keys in.

use zeroize::Zeroizing;

const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/// BIP 173, "Checksum".
const GENERATORS: [u32; 5] = [
    0x3b6a_57b2,
    0x2650_8e6d,
    0x1ea1_19fa,
    0x3d42_33dd,
    0x2a14_62b3,
];

const CHECKSUM_LEN: usize = 6;

/// A fault of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Form,
    Checksum,
}

/// The 32 bytes behind `prefix` and the separator. Letters are all lower case or all upper case.
pub(crate) fn decode(text: &str, prefix: &str) -> Result<Zeroizing<[u8; 32]>, Fault> {
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    let is_upper = !text.bytes().any(|byte| byte.is_ascii_lowercase());
    if !text.is_ascii() || !(is_lower || is_upper) {
        return Err(Fault::Form);
    }
    let text = Zeroizing::new(text.to_ascii_lowercase());
    let data = text
        .strip_prefix(prefix)
        .and_then(|it| it.strip_prefix('1'));
    let data = data.ok_or(Fault::Form)?;
    let mut symbols = Zeroizing::new(Vec::with_capacity(data.len()));
    for byte in data.bytes() {
        let symbol = ALPHABET.iter().position(|&letter| letter == byte);
        symbols.push(u8::try_from(symbol.ok_or(Fault::Form)?).unwrap_or(u8::MAX));
    }
    if polymod(prefix, &symbols) != 1 {
        return Err(Fault::Checksum);
    }
    let end = symbols.len().checked_sub(CHECKSUM_LEN).ok_or(Fault::Form)?;
    regroup(&symbols[..end]).ok_or(Fault::Form)
}

/// Eight bits of five; what is left over must be zero and shorter than a symbol.
fn regroup(symbols: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    let mut bytes = Zeroizing::new([0; 32]);
    let (mut pending, mut bits, mut len) = (0_u32, 0, 0);
    for &symbol in symbols {
        pending = pending << 5 | u32::from(symbol);
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            *bytes.get_mut(len)? = u8::try_from(pending >> bits & 0xff).ok()?;
            len += 1;
        }
        pending &= (1 << bits) - 1;
    }
    (len == bytes.len() && bits < 5 && pending == 0).then_some(bytes)
}

/// The text of 32 bytes, in lower case.
pub(crate) fn encode(prefix: &str, bytes: &[u8; 32]) -> Zeroizing<String> {
    let mut symbols = Zeroizing::new(Vec::new());
    let (mut pending, mut bits) = (0_u32, 0);
    for &byte in bytes {
        pending = pending << 8 | u32::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            symbols.push((pending >> bits & 31) as u8);
        }
        pending &= (1 << bits) - 1;
    }
    if bits > 0 {
        symbols.push((pending << (5 - bits) & 31) as u8);
    }
    let data = symbols.len();
    symbols.extend([0; CHECKSUM_LEN]);
    let checksum = polymod(prefix, &symbols) ^ 1;
    symbols.truncate(data);
    symbols.extend((0..CHECKSUM_LEN).map(|at| (checksum >> (5 * (5 - at)) & 31) as u8));
    let mut text = Zeroizing::new(format!("{prefix}1"));
    text.extend(
        symbols
            .iter()
            .map(|&symbol| char::from(ALPHABET[usize::from(symbol)])),
    );
    text
}

fn polymod(prefix: &str, symbols: &[u8]) -> u32 {
    let high = prefix.bytes().map(|byte| byte >> 5);
    let low = prefix.bytes().map(|byte| byte & 31);
    let values = high.chain([0]).chain(low).chain(symbols.iter().copied());
    values.fold(1, |sum: u32, value| {
        let top = sum >> 25;
        let sum = (sum & 0x01ff_ffff) << 5 ^ u32::from(value);
        let taken = GENERATORS.iter().enumerate();
        let taken = taken.filter(|(bit, _)| top >> bit & 1 == 1);
        taken.fold(sum, |sum, (_, generator)| sum ^ generator)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_bip_173() {
        // "Test vectors", without their data part.
        assert_eq!(polymod("a", &symbols("2uel5l")), 1);
        assert_eq!(polymod("?", &symbols("ezyfcl")), 1);
        assert_eq!(
            polymod("abcdef", &symbols("qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw")),
            1
        );
        assert_ne!(polymod("a", &symbols("2uel5m")), 1);
    }

    fn symbols(text: &str) -> Vec<u8> {
        let place = |byte| ALPHABET.iter().position(|&letter| letter == byte).unwrap();
        text.bytes().map(|byte| place(byte) as u8).collect()
    }
}
