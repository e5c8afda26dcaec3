//! The identity of the machine: its id and its private key, made once and kept.

use crate::{HostError, StateDir};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// The file with the machine's id.
const ID_FILE: &str = "id";

/// The file with the private key, in base64 as `wg genkey` writes it.
const KEY_FILE: &str = "private.key";

/// Characters of an id: four times a UUID's.
const MAX_ID_CHARS: usize = 128;

/// Bytes of a private key (X25519).
const KEY_LEN: usize = 32;

/// The identity of the machine.
#[derive(Debug)]
pub struct Identity {
    /// The text by which the portal knows the machine again.
    pub machine: String,
    /// Its private key.
    pub key: PrivateKeyBytes,
}

/// The bytes of a private key, which no debug text shows and nobody finds in memory afterwards.
#[derive(Clone)]
pub struct PrivateKeyBytes(Zeroizing<[u8; KEY_LEN]>);

impl PrivateKeyBytes {
    /// The bytes, in the open.
    #[must_use]
    pub fn expose(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

impl std::fmt::Debug for PrivateKeyBytes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("PrivateKeyBytes(secret)")
    }
}

impl Identity {
    /// Reads both from the state directory, or makes them. `given` stands for the id that is kept.
    ///
    /// # Errors
    /// [`HostError::InvalidMachineId`], [`HostError::Damaged`], and those of the files.
    pub fn load(state: &StateDir, given: Option<&str>) -> Result<Self, HostError> {
        let machine = machine_id(state, given)?;
        let key = stored_key(state)?;
        Ok(Self { machine, key })
    }
}

/// The id of a machine that has no key: reads it from the state directory, or makes it. `given` stands for the id that
/// is kept.
///
/// # Errors
/// [`HostError::InvalidMachineId`], and those of the file.
pub fn machine_id(state: &StateDir, given: Option<&str>) -> Result<String, HostError> {
    match given {
        Some(id) => parse_id(id, "--id"),
        None => stored_id(state),
    }
}

fn stored_id(state: &StateDir) -> Result<String, HostError> {
    if let Some(content) = state.read(ID_FILE)? {
        let text = std::str::from_utf8(content.expose()).unwrap_or_default();
        let path = state.path().join(ID_FILE);
        return parse_id(text.trim(), &path.display().to_string());
    }
    let id: String = draw::<16>()?
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    state.write(ID_FILE, format!("{id}\n").as_bytes())?;
    Ok(id)
}

fn parse_id(text: &str, from: &str) -> Result<String, HostError> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:".contains(letter);
    if (1..=MAX_ID_CHARS).contains(&text.len()) && text.chars().all(plain) {
        Ok(text.to_owned())
    } else {
        let from = from.to_owned();
        Err(HostError::InvalidMachineId { from })
    }
}

fn stored_key(state: &StateDir) -> Result<PrivateKeyBytes, HostError> {
    if let Some(content) = state.read(KEY_FILE)? {
        // Room for more than a key, so that a longer text is told from one.
        let mut bytes = Zeroizing::new([0; KEY_LEN + 4]);
        let decoded = STANDARD.decode_slice(content.expose().trim_ascii(), bytes.as_mut_slice());
        if decoded != Ok(KEY_LEN) {
            let path = state.path().join(KEY_FILE);
            return Err(HostError::Damaged { path });
        }
        let mut key = Zeroizing::new([0; KEY_LEN]);
        key.copy_from_slice(&bytes[..KEY_LEN]);
        return Ok(PrivateKeyBytes(key));
    }
    let key = draw::<KEY_LEN>()?;
    let mut text = Zeroizing::new(STANDARD.encode(key.as_slice()));
    text.push('\n');
    state.write(KEY_FILE, text.as_bytes())?;
    Ok(PrivateKeyBytes(key))
}

fn draw<const N: usize>() -> Result<Zeroizing<[u8; N]>, HostError> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice())
        .map_err(std::io::Error::other)
        .map_err(|error| HostError::system("draw random bytes", error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn id_and_key_are_made_once_and_kept() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("client");
        let state = StateDir::open(&path).unwrap();
        let first = Identity::load(&state, None).unwrap();
        let second = Identity::load(&state, None).unwrap();
        assert_eq!(first.machine, second.machine);
        assert_eq!(first.machine.len(), 32);
        assert_eq!(first.key.expose(), second.key.expose());
        for name in [ID_FILE, KEY_FILE] {
            let mode = std::fs::metadata(path.join(name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let text = format!("{first:?}");
        let byte = format!("{:?}", &first.key.expose()[..4]);
        assert!(!text.contains(byte.trim_matches(['[', ']'])), "{text}");
    }

    #[test]
    fn a_given_id_stands_for_the_kept_one_and_is_not_written() {
        let parent = tempfile::tempdir().unwrap();
        let state = StateDir::open(&parent.path().join("client")).unwrap();
        let given = Identity::load(&state, Some("fleet-7")).unwrap();
        assert_eq!(given.machine, "fleet-7");
        assert_ne!(Identity::load(&state, None).unwrap().machine, "fleet-7");
        for bad in ["", "a b", "a\n", &"x".repeat(129)] {
            assert!(Identity::load(&state, Some(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_damaged_key_is_not_replaced_silently() {
        let parent = tempfile::tempdir().unwrap();
        let state = StateDir::open(&parent.path().join("client")).unwrap();
        for content in [
            "",
            "AAAA",
            "not base64 at all, and far too long to be a key of any kind",
        ] {
            state.write(KEY_FILE, content.as_bytes()).unwrap();
            let loaded = Identity::load(&state, None);
            assert!(
                matches!(loaded, Err(HostError::Damaged { .. })),
                "{content}"
            );
        }
    }
}
