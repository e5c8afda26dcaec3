//! The configuration socket in the file system: made, guarded, found, removed.

use crate::exit::{Failure, Status};
use culvert_uapi::InterfaceName;
use rustix::fs::{FlockOperation, Mode, OFlags, inotify};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs::{self, DirBuilder};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory in which `wg` looks for the sockets of userspace interfaces.
pub(crate) const DIRECTORY: &str = "/var/run/wireguard";

/// Connections that wait to be accepted. `wg` makes one at a time; a monitor and a few shells beside
/// it still find room while all servers are busy.
const BACKLOG: i32 = 16;

/// The socket of interface `name` in `directory`.
pub(crate) fn path_of(directory: &Path, name: &InterfaceName) -> PathBuf {
    directory.join(format!("{name}.sock"))
}

/// The interfaces that have a socket in `directory`, sorted.
pub(crate) fn interfaces(directory: &Path) -> io::Result<Vec<InterfaceName>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let file_name = entry?.file_name();
        let name = file_name
            .to_str()
            .and_then(|name| name.strip_suffix(".sock"));
        names.extend(name.and_then(|name| InterfaceName::new(name).ok()));
    }
    names.sort();
    Ok(names)
}

/// Fails when a process serves the socket of `name`: asked before anything is made, so that a
/// second process on an interface disturbs nothing.
pub(crate) fn refuse_if_in_use(directory: &Path, name: &InterfaceName) -> Result<(), Failure> {
    let path = path_of(directory, name);
    match is_served(&path) {
        Ok(false) => Ok(()),
        Ok(true) => Err(in_use(name)),
        Err(error) => Err(Failure::io(path.display(), &error)),
    }
}

/// A socket that this process serves. Removed when dropped, unless it is another's by then.
pub(crate) struct ControlSocket {
    listener: Arc<UnixListener>,
    path: PathBuf,
    identity: Identity,
    watch: Option<OwnedFd>,
}

impl ControlSocket {
    /// Makes `directory` (mode 0700) where it is missing, and the socket of `name` in it.
    ///
    /// The socket has mode 0600 from its first moment. One that a dead process left behind is
    /// replaced; one that is served is refused.
    pub(crate) fn bind(directory: &Path, name: &InterfaceName) -> Result<Self, Failure> {
        let path = path_of(directory, name);
        let failed = |error: io::Error| Failure::io(format_args!("{}", path.display()), &error);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(failed)?;
        // Two processes that find the same dead socket must not each remove the other's new one:
        // the lock on the directory lasts until the socket is bound.
        let lock = rustix::fs::open(
            directory,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|error| failed(error.into()))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| failed(error.into()))?;
        if is_served(&path).map_err(failed)? {
            return Err(in_use(name));
        }
        remove_dead(&path)?;
        let listener = listen(&path).map_err(failed)?;
        let identity = Identity::of(&path).map_err(failed)?;
        let watch = watch(directory)
            .inspect_err(|error| {
                tracing::warn!(%error, "deleting the configuration socket won't end the interface");
            })
            .ok();
        Ok(Self {
            listener: Arc::new(listener),
            path,
            identity,
            watch,
        })
    }

    /// The socket to accept on.
    pub(crate) fn listener(&self) -> &Arc<UnixListener> {
        &self.listener
    }

    /// The watch behind [`Watch::wait`]; `None` if the kernel gives no more watches, or at a second
    /// call.
    pub(crate) fn take_watch(&mut self) -> Option<Watch> {
        Some(Watch {
            events: self.watch.take()?,
            path: self.path.clone(),
            identity: self.identity,
        })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if Identity::of(&self.path).is_ok_and(|found| found == self.identity) {
            // It is gone or will be found dead by the next process: nothing else is to be done.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Waits for the deletion of a socket.
pub(crate) struct Watch {
    events: OwnedFd,
    path: PathBuf,
    identity: Identity,
}

impl Watch {
    /// Returns once the socket is deleted, moved away or replaced.
    ///
    /// "Userspace implementations should die gracefully in response to … the deletion of the UNIX
    /// domain socket file."
    pub(crate) fn wait(&self) -> io::Result<()> {
        // An event with the longest file name is 16 + 256 bytes.
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut reader = inotify::Reader::new(&self.events, &mut buffer);
        while Identity::of(&self.path).is_ok_and(|found| found == self.identity) {
            match reader.next() {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The identity of the file that a path leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }
}

fn in_use(name: &InterfaceName) -> Failure {
    Failure::new(
        Status::InUse,
        format_args!("{name} is in use: another process serves it; choose another name or end it"),
    )
}

/// True if a process accepts connections at `path`.
fn is_served(path: &Path) -> io::Result<bool> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        // EAGAIN: somebody listens, with a full backlog.
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes the socket of a dead process, and nothing else.
fn remove_dead(path: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::io(path.display(), &error);
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => {
            let what = format_args!("{} is not a socket; move it away", path.display());
            return Err(Failure::new(Status::InUse, what));
        }
    }
    fs::remove_file(path).map_err(failed)
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // Linux gives the file the mode of the socket, less the umask: there is no moment in which
    // others may connect, and the umask of the process stays as it is.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

fn watch(directory: &Path) -> io::Result<OwnedFd> {
    let events = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    let deleted = inotify::WatchFlags::DELETE | inotify::WatchFlags::MOVED_FROM;
    // `MOVED_TO`: another file was moved onto ours.
    let replaced = inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::DELETE_SELF;
    inotify::add_watch(&events, directory, deleted | replaced)?;
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_socket_has_mode_0600_in_a_directory_of_mode_0700() {
        let (_root, directory) = scratch();
        let _socket = ControlSocket::bind(&directory, &wg0()).unwrap();
        assert_eq!(mode(&directory.join("wg0.sock")), 0o600);
        assert_eq!(mode(&directory), 0o700);
    }

    #[test]
    fn the_socket_is_removed_at_the_end_unless_it_is_anothers() {
        let (_root, directory) = scratch();
        let path = directory.join("wg0.sock");
        drop(ControlSocket::bind(&directory, &wg0()).unwrap());
        assert!(!path.exists());
        let socket = ControlSocket::bind(&directory, &wg0()).unwrap();
        fs::rename(&path, directory.join("away")).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(socket);
        assert!(path.exists());
    }

    #[test]
    fn a_served_socket_is_refused_and_a_dead_one_replaced() {
        let (_root, directory) = scratch();
        refuse_if_in_use(&directory, &wg0()).unwrap();
        let socket = ControlSocket::bind(&directory, &wg0()).unwrap();
        let refused = refuse_if_in_use(&directory, &wg0()).unwrap_err();
        assert_eq!(refused.status, Status::InUse);
        assert!(
            refused.to_string().starts_with("wg0 is in use"),
            "{refused}"
        );
        assert!(ControlSocket::bind(&directory, &wg0()).is_err());
        drop(socket);

        drop(UnixListener::bind(directory.join("wg0.sock")).unwrap());
        refuse_if_in_use(&directory, &wg0()).unwrap();
        let socket = ControlSocket::bind(&directory, &wg0()).unwrap();
        UnixStream::connect(directory.join("wg0.sock")).unwrap();
        socket.listener().accept().unwrap();
    }

    #[test]
    fn a_socket_with_a_full_backlog_is_in_use() {
        let (_root, directory) = scratch();
        let _socket = ControlSocket::bind(&directory, &wg0()).unwrap();
        // Each question leaves a connection behind that nobody accepts.
        for _ in 0..2 * BACKLOG {
            assert!(refuse_if_in_use(&directory, &wg0()).is_err());
        }
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let (_root, directory) = scratch();
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("wg0.sock"), "precious").unwrap();
        assert!(ControlSocket::bind(&directory, &wg0()).is_err());
        assert_eq!(fs::read(directory.join("wg0.sock")).unwrap(), b"precious");
    }

    #[test]
    fn deleting_or_replacing_the_socket_is_noticed() {
        let (_root, directory) = scratch();
        let path = directory.join("wg0.sock");
        let mut socket = ControlSocket::bind(&directory, &wg0()).unwrap();
        fs::write(directory.join("unrelated"), "").unwrap();
        let watch = socket.take_watch().unwrap();
        let waiting = std::thread::spawn(move || watch.wait());
        fs::remove_file(directory.join("unrelated")).unwrap();
        fs::remove_file(&path).unwrap();
        waiting.join().unwrap().unwrap();

        let mut socket = ControlSocket::bind(&directory, &wg0()).unwrap();
        let watch = socket.take_watch().unwrap();
        let waiting = std::thread::spawn(move || watch.wait());
        fs::write(directory.join("other"), "").unwrap();
        fs::rename(directory.join("other"), &path).unwrap();
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn interfaces_are_found_by_their_sockets() {
        let (_root, directory) = scratch();
        assert_eq!(interfaces(&directory).unwrap(), []);
        let _socket = ControlSocket::bind(&directory, &wg0()).unwrap();
        fs::write(directory.join("a name too long for it.sock"), "").unwrap();
        fs::write(directory.join("notes"), "").unwrap();
        assert_eq!(interfaces(&directory).unwrap(), [wg0()]);
    }

    fn scratch() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("wireguard");
        (root, directory)
    }

    fn wg0() -> InterfaceName {
        InterfaceName::new("wg0").unwrap()
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }
}
