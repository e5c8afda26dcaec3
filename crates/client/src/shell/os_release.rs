//! The operating system of this machine, for the portal.

use culvert_client_core::{MAX_OS_RELEASE_LEN, parse_os_release};
use culvert_policy::conditions::OperatingSystem;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The places of the file by os-release(5): the administrator's own goes before the distribution's.
const PATHS: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];

/// Reads it. Without such a file this is a Linux of which nothing more is known.
pub(super) fn read() -> io::Result<OperatingSystem> {
    for path in PATHS {
        match read_file(Path::new(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            read => return read,
        }
    }
    Ok(OperatingSystem::linux())
}

fn read_file(path: &Path) -> io::Result<OperatingSystem> {
    let mut bytes = Vec::new();
    let most = MAX_OS_RELEASE_LEN as u64 + 1;
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_OS_RELEASE_LEN {
        let error = format!(
            "{} has more than {MAX_OS_RELEASE_LEN} bytes",
            path.display()
        );
        return Err(io::Error::new(ErrorKind::FileTooLarge, error));
    }
    Ok(parse_os_release(&String::from_utf8_lossy(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("os-release");
        let write = |len: usize| {
            let mut text = b"ID=debian\nVERSION_ID=\"12\"\n#".to_vec();
            text.resize(len, b'x');
            std::fs::write(&path, text).unwrap();
        };
        write(MAX_OS_RELEASE_LEN);
        assert_eq!(read_file(&path).unwrap().to_string(), "debian 12");
        write(MAX_OS_RELEASE_LEN + 1);
        let error = read_file(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read_file(&path).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
