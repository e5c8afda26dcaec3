//! The file that holds a token, such as `/etc/culvert/token`.

use std::fmt;
use std::fs::File;
use std::path::Path;

use rustix::fs::CWD;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::HostError;
use crate::file_check::{Kind, Others, open_checked, open_private, read_bounded, refuse};
use crate::file_refusal::FileRefusal;

/// The most bytes of a token file. A token is an id, a secret of 43 letters and at most a URL (2,048
/// bytes in practice, a third more in base64) with a fingerprint.
pub const MAX_TOKEN_FILE_BYTES: usize = 4096;

/// A token as it is written, zeroised when dropped and never shown by `Debug`. Comparison tells
/// nothing but the length by its time.
#[derive(Clone)]
pub struct TokenText(Zeroizing<String>);

impl TokenText {
    /// The token.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl PartialEq for TokenText {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for TokenText {}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(…)")
    }
}

/// Reads a token: one line of printable ASCII without spaces, white space around it left out.
///
/// The file must be a regular one of one name, owned by root or the user who runs this, closed to
/// everyone else, and at most [`MAX_TOKEN_FILE_BYTES`] long. All of that is checked on the descriptor
/// that is read.
///
/// # Errors
/// [`HostError::FileRefused`] with the fix; [`FileRefusal::Missing`] where there is no such file.
pub fn read_token_file(path: &Path) -> Result<TokenText, HostError> {
    read_token(open_private(CWD, path, Kind::File, path)?, path)
}

/// Reads the token that a service manager hands over as the file `name` of a unit's directory of
/// credentials (systemd: `$CREDENTIALS_DIRECTORY`).
///
/// Directory and file must belong to root or the user who runs this. Nobody else may write to the
/// directory, or do anything with the file; its group's bits may show an access control list where
/// owner and group are root.
///
/// # Errors
/// As [`read_token_file`]; [`FileRefusal::Missing`] where there is no such credential.
pub fn read_credential(directory: &Path, name: &str) -> Result<TokenText, HostError> {
    let path = directory.join(name);
    read_token(open_credential(directory, name, &path)?, &path)
}

fn open_credential(directory: &Path, name: &str, path: &Path) -> Result<File, HostError> {
    let dir = open_checked(CWD, directory, Kind::Directory, Others::MayRead, directory)?;
    let others = Others::ExcludedFromCredential;
    open_checked(&dir, Path::new(name), Kind::File, others, path)
}

/// Reads a password: one line of text, of which the line break at its end alone is left out.
///
/// The file must be as [`read_token_file`] asks for.
///
/// # Errors
/// As [`read_token_file`].
pub fn read_password_file(path: &Path) -> Result<TokenText, HostError> {
    read_password(open_private(CWD, path, Kind::File, path)?, path)
}

/// Reads a password that a service manager hands over, as [`read_credential`] reads a token.
///
/// # Errors
/// As [`read_credential`].
pub fn read_password_credential(directory: &Path, name: &str) -> Result<TokenText, HostError> {
    let path = directory.join(name);
    read_password(open_credential(directory, name, &path)?, &path)
}

fn read_password(file: File, path: &Path) -> Result<TokenText, HostError> {
    let content = read_bounded(file, MAX_TOKEN_FILE_BYTES, path)?;
    let Ok(text) = std::str::from_utf8(content.expose()) else {
        return Err(refuse(path, FileRefusal::NotOneLine));
    };
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() {
        return Err(refuse(path, FileRefusal::Empty));
    }
    if text.chars().any(char::is_control) {
        return Err(refuse(path, FileRefusal::NotOneLine));
    }
    Ok(TokenText(Zeroizing::new(text.to_owned())))
}

/// Reads a text of several lines that is as secret as a token.
///
/// The file must be as [`read_token_file`] asks for.
///
/// # Errors
/// As [`read_token_file`], also where it is not UTF-8.
pub fn read_private_text(path: &Path) -> Result<TokenText, HostError> {
    let file = open_private(CWD, path, Kind::File, path)?;
    let content = read_bounded(file, MAX_TOKEN_FILE_BYTES, path)?;
    let text = std::str::from_utf8(content.expose());
    let text = text.map_err(|_| refuse(path, FileRefusal::NotText))?;
    Ok(TokenText(Zeroizing::new(text.to_owned())))
}

fn read_token(file: File, path: &Path) -> Result<TokenText, HostError> {
    let content = read_bounded(file, MAX_TOKEN_FILE_BYTES, path)?;
    let text = content.expose().trim_ascii();
    if text.is_empty() {
        return Err(refuse(path, FileRefusal::Empty));
    }
    match std::str::from_utf8(text) {
        Ok(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(TokenText(Zeroizing::new(text.to_owned())))
        }
        _ => Err(refuse(path, FileRefusal::NotOneLine)),
    }
}
