//! The operations themselves, as the helper does them, or a process that has none.

use super::message::{Answer, MAX_ADDRESSES, MAX_RESOLV_CONF_BYTES, Request, SystemFile};
use crate::command_group;
use crate::start_time::start_time;
use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The mode of `resolv.conf`: its owner writes, all read.
const MODE: Mode = Mode::from_raw_mode(0o644);

/// The files that the operations are about, and whether they may be changed.
#[derive(Clone, Debug)]
pub(crate) struct Operations {
    pub(crate) resolv_conf: PathBuf,
    pub(crate) hosts: PathBuf,
    pub(crate) nsswitch: PathBuf,
    /// True if `resolv.conf` may be written.
    pub(crate) may_write: bool,
}

impl Operations {
    /// On the files of the system.
    pub(crate) fn of_system(may_write: bool) -> Self {
        Self {
            resolv_conf: "/etc/resolv.conf".into(),
            hosts: "/etc/hosts".into(),
            nsswitch: "/etc/nsswitch.conf".into(),
            may_write,
        }
    }

    pub(super) fn perform(&self, request: &Request) -> io::Result<(Answer, Option<OwnedFd>)> {
        let answer = match request {
            Request::LookUp { host, port } => {
                let found = (host.as_str(), *port).to_socket_addrs()?;
                Answer::Addresses(found.take(MAX_ADDRESSES).collect())
            }
            Request::Open(file) => return Ok((Answer::Opened, Some(self.open(*file)?))),
            Request::OpenResolvConf => {
                self.require_write()?;
                let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::open(&self.resolv_conf, flags, Mode::empty())?;
                return Ok((Answer::Opened, Some(file)));
            }
            Request::ExchangeResolvConf(content) => {
                self.require_write()?;
                Answer::Exchanged(self.exchange(content)?)
            }
            Request::RemoveResolvConf => {
                self.require_write()?;
                rustix::fs::unlink(&self.resolv_conf)?;
                Answer::Done
            }
            Request::RemoveUnfinished => {
                self.require_write()?;
                rustix::fs::unlink(self.unfinished())?;
                Answer::Done
            }
            Request::CommandGroup => Answer::Group(command_group::group()),
            Request::Admit(peer) => Answer::Admitted(command_group::judge(*peer)),
            Request::StartTime(pid) => Answer::StartTime(start_time(*pid)?),
        };
        Ok((answer, None))
    }

    fn require_write(&self) -> io::Result<()> {
        match self.may_write {
            true => Ok(()),
            false => Err(Errno::ACCESS.into()),
        }
    }

    fn open(&self, file: SystemFile) -> io::Result<OwnedFd> {
        let (path, extra) = match file {
            SystemFile::ResolvConf => (&self.resolv_conf, OFlags::empty()),
            SystemFile::ResolvConfUnlinked => (&self.resolv_conf, OFlags::NOFOLLOW),
            SystemFile::Hosts => (&self.hosts, OFlags::empty()),
            SystemFile::Nsswitch => (&self.nsswitch, OFlags::empty()),
        };
        // O_NONBLOCK: opening a pipe must not wait for a writer.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | extra;
        Ok(rustix::fs::open(path, flags, Mode::empty())?)
    }

    /// Returns what the file said whose place another has taken, as far as an answer has room for it. The new one has
    /// its mode.
    fn exchange(&self, content: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let unfinished = self.unfinished();
        match rustix::fs::unlink(&unfinished) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::open(&unfinished, flags, MODE)?);
        // The mode given above has lost what the umask forbids.
        rustix::fs::fchmod(&file, self.mode())?;
        file.write_all(content)?;
        file.sync_all()?;
        let exchanged = RenameFlags::EXCHANGE;
        match rustix::fs::renameat_with(CWD, &unfinished, CWD, &self.resolv_conf, exchanged) {
            Ok(()) => {
                let replaced = read_plain(&unfinished);
                rustix::fs::unlink(&unfinished)?;
                Ok(replaced)
            }
            // There was none, or the file system can't do so.
            Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::rename(&unfinished, &self.resolv_conf)?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The mode of the file, if it is one.
    fn mode(&self) -> Mode {
        match rustix::fs::lstat(&self.resolv_conf) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile => {
                Mode::from_raw_mode(found.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO)
            }
            Ok(_) | Err(_) => MODE,
        }
    }

    /// The file while it is being written.
    fn unfinished(&self) -> PathBuf {
        let directory = self.resolv_conf.parent().unwrap_or(Path::new("/"));
        directory.join(".resolv.conf.culvert")
    }
}

/// The content of a file of at most [`MAX_RESOLV_CONF_BYTES`] that is no link.
fn read_plain(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let mut content = Vec::new();
    let most = MAX_RESOLV_CONF_BYTES as u64 + 1;
    file.take(most).read_to_end(&mut content).ok()?;
    (content.len() <= MAX_RESOLV_CONF_BYTES).then_some(content)
}
