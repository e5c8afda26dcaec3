//! The file that configures a service, such as `/etc/culvert/client.toml`.

use std::path::Path;

use rustix::fs::CWD;

use crate::HostError;
use crate::file_check::{Kind, Others, open_checked, read_bounded, refuse};
use crate::file_refusal::FileRefusal;

/// The most bytes of a configuration file. Two dozen options with a few hundred bytes of comment each
/// are a tenth of it.
pub const MAX_CONFIG_FILE_BYTES: usize = 64 * 1024;

/// Reads a configuration file.
///
/// Anyone who can change the file controls a privileged program. It must therefore be a regular
/// file of root or of the user who runs this, and nobody else may write it. That is checked on the
/// descriptor that is read.
///
/// # Errors
/// [`HostError::FileRefused`] with the fix; [`FileRefusal::Missing`] where there is no such file.
pub fn read_config_file(path: &Path) -> Result<String, HostError> {
    let file = open_checked(CWD, path, Kind::File, Others::MayRead, path)?;
    let content = read_bounded(file, MAX_CONFIG_FILE_BYTES, path)?;
    match std::str::from_utf8(content.expose()) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(refuse(path, FileRefusal::NotText)),
    }
}
