//! Opening files that hold secrets, and refusing those that others can read or have put there; and
//! files that say what to do, which others may read but not change.
//!
//! Every check is made on the open descriptor that is then read: nobody can exchange the file between
//! the check and the reading.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::HostError;
use crate::file_refusal::{FileRefusal, FileRefused, own_user_id};

/// Permission bits that let anyone but the owner do anything.
const OTHERS: u32 = 0o077;

/// Permission bits that let anyone but the owner change something.
const OTHERS_WRITE: u32 = 0o022;

/// Permission bits of a file of root and root's group that let anyone but those two do anything, or
/// the group change it. systemd gives a unit's user access to its credentials by an access control
/// list, whose mask stands in the place of the group's bits (`acl(5)`): 0440.
const OTHERS_OF_A_CREDENTIAL: u32 = 0o027;

/// The permission bits of a mode, with set-user-id, set-group-id and sticky.
const PERMISSIONS: u32 = 0o7777;

/// Content of a file, zeroised when dropped and never shown by `Debug`. Comparison tells nothing but the
/// length by its time.
#[derive(Clone)]
pub struct SecretBytes(Zeroizing<Vec<u8>>);

impl SecretBytes {
    /// The content.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for SecretBytes {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_slice().ct_eq(other.0.as_slice()).into()
    }
}

impl Eq for SecretBytes {}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(…)")
    }
}

/// The kind of file that a path must name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// The access that users other than its owner may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// Nothing. A file has no further names.
    Excluded,
    /// Nothing, as far as a service manager's credentials show that.
    ExcludedFromCredential,
    /// Read it.
    MayRead,
}

/// Opens `name`, relative to `dir`, for reading and checks that nobody else can use what was opened.
/// `path` is the name for errors.
pub(crate) fn open_private(
    dir: impl AsFd,
    name: &Path,
    kind: Kind,
    path: &Path,
) -> Result<File, HostError> {
    open_checked(dir, name, kind, Others::Excluded, path)
}

/// Does the same, for others who may do as much as this.
pub(crate) fn open_checked(
    dir: impl AsFd,
    name: &Path,
    kind: Kind,
    others: Others,
    path: &Path,
) -> Result<File, HostError> {
    // O_NONBLOCK: opening a pipe must not wait for a writer.
    let mut flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    if kind == Kind::Directory {
        flags |= OFlags::DIRECTORY;
    }
    let refused = |refusal| refuse(path, refusal);
    let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Err(refused(FileRefusal::Missing)),
        Err(Errno::ACCESS | Errno::PERM) => return Err(refused(FileRefusal::Forbidden)),
        Err(Errno::LOOP) => return Err(refused(FileRefusal::SymbolicLink)),
        Err(Errno::NOTDIR) => return Err(refused(FileRefusal::NotADirectory)),
        // A socket, or a device without a driver.
        Err(Errno::NXIO) => return Err(refused(FileRefusal::NotAFile)),
        Err(error) => return Err(HostError::file("open", path, error)),
    };
    let found = file
        .metadata()
        .map_err(|error| HostError::file("check", path, error))?;
    let found = Found {
        mode: found.mode(),
        owner: found.uid(),
        group: found.gid(),
        links: found.nlink(),
    };
    match found.judge(kind, others, own_user_id()) {
        Ok(()) => Ok(file),
        Err(refusal) => Err(refused(refusal)),
    }
}

/// Reads at most `max_bytes`; more is refused. Nothing of the content stays in memory but what is
/// returned.
pub(crate) fn read_bounded(
    mut file: File,
    max_bytes: usize,
    path: &Path,
) -> Result<SecretBytes, HostError> {
    // One byte more than the file has tells its end, and one more than is allowed that it is too long.
    let metadata = file
        .metadata()
        .map_err(|error| HostError::file("check", path, error))?;
    let expected = usize::try_from(metadata.len()).unwrap_or(max_bytes);
    let mut buffer = Zeroizing::new(vec![0; expected.min(max_bytes) + 1]);
    let mut length = 0;
    loop {
        if length == buffer.len() {
            if length > max_bytes {
                break;
            }
            // The file has grown since. The buffer before is cleared.
            let mut longer = Zeroizing::new(vec![0; max_bytes + 1]);
            longer[..length].copy_from_slice(&buffer);
            buffer = longer;
        }
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(HostError::file("read", path, error)),
        }
    }
    if length > max_bytes {
        return Err(refuse(path, FileRefusal::TooLong { max_bytes }));
    }
    Ok(SecretBytes(Zeroizing::new(buffer[..length].to_vec())))
}

/// An error about `path`.
pub(crate) fn refuse(path: &Path, refusal: FileRefusal) -> HostError {
    HostError::FileRefused(FileRefused {
        path: path.to_owned(),
        refusal,
    })
}

/// The properties of an open descriptor.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// Kind and permission bits.
    mode: u32,
    owner: u32,
    group: u32,
    links: u64,
}

impl Found {
    /// Checks that it is of this kind, of root or the user `own`, and closed to others.
    fn judge(self, kind: Kind, others: Others, own: u32) -> Result<(), FileRefusal> {
        let Self {
            mode,
            owner,
            group,
            links,
        } = self;
        match (FileType::from_raw_mode(mode), kind) {
            (FileType::RegularFile, Kind::File) | (FileType::Directory, Kind::Directory) => {}
            (_, Kind::File) => return Err(FileRefusal::NotAFile),
            (_, Kind::Directory) => return Err(FileRefusal::NotADirectory),
        }
        if owner != 0 && owner != own {
            return Err(FileRefusal::ForeignOwner { owner });
        }
        let forbidden = match others {
            Others::MayRead => OTHERS_WRITE,
            Others::ExcludedFromCredential if (owner, group) == (0, 0) => OTHERS_OF_A_CREDENTIAL,
            Others::Excluded | Others::ExcludedFromCredential => OTHERS,
        };
        if mode & forbidden != 0 {
            let mode = mode & PERMISSIONS;
            return Err(match others {
                Others::MayRead => FileRefusal::WritableByOthers { mode },
                Others::Excluded | Others::ExcludedFromCredential => {
                    FileRefusal::OpenToOthers { mode }
                }
            });
        }
        // A directory has a name in each directory below it; a file that was deleted while open has
        // none.
        if kind == Kind::File && others != Others::MayRead && links != 1 {
            return Err(FileRefusal::SeveralLinks { links });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn only_a_private_regular_file_of_root_or_oneself_is_accepted(
            kind in prop::sample::select(vec![0o100_000, 0o040_000, 0o010_000, 0o060_000]),
            permissions in prop::sample::select(vec![0_u32, 0o400, 0o600, 0o640, 0o604, 0o601]),
            owner in 0_u32..4,
            links in 0_u64..3,
        ) {
            let own = 2;
            let private = permissions & 0o077 == 0;
            let good = kind == 0o100_000 && private && (owner == 0 || owner == own) && links == 1;
            let found = Found { mode: kind | permissions, owner, group: 0, links };
            let judged = found.judge(Kind::File, Others::Excluded, own);
            prop_assert_eq!(judged.is_ok(), good, "{:?}", judged);
        }

        #[test]
        fn what_says_what_to_do_may_be_read_by_all_and_changed_by_root_or_oneself_alone(
            permissions in 0_u32..0o1000,
            owner in 0_u32..4,
        ) {
            let own = 2;
            let good = permissions & 0o022 == 0 && (owner == 0 || owner == own);
            let found = Found { mode: 0o100_000 | permissions, owner, group: 7, links: 2 };
            let judged = found.judge(Kind::File, Others::MayRead, own);
            prop_assert_eq!(judged.is_ok(), good, "{:?}", judged);
        }
    }

    #[test]
    fn the_mask_of_an_access_control_list_may_show_in_the_mode_of_roots_credential_alone() {
        let judge = |mode: u32, owner, group| {
            let found = Found {
                mode: 0o100_000 | mode,
                owner,
                group,
                links: 1,
            };
            found.judge(Kind::File, Others::ExcludedFromCredential, 2)
        };
        assert_eq!(judge(0o440, 0, 0), Ok(()));
        assert_eq!(judge(0o400, 2, 2), Ok(()));
        for (mode, owner, group) in [
            (0o440, 2, 2),
            (0o440, 0, 2),
            (0o444, 0, 0),
            (0o460, 0, 0),
            (0o400, 3, 0),
        ] {
            assert!(
                judge(mode, owner, group).is_err(),
                "{mode:o} {owner} {group}"
            );
        }
    }

    #[test]
    fn debug_shows_no_content() {
        let secret = SecretBytes(Zeroizing::new(b"hunter2".to_vec()));
        assert!(!format!("{secret:?}").contains("hunter2"));
    }
}
