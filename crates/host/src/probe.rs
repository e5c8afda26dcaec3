//! The requirements on a machine; each missing one is reported with its remedy.

use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags};
use rustix::thread::CapabilitySet;

use crate::HostError;

/// The paths at which `nft` is looked for. The list is fixed and not `PATH`, because anyone who
/// starts a program that has capabilities may set `PATH`.
const NFT_PATHS: [&str; 5] = [
    "/usr/sbin/nft",
    "/sbin/nft",
    "/usr/bin/nft",
    "/usr/local/sbin/nft",
    "/run/current-system/sw/bin/nft",
];

/// The device by which TUN devices are made.
const TUN_DEVICE: &str = "/dev/net/tun";

/// Requires the right to change the network.
///
/// # Errors
/// [`HostError::NeedsNetAdmin`].
pub fn require_net_admin() -> Result<(), HostError> {
    let sets = rustix::thread::capabilities(None)
        .map_err(|error| HostError::system("read the capabilities of this process", error))?;
    if sets.effective.contains(CapabilitySet::NET_ADMIN) {
        Ok(())
    } else {
        Err(HostError::NeedsNetAdmin)
    }
}

/// The path of the program `nft`.
///
/// # Errors
/// [`HostError::NftMissing`].
pub fn require_nft() -> Result<PathBuf, HostError> {
    first_of(&NFT_PATHS).ok_or(HostError::NftMissing)
}

/// Requires the device from which TUN interfaces are made, and the right to open it.
///
/// # Errors
/// [`HostError::NoTunDevice`], [`HostError::TunDeviceForbidden`].
pub fn require_tun_device() -> Result<(), HostError> {
    match std::fs::metadata(TUN_DEVICE) {
        Ok(found) if is_character_device(&found) => {}
        Ok(_) | Err(_) => return Err(HostError::NoTunDevice),
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::open(TUN_DEVICE, flags, rustix::fs::Mode::empty()) {
        // Dropping it again leaves nothing: an interface is only made by a later call.
        Ok(_) => Ok(()),
        Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => {
            Err(HostError::TunDeviceForbidden)
        }
        // The node is there, the driver is not.
        Err(_) => Err(HostError::NoTunDevice),
    }
}

fn is_character_device(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    FileType::from_raw_mode(found.mode()) == FileType::CharacterDevice
}

/// The first of the files that exists.
fn first_of(paths: &[&str]) -> Option<PathBuf> {
    let present = paths.iter().map(Path::new).find(|path| path.is_file());
    present.map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_can_run_the_lab_lacks_nothing() {
        assert!(require_net_admin().is_ok());
        assert!(require_tun_device().is_ok());
        assert!(require_nft().is_ok_and(|path| path.is_absolute()));
    }

    #[test]
    fn a_program_that_is_nowhere_is_not_found() {
        assert_eq!(first_of(&["/nonexistent/nft", "/"]), None);
        assert_eq!(
            first_of(&["/nonexistent/nft", "/bin/sh"]),
            Some("/bin/sh".into())
        );
    }

    #[test]
    fn each_missing_thing_is_told_in_one_line_with_its_remedy() {
        for (error, remedy) in [
            (HostError::NftMissing, "install the package nftables"),
            (HostError::NoTunDevice, "`modprobe tun`"),
            (HostError::TunDeviceForbidden, "run as root"),
            (HostError::NeedsNetAdmin, "`setcap cap_net_admin+ep`"),
        ] {
            let text = error.to_string();
            assert!(text.contains(remedy) && !text.contains('\n'), "{text}");
        }
    }
}
