//! A connection to the service at its socket: a request, and an answer.

use crate::lines::Lines;
use culvert_desktop_core::exchange::{
    self, AnswerError, MAX_ANSWER_BYTES, MAX_TOKEN_BYTES, Reply, Request,
};
use culvert_desktop_core::peer::{self, MAX_PASSWD_BYTES, SERVICE_USER};
use culvert_desktop_core::phase::Contact;
use culvert_desktop_core::status::Status;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zeroize::Zeroizing;

/// The time limit of a whole exchange. The window shows the state before for this long at most when the service hangs.
const EXCHANGE_LIMIT: Duration = Duration::from_secs(2);

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
            Self::Answer(AnswerError::NotPermitted(_)) => Contact::Forbidden,
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

impl fmt::Display for ExchangeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(formatter, "{error}"),
            Self::Stranger(user) => write!(formatter, "a program of user {user} answers"),
            Self::Answer(AnswerError::Version(version)) => {
                write!(formatter, "the service speaks form {version}")
            }
            Self::Answer(
                AnswerError::Refused(text)
                | AnswerError::NotPermitted(text)
                | AnswerError::Unreadable(text),
            ) => formatter.write_str(text),
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

/// Asks the service for its state.
///
/// # Errors
/// If nobody answers in time, another program does, or the answer is no status.
pub fn exchange(service: &Service, request: &Request) -> Result<Status, ExchangeError> {
    let answer = answer(service, request)?;
    exchange::parse_answer(&answer).map_err(ExchangeError::Answer)
}

/// Sends a command to the service.
///
/// # Errors
/// If nobody answers in time, another program does, or the service refuses.
pub fn command(service: &Service, request: &Request) -> Result<Reply, ExchangeError> {
    let answer = answer(service, request)?;
    exchange::parse_reply(&answer).map_err(ExchangeError::Answer)
}

fn answer(service: &Service, request: &Request) -> Result<Vec<u8>, ExchangeError> {
    let stream = send(service, request)?;
    Ok(Lines::new(stream, MAX_ANSWER_BYTES).within(EXCHANGE_LIMIT)?)
}

/// Sends `request` to the service, if it is the service that answers.
pub(crate) fn send(service: &Service, request: &Request) -> Result<UnixStream, ExchangeError> {
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
    Ok(stream)
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// A socket that answers one connection, and the request that it got.
    fn answered(answer: Vec<u8>) -> (Result<Status, ExchangeError>, Vec<u8>) {
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

    pub(crate) struct TestDirectory(pub(crate) PathBuf);

    impl TestDirectory {
        pub(crate) fn new() -> Self {
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
        assert_eq!(
            contact(b"{\"error\":\"no\",\"code\":\"not_permitted\"}\n"),
            Contact::Forbidden
        );
        assert_eq!(contact(b"{\"status\":"), Contact::Away);
        assert!(matches!(contact(b"SSH-2.0\n"), Contact::Broken(_)));
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
