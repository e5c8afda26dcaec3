//! The socket at which a running client or gateway reports its state, and a client takes commands: a
//! line of JSON, answered by a line of JSON (docs/socket.md).

mod answer;
mod ask;
mod request;
mod socket_error;
mod status_error;

pub(crate) use answer::MAX_ANSWER_LEN;
pub use ask::{ask, ask_log};
pub(crate) use request::Envelope;
pub use request::{OnlyStatus, Request, parse_request};
pub use socket_error::{AnsweredCode, AnsweredError, ErrorCode, SocketError};
pub use status_error::StatusError;

use crate::recent_log::RecentLog;
use crate::request_places::{ConnectionPlace, RequestPlaces};
use crate::watching::{Update, Watch, WatchDoor, serve_watcher};
use crate::{HostError, PeerCredentials, PeerProcess, commanders};
use answer::Answer;
use request::read_line;
use serde::Serialize;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The time limit for a whole connection.
const CONNECTION_LIMIT: Duration = Duration::from_secs(5);

/// Owner and group may ask; the kernel keeps others from connecting. The status is no secret to
/// people who administer the machine, but names of resources are not for everybody.
const SOCKET_MODE: u32 = 0o660;

/// The parts of a state that only those may see who may command.
#[derive(Debug)]
pub struct Restricted<S> {
    /// True if a state has such parts.
    pub is_confidential: fn(&S) -> bool,
    /// Removes them.
    pub conceal: fn(&mut S),
}

/// The form of a socket.
#[derive(Debug)]
pub struct SocketForm<S> {
    /// The version of the state's form.
    pub schema_version: u32,
    /// The parts of the state that are not for all.
    pub restricted: Option<Restricted<S>>,
    /// The log that is told of.
    pub log: Option<Arc<RecentLog>>,
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
    pub answer: oneshot::Sender<Result<S, SocketError>>,
    /// The watcher that asks, if one does: it gets an update instead of the state.
    pub watcher: Option<WatchRequest>,
}

/// A watcher's request.
#[derive(Debug)]
pub struct WatchRequest {
    /// The message that it knows.
    pub watch: Watch,
    /// True if it may see all parts of the state.
    pub may_command: bool,
    /// The receiver of the changes since; it may be gone.
    pub update: oneshot::Sender<Update>,
}

/// The socket, which is removed when this is dropped.
#[derive(Debug)]
pub struct StatusSocket {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl StatusSocket {
    /// Begins to answer at `path`: each request goes into `requests`, for a state in this form.
    /// Watchers come by `door`. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`HostError::SocketInUse`] where another process answers there, and the system's.
    pub(crate) fn bind<S, R>(
        path: &Path,
        form: SocketForm<S>,
        requests: mpsc::Sender<StatusRequest<S, R>>,
        door: WatchDoor,
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
        let service = Service {
            form,
            requests,
            door,
        };
        Ok(Self {
            path: path.to_owned(),
            task: tokio::spawn(accept(listener, Arc::new(service))),
        })
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        self.task.abort();
        let _gone = std::fs::remove_file(&self.path);
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

/// The program behind the socket.
struct Service<S, R> {
    form: SocketForm<S>,
    requests: mpsc::Sender<StatusRequest<S, R>>,
    door: WatchDoor,
}

/// A process that asks.
struct Peer {
    credentials: PeerCredentials,
    process: Option<PeerProcess>,
}

/// A connection that stays open.
struct Watcher {
    stream: UnixStream,
    peer: PeerCredentials,
    watch: Watch,
}

async fn accept<S: Serialize + Send + 'static, R: Request>(
    listener: UnixListener,
    service: Arc<Service<S, R>>,
) {
    /// The pause of accepting when no file descriptors are left.
    const PAUSE: Duration = Duration::from_millis(100);
    let own = rustix::process::geteuid().as_raw();
    let places = Arc::new(RequestPlaces::new(own));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(peer) = PeerCredentials::of(&stream) else {
                    continue;
                };
                match places.enter(peer.uid) {
                    Ok(place) => {
                        tokio::spawn(converse(Arc::clone(&service), stream, peer, place));
                    }
                    Err(refusal) => refuse(&stream, &refusal),
                }
            }
            Err(error) => {
                tracing::debug!(%error, "a request was not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Answers a connection for which there is no place, as far as it takes the answer at once.
fn refuse(stream: &UnixStream, refusal: &SocketError) {
    if let Ok(mut line) = serde_json::to_vec(refusal) {
        line.push(b'\n');
        let _unheard = stream.try_write(&line);
    }
}

/// Serves one connection.
async fn converse<S: Serialize + Send + 'static, R: Request>(
    service: Arc<Service<S, R>>,
    stream: UnixStream,
    peer: PeerCredentials,
    place: ConnectionPlace,
) {
    let served = timeout(CONNECTION_LIMIT, service.serve(stream, peer, &place)).await;
    // Watchers have places of their own.
    drop(place);
    let served = match served {
        Ok(Ok(Some(watcher))) => service.serve_watcher(watcher).await,
        Ok(served) => served.map(drop),
        Err(_) => Ok(()),
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a request was not answered");
    }
}

/// True if this process may command the program.
async fn may_command(peer: PeerCredentials) -> Result<(), SocketError> {
    // Asking for a user's groups may take as long as the directory that knows them.
    let judged = tokio::task::spawn_blocking(move || commanders::admit(peer)).await;
    judged.unwrap_or_else(|_| Err(ErrorCode::Failed.because("who asks can't be found out")))
}

impl<S: Serialize + Send + 'static, R: Request> Service<S, R> {
    /// Answers a request, unless it is to watch.
    async fn serve(
        &self,
        mut stream: UnixStream,
        credentials: PeerCredentials,
        place: &ConnectionPlace,
    ) -> io::Result<Option<Watcher>> {
        let process = PeerProcess::of(&stream, credentials.pid).ok();
        let Some(line) = read_line(&mut stream).await? else {
            return Ok(None);
        };
        let Some(_place) = place.answer().await else {
            return Ok(None);
        };
        let request = line.and_then(|line| parse_request::<R>(&line, self.form.schema_version));
        let answer = match request {
            Ok(request) => {
                if let Some(watch) = request.watch() {
                    let peer = credentials;
                    return Ok(Some(Watcher {
                        stream,
                        peer,
                        watch,
                    }));
                }
                let peer = Peer {
                    credentials,
                    process,
                };
                self.answer(request, peer).await
            }
            Err(error) => Answer::Error(error),
        };
        let mut answer = serde_json::to_vec(&answer)?;
        answer.push(b'\n');
        stream.write_all(&answer).await?;
        Ok(None)
    }

    async fn serve_watcher(&self, watcher: Watcher) -> io::Result<()> {
        let Watcher {
            stream,
            peer,
            watch,
        } = watcher;
        let may_command = self.form.restricted.is_some() && may_command(peer).await.is_ok();
        let pull = |watch| self.pull(watch, may_command);
        serve_watcher(stream, peer.uid, watch, self.door.clone(), pull).await
    }

    /// The changes since a message; nothing if the program ends.
    async fn pull(&self, watch: Watch, may_command: bool) -> Option<Update> {
        let (update, updated) = oneshot::channel();
        let request = StatusRequest {
            request: R::STATUS,
            peer: None,
            process: None,
            answer: oneshot::channel().0,
            watcher: Some(WatchRequest {
                watch,
                may_command,
                update,
            }),
        };
        self.requests.send(request).await.ok()?;
        updated.await.ok()
    }

    async fn answer(&self, request: R, peer: Peer) -> Answer<S> {
        let credentials = peer.credentials;
        if request.is_change()
            && let Err(refusal) = may_command(credentials).await
        {
            tracing::warn!(
                uid = credentials.uid,
                pid = credentials.pid,
                "a command is refused: {refusal}"
            );
            return Answer::Error(refusal);
        }
        if request.is_log() {
            return match &self.form.log {
                Some(log) => Answer::Log(log.lines()),
                None => Answer::Error(ErrorCode::NoLog.because("it keeps no lines of its log")),
            };
        }
        let (answer, answered) = oneshot::channel();
        let request = StatusRequest {
            request,
            peer: Some(credentials),
            process: peer.process,
            answer,
            watcher: None,
        };
        let asked = self.requests.send(request).await.is_ok();
        match answered.await {
            Ok(Ok(mut status)) if asked => {
                if let Some(restricted) = &self.form.restricted
                    && (restricted.is_confidential)(&status)
                    && may_command(credentials).await.is_err()
                {
                    (restricted.conceal)(&mut status);
                }
                Answer::Status(Box::new(status))
            }
            Ok(Err(refusal)) => Answer::Error(refusal),
            _ => Answer::Error(ErrorCode::Ending.because("it is ending")),
        }
    }
}

#[cfg(test)]
mod tests;
