//! DNS over TLS (RFC 7858), to resolvers that were named with the name of their certificate.
//!
//! One connection carries the queries of many programs, which are answered in any order (RFC 7766, section 6.2.1.1).
//! It is closed after a while without any, and given up when the server no longer answers on it. A query that
//! was lost with a connection is asked once more on the next one. There is no way in the clear (RFC 8310, section 5).

mod connection;
mod question;

use crate::Upstream;
use crate::shell::clock::Now;
use crate::status::TlsUpstreamStatus;
use connection::Connection;
use culvert_control::Repeats;
use culvert_dns::{FORWARDS_MAX, UPSTREAM_WAIT};
use culvert_link::{ConnectError, trusting_authorities};
use question::Question;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The most times that one query is sent.
const TRIES: u8 = 2;

const NO_AUTHORITIES: &str =
    "this system has no certificate authorities: install the package ca-certificates";

/// All servers that are asked over TLS, until this is dropped.
#[derive(Debug)]
pub(crate) struct TlsServers {
    servers: Vec<TlsServer>,
    _tasks: JoinSet<()>,
}

impl TlsServers {
    /// Must be called in a runtime. Nothing is sent before the first query.
    pub(crate) fn start(upstreams: &[Upstream]) -> Self {
        // Anew for each connection: authorities may be added and withdrawn while the client runs.
        Self::start_with(upstreams, || {
            trusting_authorities().map_err(|error| match error {
                // A token that names a certificate, as the portal's may, is no way out here.
                ConnectError::NoAuthorities => io::Error::other(NO_AUTHORITIES),
                error => io::Error::other(error),
            })
        })
    }

    fn start_with(
        upstreams: &[Upstream],
        tls: impl Fn() -> io::Result<ClientConfig> + Clone + Send + Sync + 'static,
    ) -> Self {
        let mut tasks = JoinSet::new();
        let mut servers = Vec::new();
        for upstream in upstreams {
            let Some(name) = &upstream.tls_name else {
                continue;
            };
            let (asked, questions) = mpsc::channel(FORWARDS_MAX);
            let trouble = Arc::default();
            let task = Task {
                at: upstream.address,
                name: name.clone(),
                questions,
                trouble: Arc::clone(&trouble),
                repeats: Repeats::default(),
            };
            servers.push(TlsServer {
                at: upstream.address,
                name: name.clone(),
                asked,
                trouble,
            });
            let _: AbortHandle = tasks.spawn(task.run(tls.clone()));
        }
        Self {
            servers,
            _tasks: tasks,
        }
    }

    /// The server at this address, if it is one of them.
    pub(crate) fn get(&self, at: SocketAddr) -> Option<TlsServer> {
        self.servers.iter().find(|server| server.at == at).cloned()
    }

    pub(crate) fn status(&self) -> Vec<TlsUpstreamStatus> {
        let status = |server: &TlsServer| TlsUpstreamStatus {
            address: server.at,
            name: server.name.to_str().into_owned(),
            trouble: lock(&server.trouble).clone(),
        };
        self.servers.iter().map(status).collect()
    }
}

/// The way to one server's connection.
#[derive(Clone, Debug)]
pub(crate) struct TlsServer {
    at: SocketAddr,
    name: ServerName<'static>,
    asked: mpsc::Sender<Question>,
    trouble: Trouble,
}

impl TlsServer {
    /// Asks, without a time limit.
    ///
    /// # Errors
    /// The server can't be asked, or has closed the connection twice without an answer.
    pub(crate) async fn ask(&self, query: Vec<u8>) -> io::Result<Vec<u8>> {
        let (answer, answered) = oneshot::channel();
        let question = Question {
            query,
            answer,
            tries: 0,
        };
        let sent = self.asked.try_send(question);
        sent.map_err(|_| io::Error::other("too many queries wait for the connection"))?;
        answered
            .await
            .map_err(|_| io::ErrorKind::ConnectionReset.into())
    }
}

/// The failure of the last attempt to connect, for people.
type Trouble = Arc<Mutex<Option<String>>>;

fn lock(trouble: &Trouble) -> std::sync::MutexGuard<'_, Option<String>> {
    trouble.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task that keeps the connection to one server.
struct Task {
    at: SocketAddr,
    name: ServerName<'static>,
    questions: mpsc::Receiver<Question>,
    trouble: Trouble,
    repeats: Repeats,
}

impl Task {
    async fn run(mut self, tls: impl Fn() -> io::Result<ClientConfig>) {
        let mut lost = Vec::new();
        loop {
            if lost.is_empty() {
                match self.questions.recv().await {
                    Some(question) => lost.push(question),
                    None => return,
                }
            }
            let connected = timeout(UPSTREAM_WAIT, self.connect(&tls)).await;
            match connected.unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into())) {
                Ok(connection) => {
                    self.note_connected();
                    lost = connection.exchange(lost, &mut self.questions).await;
                    lost.retain(|question| question.tries < TRIES && !question.answer.is_closed());
                }
                Err(error) => {
                    self.note_failure(&error);
                    lost.clear();
                    while self.questions.try_recv().is_ok() {}
                }
            }
        }
    }

    async fn connect(
        &self,
        tls: impl Fn() -> io::Result<ClientConfig>,
    ) -> io::Result<Connection<tokio_rustls::client::TlsStream<TcpStream>>> {
        let connector = TlsConnector::from(Arc::new(tls()?));
        let stream = TcpStream::connect(self.at).await?;
        // Queries are short, and somebody waits for each.
        stream.set_nodelay(true)?;
        let stream = connector.connect(self.name.clone(), stream).await?;
        Ok(Connection::new(stream))
    }

    fn note_connected(&self) {
        if lock(&self.trouble).take().is_some() {
            tracing::info!(upstream = %self.at, "a DNS upstream can be asked over TLS again");
        }
    }

    fn note_failure(&mut self, error: &io::Error) {
        let (at, name) = (self.at, self.name.to_str());
        let text = format!(
            "the DNS upstream {at} can't be asked over TLS as {name}: {error}. Nothing is asked in the clear instead"
        );
        if let Some(repeated) = self.repeats.count(&text, Now::read().boot) {
            tracing::warn!(repeated, "{text}");
        }
        *lock(&self.trouble) = Some(text);
    }
}

#[cfg(test)]
mod tests;
