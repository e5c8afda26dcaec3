//! The socket at which a running client or gateway tells its state, and a client is asked to ask for
//! access: a line of JSON, answered by a line of JSON (docs/status-socket.md).

use crate::HostError;
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

/// Connections at once: some people and some collectors.
const MAX_CONNECTIONS: usize = 16;

/// How long a connection may take in all.
const CONNECTION_LIMIT: Duration = Duration::from_secs(5);

/// The longest request, in bytes: it has two fields.
const MAX_REQUEST_LEN: u64 = 1024;

/// The longest answer, in bytes: a client's 20,000 resources and 32,000 names of half a kilobyte each.
const MAX_ANSWER_LEN: u64 = 32 * 1024 * 1024;

/// Owner and group may ask. What is told is no secret to who administers the machine, but names of
/// resources are not for everybody.
const SOCKET_MODE: u32 = 0o660;

/// What is asked.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Request<A> {
    schema_version: u32,
    request: RequestKind<A>,
}

/// Each is answered by the state.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RequestKind<A> {
    Status,
    /// Ask for access first.
    Ask(A),
}

/// What access may be asked for where there is nothing to ask for: it can't be written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NoAsk {}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer<S> {
    Status(Box<S>),
    Error(String),
}

/// A request for the state of whoever runs.
#[derive(Debug)]
pub struct StatusRequest<S, A = NoAsk> {
    /// What access to ask for before it is answered.
    pub ask: Option<A>,
    /// Where the answer goes; whoever asked may be gone.
    pub answer: oneshot::Sender<S>,
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
    pub fn bind<S, A>(
        path: &Path,
        schema_version: u32,
        requests: mpsc::Sender<StatusRequest<S, A>>,
    ) -> Result<Self, HostError>
    where
        S: Serialize + Send + 'static,
        A: DeserializeOwned + Send + 'static,
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

/// Asks whoever answers at `path`, which is to be a running `program` (`client` or `gateway`).
///
/// # Errors
/// What is wrong, for people.
pub async fn ask_status<S: DeserializeOwned>(
    path: &Path,
    program: &'static str,
    schema_version: u32,
) -> Result<S, StatusError> {
    exchange(path, program, schema_version, RequestKind::<NoAsk>::Status).await
}

/// Asks for access to `what`, and then as [`ask_status`].
///
/// # Errors
/// What is wrong, for people.
pub async fn ask_access<S: DeserializeOwned, A: Serialize>(
    path: &Path,
    program: &'static str,
    schema_version: u32,
    what: A,
) -> Result<S, StatusError> {
    exchange(path, program, schema_version, RequestKind::Ask(what)).await
}

async fn exchange<S: DeserializeOwned, A: Serialize>(
    path: &Path,
    program: &'static str,
    schema_version: u32,
    request: RequestKind<A>,
) -> Result<S, StatusError> {
    let exchange = async {
        let stream = UnixStream::connect(path).await?;
        let (reader, mut writer) = stream.into_split();
        let request = Request {
            schema_version,
            request,
        };
        let mut line = serde_json::to_vec(&request)?;
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

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// Nobody answers.
    #[error("no {program} answers at {}: start one with `culvert {program} run`, or name its socket by --socket", path.display())]
    NotRunning {
        /// Where.
        path: PathBuf,
        /// What was to answer.
        program: &'static str,
    },
    /// This user may not ask.
    #[error("{} may not be used by this user: run as root", path.display())]
    Forbidden {
        /// Where.
        path: PathBuf,
    },
    /// It does not know the request.
    #[error("the {program} answers: {text}")]
    Refused {
        /// What was to answer.
        program: &'static str,
        /// What it said.
        text: String,
    },
    /// Anything else.
    #[error("no status from {}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What was wrong.
        source: io::Error,
    },
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
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE))?;
    Ok(listener)
}

async fn accept<S, A>(
    listener: UnixListener,
    schema_version: u32,
    requests: mpsc::Sender<StatusRequest<S, A>>,
) where
    S: Serialize + Send + 'static,
    A: DeserializeOwned + Send + 'static,
{
    /// How long accepting pauses where there are no file descriptors left.
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
                        tracing::debug!(%error, "a status request was not answered");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a status request was not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn serve<S: Serialize, A: DeserializeOwned>(
    stream: UnixStream,
    schema_version: u32,
    requests: &mpsc::Sender<StatusRequest<S, A>>,
) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = Vec::new();
    let mut reader = BufReader::new(reader.take(MAX_REQUEST_LEN));
    reader.read_until(b'\n', &mut line).await?;
    let answer = match serde_json::from_slice::<Request<A>>(&line) {
        Ok(request) if request.schema_version == schema_version => {
            let ask = match request.request {
                RequestKind::Status => None,
                RequestKind::Ask(what) => Some(what),
            };
            status(requests, ask).await
        }
        Ok(request) => Answer::Error(format!(
            "schema_version {} is not spoken here, but {schema_version}",
            request.schema_version
        )),
        Err(_) => Answer::Error(format!(
            "write a line such as {{\"schema_version\":{schema_version},\"request\":\"status\"}}"
        )),
    };
    let mut answer = serde_json::to_vec(&answer)?;
    answer.push(b'\n');
    writer.write_all(&answer).await
}

async fn status<S, A>(requests: &mpsc::Sender<StatusRequest<S, A>>, ask: Option<A>) -> Answer<S> {
    let (answer, answered) = oneshot::channel();
    let asked = requests.send(StatusRequest { ask, answer }).await.is_ok();
    match answered.await {
        Ok(status) if asked => Answer::Status(Box::new(status)),
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

    #[tokio::test]
    async fn what_access_is_asked_for_comes_with_the_request() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("client.sock");
        let (requests, mut received) = mpsc::channel::<StatusRequest<u8, String>>(1);
        let _socket = StatusSocket::bind(&path, 1, requests).unwrap();
        for ask in [None, Some("web")] {
            let answering = async {
                let request = received.recv().await.unwrap();
                assert_eq!(request.ask.as_deref(), ask);
                request.answer.send(7).unwrap();
            };
            let asking = async {
                match ask {
                    None => ask_status::<u8>(&path, "client", 1).await,
                    Some(what) => ask_access(&path, "client", 1, what).await,
                }
            };
            let (asked, ()) = tokio::join!(asking, answering);
            assert_eq!(asked.unwrap(), 7);
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
        assert_eq!(mode & 0o777, SOCKET_MODE);
        let second = StatusSocket::bind(&path, 1, requests).unwrap_err();
        assert!(matches!(second, HostError::SocketInUse { .. }));
        drop(first);
        assert!(!path.exists());
        let asked = ask_status::<u8>(&path, "client", 1).await;
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
            request.answer.send(vec![7, 8]).unwrap();
        };
        let (asked, ()) = tokio::join!(ask_status::<Vec<u8>>(&path, "gateway", 2), answering);
        assert_eq!(asked.unwrap(), [7, 8]);
        let asked = ask_status::<Vec<u8>>(&path, "gateway", 1).await;
        let error = asked.unwrap_err().to_string();
        assert!(
            error.starts_with("the gateway answers: schema_version 1"),
            "{error}"
        );
    }
}
