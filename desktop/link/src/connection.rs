//! One request to the service at its socket, and one answer.

use culvert_desktop_core::exchange::{
    self, AnswerError, MAX_ANSWER_BYTES, MAX_TOKEN_BYTES, Request,
};
use culvert_desktop_core::peer::{self, MAX_PASSWD_BYTES, SERVICE_USER};
use culvert_desktop_core::phase::Contact;
use culvert_desktop_core::status::Status;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The time limit of a whole exchange. The window shows the state before for this long at most when the service hangs.
const EXCHANGE_LIMIT: Duration = Duration::from_secs(2);

/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// The file with the users of this machine.
const PASSWD: &str = "/etc/passwd";

/// The service: its socket, and the user that answers there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The path of the socket.
    pub socket: PathBuf,
    /// The number of the user that packages make for the service, if there is one.
    pub user: Option<u32>,
}

impl Service {
    /// The service at `socket`. The list of the machine's users is read.
    #[must_use]
    pub fn at(socket: PathBuf) -> Self {
        let mut passwd = String::new();
        let read = File::open(PASSWD)
            .and_then(|file| file.take(MAX_PASSWD_BYTES).read_to_string(&mut passwd));
        let user = read.ok().and_then(|_| peer::user_id(&passwd, SERVICE_USER));
        Self { socket, user }
    }
}

/// The reason why there is no status.
#[derive(Debug)]
pub enum ExchangeError {
    /// Nobody answers, or the connection failed.
    Io(io::Error),
    /// A program of this user answers, which is not the service. Nothing was sent to it.
    Stranger(u32),
    /// The answer is no status.
    Answer(AnswerError),
}

impl ExchangeError {
    /// The state of the contact that the error means.
    #[must_use]
    pub fn into_contact(self) -> Contact {
        match self {
            Self::Stranger(user) => Contact::Stranger(user),
            Self::Answer(AnswerError::Version(version)) => Contact::OtherVersion(version),
            Self::Answer(AnswerError::Refused(text) | AnswerError::Unreadable(text)) => {
                Contact::Broken(text)
            }
            Self::Io(error) => match error.kind() {
                // A service that restarts closes connections that it has not answered.
                io::ErrorKind::NotFound
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof => Contact::Away,
                io::ErrorKind::PermissionDenied => Contact::Forbidden,
                _ => Contact::Broken(error.to_string()),
            },
        }
    }
}

impl From<io::Error> for ExchangeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustix::io::Errno> for ExchangeError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

/// Sends `request` to the service and reads its answer.
///
/// # Errors
/// If nobody answers in time, another program does, or the answer is no status.
pub fn exchange(service: &Service, request: &Request) -> Result<Arc<Status>, ExchangeError> {
    let deadline = Instant::now() + EXCHANGE_LIMIT;
    let mut stream = open(&service.socket)?;
    let peer = socket_peercred(&stream)?.uid.as_raw();
    let own = rustix::process::geteuid().as_raw();
    if !peer::is_service(peer, own, service.user) {
        return Err(ExchangeError::Stranger(peer));
    }
    // With room for all of it, no part of a token is left behind when the buffer grows.
    let mut line = Zeroizing::new(Vec::with_capacity(MAX_TOKEN_BYTES + 1024));
    request.write(&mut line).map_err(io::Error::from)?;
    stream.write_all(&line)?;
    let answer = read_line(&mut stream, deadline, MAX_ANSWER_BYTES)?;
    exchange::parse_answer(&answer)
        .map(Arc::new)
        .map_err(ExchangeError::Answer)
}

fn open(path: &Path) -> Result<UnixStream, ExchangeError> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // The limit holds for connecting too: it would wait for ever at a queue that is full.
    set_socket_timeout(&socket, Timeout::Send, Some(EXCHANGE_LIMIT))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// Reads up to the end of the line. A peer that sends byte by byte has no more time than one that is silent.
fn read_line(stream: &mut UnixStream, deadline: Instant, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut part = vec![0; READ_BYTES];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(silent());
        }
        stream.set_read_timeout(Some(left))?;
        let count = match stream.read(&mut part) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(silent()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = part[..count].iter().position(|&byte| byte == b'\n');
        line.extend_from_slice(&part[..end.unwrap_or(count)]);
        if line.len() as u64 > most_bytes {
            return Err(io::Error::other(format!(
                "the answer is longer than {most_bytes} bytes"
            )));
        }
        if end.is_some() {
            return Ok(line);
        }
    }
}

fn silent() -> io::Error {
    let limit_s = EXCHANGE_LIMIT.as_secs();
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!("no answer within {limit_s} s"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// A socket that answers one connection, and the request that it got.
    fn answered(answer: Vec<u8>) -> (Result<Arc<Status>, ExchangeError>, Vec<u8>) {
        let directory = TestDirectory::new();
        let service = Service {
            socket: directory.0.join("s"),
            user: None,
        };
        let listener = UnixListener::bind(&service.socket).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).unwrap();
            request.truncate(count);
            // The client may have closed its end.
            let _closed = stream.write_all(&answer);
            request
        });
        let result = exchange(&service, &Request::Status);
        (result, server.join().unwrap())
    }

    struct TestDirectory(PathBuf);

    impl TestDirectory {
        fn new() -> Self {
            static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let path = std::env::temp_dir()
                .join(format!("culvert-desktop-{}-{number}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for TestDirectory {
        fn drop(&mut self) {
            let _gone = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_status_comes_back() {
        let (status, request) =
            answered(b"{\"status\":{\"schema_version\":1,\"name\":\"laptop\"}}\n".to_vec());
        assert_eq!(status.unwrap().name, "laptop");
        assert_eq!(request, b"{\"schema_version\":1,\"request\":\"status\"}\n");
    }

    #[test]
    fn other_answers_are_told_apart() {
        let contact = |answer: &[u8]| answered(answer.to_vec()).0.unwrap_err().into_contact();
        assert_eq!(
            contact(b"{\"status\":{\"schema_version\":9}}\n"),
            Contact::OtherVersion(9)
        );
        assert_eq!(
            contact(b"{\"error\":\"no\"}\n"),
            Contact::Broken("no".to_owned())
        );
        assert_eq!(contact(b"{\"status\":"), Contact::Away);
        assert!(matches!(contact(b"SSH-2.0\n"), Contact::Broken(_)));
    }

    #[test]
    fn an_endless_answer_is_cut() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let writer = thread::spawn(move || while far.write_all(&[b'x'; 4096]).is_ok() {});
        let deadline = Instant::now() + Duration::from_secs(60);
        let error = read_line(&mut near, deadline, 100_000).unwrap_err();
        assert_eq!(error.to_string(), "the answer is longer than 100000 bytes");
        drop(near);
        writer.join().unwrap();
    }

    #[test]
    fn a_peer_that_is_silent_or_slow_ends_in_time() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let deadline = Instant::now() + Duration::from_millis(20);
        assert_eq!(
            read_line(&mut near, deadline, 9).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        far.write_all(b"x").unwrap();
        assert_eq!(
            read_line(&mut near, deadline, 9).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
    }

    #[test]
    fn nobody_at_the_socket_is_away() {
        let directory = TestDirectory::new();
        let service = Service {
            socket: directory.0.join("none"),
            user: None,
        };
        assert_eq!(
            exchange(&service, &Request::Status)
                .unwrap_err()
                .into_contact(),
            Contact::Away
        );
        drop(UnixListener::bind(&service.socket).unwrap());
        assert_eq!(
            exchange(&service, &Request::Status)
                .unwrap_err()
                .into_contact(),
            Contact::Away
        );
        let denied = ExchangeError::Io(io::ErrorKind::PermissionDenied.into());
        assert_eq!(denied.into_contact(), Contact::Forbidden);
    }
}
