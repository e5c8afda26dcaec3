//! The socket at which a running client or gateway reports its state, and a client takes commands: a
//! line of JSON, answered by a line of JSON (docs/socket.md).

use crate::{HostError, MAX_TOKEN_FILE_BYTES, PeerCredentials, PeerProcess, commanders};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zeroize::Zeroizing;

/// Connections at once: some people and some collectors.
const MAX_CONNECTIONS: usize = 16;

/// The time limit for a whole connection.
const CONNECTION_LIMIT: Duration = Duration::from_secs(5);

/// The longest request, in bytes: a token, and two fields around it.
const MAX_REQUEST_LEN: usize = MAX_TOKEN_FILE_BYTES + 1024;

/// The longest answer, in bytes: a client's 20,000 resources and 32,000 names of half a kilobyte each.
const MAX_ANSWER_LEN: u64 = 32 * 1024 * 1024;

/// Owner and group may ask; the kernel keeps others from connecting. The status is no secret to
/// people who administer the machine, but names of resources are not for everybody.
const SOCKET_MODE: u32 = 0o660;

/// A request to a running program. Each request is answered by the state.
pub trait Request: Serialize + DeserializeOwned + Send + 'static {
    /// The request for the state alone.
    const STATUS: Self;

    /// True if it changes the program's work. Such a request is refused to those who may only look:
    /// see [`PeerCredentials`] and [`COMMAND_GROUP`](crate::COMMAND_GROUP).
    fn is_change(&self) -> bool;
}

/// The only request to a program that takes no commands: its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnlyStatus {
    /// The state.
    Status,
}

impl Request for OnlyStatus {
    const STATUS: Self = Self::Status;

    fn is_change(&self) -> bool {
        false
    }
}

/// A request as it is written.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Envelope<R> {
    schema_version: u32,
    request: R,
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer<S> {
    Status(Box<S>),
    Error(String),
}

/// A request to the running program.
#[derive(Debug)]
pub struct StatusRequest<S, R = OnlyStatus> {
    /// The request.
    pub request: R,
    /// The process that asks; none if it is this process itself.
    pub peer: Option<PeerCredentials>,
    /// The process that asks, if it had not ended when its connection was accepted.
    pub process: Option<PeerProcess>,
    /// The receiver of the state, or of the reason why the request is refused; it may be gone.
    pub answer: oneshot::Sender<Result<S, String>>,
}

/// The socket, which is removed when this is dropped.
#[derive(Debug)]
pub struct StatusSocket {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl StatusSocket {
    /// Begins to answer at `path`: each request goes into `requests`, for a state in the form
    /// `schema_version`. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`HostError::SocketInUse`] where another process answers there, and the system's.
    pub fn bind<S, R>(
        path: &Path,
        schema_version: u32,
        requests: mpsc::Sender<StatusRequest<S, R>>,
    ) -> Result<Self, HostError>
    where
        S: Serialize + Send + 'static,
        R: Request,
    {
        let listener = listen(path).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => HostError::SocketInUse {
                path: path.to_owned(),
            },
            _ => HostError::file("answer at", path, error),
        })?;
        Ok(Self {
            path: path.to_owned(),
            task: tokio::spawn(accept(listener, schema_version, requests)),
        })
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        self.task.abort();
        let _gone = std::fs::remove_file(&self.path);
    }
}

/// Asks the program that answers at `path`, which is to be a running `program` (`client` or `gateway`).
///
/// # Errors
/// The problem, for people.
pub async fn ask<S: DeserializeOwned, R: Request>(
    path: &Path,
    program: &'static str,
    schema_version: u32,
    request: R,
) -> Result<S, StatusError> {
    let exchange = async {
        let stream = UnixStream::connect(path).await?;
        let (reader, mut writer) = stream.into_split();
        let request = Envelope {
            schema_version,
            request,
        };
        // It may hold a token: with room for all of it, no part is left behind in memory.
        let mut line = Zeroizing::new(Vec::with_capacity(MAX_REQUEST_LEN));
        serde_json::to_writer(&mut *line, &request)?;
        line.push(b'\n');
        writer.write_all(&line).await?;
        let mut answer = Vec::new();
        let mut reader = BufReader::new(reader.take(MAX_ANSWER_LEN));
        reader.read_until(b'\n', &mut answer).await?;
        Ok::<_, io::Error>(serde_json::from_slice(&answer)?)
    };
    let answer = timeout(CONNECTION_LIMIT, exchange).await;
    let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    match answer {
        Ok(Answer::Status(status)) => Ok(*status),
        Ok(Answer::Error(text)) => Err(StatusError::Refused { program, text }),
        Err(source) => Err(match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => StatusError::NotRunning {
                path: path.to_owned(),
                program,
            },
            io::ErrorKind::PermissionDenied => StatusError::Forbidden {
                path: path.to_owned(),
            },
            _ => StatusError::Io {
                path: path.to_owned(),
                source,
            },
        }),
    }
}

/// The reason why there is no status.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// Nobody answers.
    #[error("no {program} answers at {}: start one with `culvert {program} run`, or name its socket by --socket", path.display())]
    NotRunning {
        /// The socket's path.
        path: PathBuf,
        /// The program that was to answer.
        program: &'static str,
    },
    /// This user may not ask.
    #[error("{} may not be used by this user: root may, and members of its group (`usermod -aG culvert USER`)", path.display())]
    Forbidden {
        /// The socket's path.
        path: PathBuf,
    },
    /// It does not know the request, or will not do it.
    #[error("the {program} answers: {text}")]
    Refused {
        /// The program that was to answer.
        program: &'static str,
        /// The text of the answer.
        text: String,
    },
    /// Anything else.
    #[error("no status from {}: {source}", path.display())]
    Io {
        /// The socket's path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl StatusError {
    /// True if the program took too long to answer.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::TimedOut)
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(directory)?;
    }
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // A process that ended without clearing up leaves a socket that nobody answers at.
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    // Until here only the owner can connect: that takes the right to write, which the usual mask
    // gives to nobody else.
    commanders::give(path);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE))?;
    Ok(listener)
}

async fn accept<S: Serialize + Send + 'static, R: Request>(
    listener: UnixListener,
    schema_version: u32,
    requests: mpsc::Sender<StatusRequest<S, R>>,
) {
    /// The pause of accepting when no file descriptors are left.
    const PAUSE: Duration = Duration::from_millis(100);
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let requests = requests.clone();
                tokio::spawn(async move {
                    let served =
                        timeout(CONNECTION_LIMIT, serve(stream, schema_version, &requests)).await;
                    if let Ok(Err(error)) = served {
                        tracing::debug!(%error, "a request was not answered");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a request was not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn serve<S: Serialize, R: Request>(
    mut stream: UnixStream,
    schema_version: u32,
    requests: &mpsc::Sender<StatusRequest<S, R>>,
) -> io::Result<()> {
    let peer = PeerCredentials::of(&stream)?;
    let process = PeerProcess::of(&stream, peer.pid).ok();
    let line = read_line(&mut stream).await?;
    let answer = match serde_json::from_slice::<Envelope<R>>(&line) {
        Ok(envelope) if envelope.schema_version == schema_version => {
            answer(envelope.request, peer, process, requests).await
        }
        Ok(envelope) => Answer::Error(format!(
            "schema_version {} is not spoken here, but {schema_version}",
            envelope.schema_version
        )),
        Err(_) => Answer::Error(format!(
            "write a line such as {{\"schema_version\":{schema_version},\"request\":\"status\"}}"
        )),
    };
    let mut answer = serde_json::to_vec(&answer)?;
    answer.push(b'\n');
    stream.write_all(&answer).await
}

/// The request, which may hold a token: nothing of it stays in memory.
async fn read_line(stream: &mut UnixStream) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(vec![0; MAX_REQUEST_LEN]);
    let mut len = 0;
    while len < line.len() {
        match stream.read(&mut line[len..]).await? {
            0 => break,
            read => len += read,
        }
        if line[..len].contains(&b'\n') {
            break;
        }
    }
    line.truncate(len);
    Ok(line)
}

async fn answer<S, R: Request>(
    request: R,
    peer: PeerCredentials,
    process: Option<PeerProcess>,
    requests: &mpsc::Sender<StatusRequest<S, R>>,
) -> Answer<S> {
    if request.is_change() {
        // Asking for a user's groups may take as long as the directory that knows them.
        let judged = tokio::task::spawn_blocking(move || commanders::admit(peer)).await;
        let admitted = judged.unwrap_or_else(|_| Err("who asks can't be found out".to_owned()));
        if let Err(refusal) = admitted {
            tracing::warn!(
                uid = peer.uid,
                pid = peer.pid,
                "a command is refused: {refusal}"
            );
            return Answer::Error(refusal);
        }
    }
    let (answer, answered) = oneshot::channel();
    let request = StatusRequest {
        request,
        peer: Some(peer),
        process,
        answer,
    };
    let asked = requests.send(request).await.is_ok();
    match answered.await {
        Ok(Ok(status)) if asked => Answer::Status(Box::new(status)),
        Ok(Err(refusal)) => Answer::Error(refusal),
        _ => Answer::Error("it is ending".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_that_is_not_understood_says_how_to_ask() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/client.sock");
        let (requests, _received) = mpsc::channel::<StatusRequest<u8>>(1);
        let _socket = StatusSocket::bind(&path, 1, requests).unwrap();
        for (line, expected) in [
            ("hello\n", "write a line"),
            (
                "{\"schema_version\":9,\"request\":\"status\"}\n",
                "schema_version 9",
            ),
            (
                "{\"schema_version\":1,\"request\":{\"ask\":\"web\"}}\n",
                "write a line",
            ),
        ] {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            stream.write_all(line.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.contains(expected), "{answer}");
        }
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Command {
        Status,
        Say(String),
    }

    impl Request for Command {
        const STATUS: Self = Self::Status;

        fn is_change(&self) -> bool {
            matches!(self, Self::Say(_))
        }
    }

    #[tokio::test]
    async fn a_command_arrives_as_it_was_given_and_is_answered_or_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("client.sock");
        let (requests, mut received) = mpsc::channel::<StatusRequest<u8, Command>>(1);
        let _socket = StatusSocket::bind(&path, 1, requests).unwrap();
        let longest = "x".repeat(MAX_TOKEN_FILE_BYTES);
        for (command, expected) in [
            (Command::Status, Ok(7)),
            (Command::Say(longest), Ok(8)),
            (Command::Say("no".to_owned()), Err("not now".to_owned())),
        ] {
            let answering = async {
                let asked = received.recv().await.unwrap();
                assert_eq!(asked.request, command);
                assert_eq!(asked.peer.unwrap().pid, std::process::id());
                assert!(asked.process.unwrap().is_running());
                asked.answer.send(expected.clone()).unwrap();
            };
            let asking = ask::<u8, Command>(&path, "client", 1, command.clone());
            let (answered, ()) = tokio::join!(asking, answering);
            match expected {
                Ok(state) => assert_eq!(answered.unwrap(), state),
                Err(why) => {
                    let error = answered.unwrap_err().to_string();
                    assert_eq!(error, format!("the client answers: {why}"));
                }
            }
        }
    }

    #[tokio::test]
    async fn a_socket_that_nobody_answers_at_is_replaced_and_a_live_one_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("client.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let (requests, _received) = mpsc::channel::<StatusRequest<u8>>(1);
        let first = StatusSocket::bind(&path, 1, requests.clone()).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let second = StatusSocket::bind(&path, 1, requests).unwrap_err();
        assert!(matches!(second, HostError::SocketInUse { .. }));
        drop(first);
        assert!(!path.exists());
        let asked = ask::<u8, OnlyStatus>(&path, "client", 1, OnlyStatus::Status).await;
        let error = asked.unwrap_err();
        assert!(matches!(error, StatusError::NotRunning { .. }), "{error}");
        assert!(error.to_string().contains("culvert client run"));
    }

    #[tokio::test]
    async fn who_asks_is_answered_and_hears_of_another_version() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.sock");
        let (requests, mut received) = mpsc::channel::<StatusRequest<Vec<u8>>>(1);
        let _socket = StatusSocket::bind(&path, 2, requests).unwrap();
        let answering = async {
            let request = received.recv().await.unwrap();
            request.answer.send(Ok(vec![7, 8])).unwrap();
        };
        let (asked, ()) = tokio::join!(
            ask::<Vec<u8>, OnlyStatus>(&path, "gateway", 2, OnlyStatus::Status),
            answering
        );
        assert_eq!(asked.unwrap(), [7, 8]);
        let asked = ask::<Vec<u8>, OnlyStatus>(&path, "gateway", 1, OnlyStatus::Status).await;
        let error = asked.unwrap_err().to_string();
        assert!(
            error.starts_with("the gateway answers: schema_version 1"),
            "{error}"
        );
    }
}
