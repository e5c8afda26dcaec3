use crate::input::Input;
use culvert_age::{AgeError, Envelope, Identity, parse_identities, parse_recipients};

/// A plaintext may be a little longer than this many bytes: two chunks of 64 KiB, so that every boundary is tried.
const CHUNK_LEN: usize = 65_536;

/// Only what was encrypted to the identity decrypts. The output of a failed decryption is a prefix of the
/// plaintext, in whole chunks. A file that decrypts is the file that was encrypted.
///
/// The first byte selects the meaning of the others. They are a file, lines of a header in front of a good file's,
/// or keys as text. They may also be changes to a good file of some length, and the place where it is cut off.
///
/// # Panics
/// If a property does not hold.
pub fn age(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    match kind % 4 {
        0 => {
            let written = decrypt(rest);
            assert!(written.1.is_err(), "nobody encrypted it");
            assert!(written.0.is_empty(), "no chunk of it is authentic");
        }
        1 => other_header(rest),
        2 => changed(&mut Input::new(rest)),
        _ => {
            if let Ok(text) = std::str::from_utf8(rest) {
                keys(text);
            }
        }
    }
}

fn identity() -> Identity {
    Identity::from_bytes(&[5; 32]).expect("a private key")
}

/// Encrypted to the identity, with one randomness for all.
fn encrypt(plain: &[u8]) -> Vec<u8> {
    let mut next = 0_u8;
    let envelope = Envelope::new(&[identity().recipient()], |bytes| {
        for byte in bytes {
            next = next.wrapping_add(1);
            *byte = next;
        }
    });
    let mut file = Vec::new();
    let sealed = envelope.expect("a recipient").seal(plain, &mut file);
    sealed.expect("memory takes all");
    file
}

/// The written bytes, and the end of the writing.
fn decrypt(file: &[u8]) -> (Vec<u8>, Result<(), AgeError>) {
    let mut written = Vec::new();
    let opened = culvert_age::open(file, &mut written, &[identity()]);
    (written, opened)
}

/// The MAC of a header covers all stanzas, those of others too.
fn other_header(lines: &[u8]) {
    let file = encrypt(b"a database");
    let (magic, rest) = file.split_at(culvert_age::MAGIC.len());
    let other = [magic, lines, rest].concat();
    let (written, opened) = decrypt(&other);
    assert!(written.is_empty() || lines.is_empty());
    assert_eq!(opened.is_ok(), lines.is_empty());
}

fn changed(input: &mut Input<'_>) {
    // Around the boundaries of chunks: the lengths that they have, and some bytes more or less.
    let len = usize::from(input.u8() % 3) * CHUNK_LEN + usize::from(input.u8() % 8);
    let plain: Vec<u8> = (0..len.saturating_sub(4))
        .map(|place| place as u8)
        .collect();
    let file = encrypt(&plain);
    let mut other = file.clone();
    if input.u8() % 2 == 1 {
        // From the end, which is where a cut is hard to tell.
        let cut = usize::from(input.u16()) * usize::from(input.u8() % 4);
        other.truncate(file.len().saturating_sub(cut));
    }
    match input.u8() % 3 {
        0 => input.damage(&mut other),
        1 => other.extend(input.rest()),
        _ => {}
    }
    let (written, opened) = decrypt(&other);
    assert!(
        plain.starts_with(&written),
        "it is no beginning of the plaintext"
    );
    assert_eq!(opened.is_ok(), other == file, "{opened:?}");
    match opened {
        Ok(()) => assert_eq!(written.len(), plain.len(), "all of it"),
        Err(_) => assert_eq!(written.len() % CHUNK_LEN, 0, "whole chunks"),
    }
}

/// A text that is read as a key is written as it was read, but for the case.
fn keys(text: &str) {
    if let Ok(recipients) = parse_recipients(text) {
        for recipient in recipients {
            let written = recipient.to_string();
            assert!(text.to_lowercase().contains(&written), "{written}");
        }
    }
    match parse_identities(text) {
        Ok(identities) => assert!(!identities.is_empty()),
        Err((line, _)) => assert!(line <= text.lines().count(), "line {line}"),
    }
}

/// Files whose lengths are at each boundary, whole, cut off and changed; headers; keys.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let good = encrypt(b"a database");
    let mut seeds = vec![vec![0], [&[0], culvert_age::MAGIC].concat()];
    for cut in [10, 30, 60, good.len() - 1] {
        seeds.push([&[0], &good[..cut]].concat());
    }
    let long = "A".repeat(64);
    for lines in [
        "",
        "-> X25519 AAAA\nAAAA\n",
        "-> scrypt salt 18\nAAAA\n",
        "-> ssh-ed25519 a b c\n\n",
        &format!("-> mlkem768x25519 {long}\n{long}\n{long}\n\n"),
        "--- AAAA\n",
        "-> X25519\n",
    ] {
        seeds.push([&[1], lines.as_bytes()].concat());
    }
    for chunks in 0..3 {
        for more in [0, 3, 4, 5] {
            seeds.push(vec![2, chunks, more, 0, 2]);
        }
        seeds.push(vec![2, chunks, 4, 1, 0, 1, 1, 2]);
        seeds.push(vec![2, chunks, 4, 1, 0, 16, 1, 2]);
        // A whole chunk with its tag.
        seeds.push(vec![2, chunks, 4, 1, 0x80, 0x08, 2, 2]);
        seeds.push(vec![2, chunks, 5, 0, 0, 1, 0, 200, b'x']);
        seeds.push(vec![2, chunks, 5, 0, 1, b'x']);
    }
    let recipient = identity().recipient().to_string();
    for text in [
        recipient.as_str(),
        &recipient.to_uppercase(),
        &format!("# for backups\n\n{recipient}\n"),
        "AGE-SECRET-KEY-1",
        "age1",
    ] {
        seeds.push([&[3], text.as_bytes()].concat());
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this the target could refuse everything and look well.
    #[test]
    fn a_good_file_decrypts() {
        let (written, opened) = decrypt(&encrypt(b"a database"));
        opened.expect("a good file");
        assert_eq!(written, b"a database");
    }
}
