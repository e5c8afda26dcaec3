//! An open WebSocket as two bounded queues of texts, kept alive by pings.

use futures_util::{SinkExt, StreamExt};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{self, Bytes, Message};

/// The interval between pings of this side.
pub const PING_INTERVAL: Duration = Duration::from_secs(5);

/// A peer that has said nothing for this long is given up: two pings without an answer, and time
/// for the last one to come back.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(12);

/// Messages that wait in each direction. Outwards it is more than a client asks for at once; inwards
/// the portal's TCP stream waits when the role is slow, so nothing is lost in either.
pub const MAX_WAITING_MESSAGES: usize = 256;

/// The time limit for sending a message: a peer that reads nothing for this long counts as silent.
const SEND_LIMIT: Duration = SILENCE_LIMIT;

type Socket = WebSocketStream<TlsStream<TcpStream>>;

/// The reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Closed {
    /// The portal closed it.
    #[error("the portal closed the connection{}", reason.as_deref().map(|text| format!(": {text}")).unwrap_or_default())]
    ByPortal {
        /// The reason that the portal gave.
        reason: Option<String>,
    },
    /// The portal was silent for too long.
    #[error("the portal has been silent for {} s", SILENCE_LIMIT.as_secs())]
    Silent,
    /// The portal sent something that is no text message, or too long a one.
    #[error("the portal broke the protocol: {0}")]
    Protocol(String),
    /// The network or the TLS layer failed.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// This side ended it.
    #[error("the connection was closed here")]
    Here,
}

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub struct Connection {
    outgoing: Sender,
    incoming: mpsc::Receiver<Result<String, Closed>>,
    task: JoinHandle<()>,
    /// The address of this machine that it was made from.
    local: Option<IpAddr>,
    /// The address that it was made to.
    remote: Option<IpAddr>,
}

/// The way out of a [`Connection`], for several holders.
#[derive(Clone, Debug)]
pub struct Sender(mpsc::Sender<String>);

impl Sender {
    /// Puts a message into the queue; waits while it is full.
    ///
    /// # Errors
    /// [`Closed::Here`]; [`Connection::receive`] tells the true reason.
    pub async fn send(&self, text: String) -> Result<(), Closed> {
        self.0.send(text).await.map_err(|_| Closed::Here)
    }

    /// Puts a message into the queue without waiting; `false` where it is full. A connection that has
    /// ended loses the message, and [`Connection::receive`] tells the reason.
    #[must_use]
    pub fn try_send(&self, text: String) -> bool {
        !matches!(self.0.try_send(text), Err(TrySendError::Full(_)))
    }
}

impl Connection {
    pub(crate) fn start(socket: Socket) -> Self {
        let (stream, _) = socket.get_ref().get_ref();
        let local = stream.local_addr().ok().map(|local| local.ip());
        let remote = stream.peer_addr().ok().map(|remote| remote.ip());
        let (outgoing, to_send) = mpsc::channel(MAX_WAITING_MESSAGES);
        let (received, incoming) = mpsc::channel(MAX_WAITING_MESSAGES);
        let task = tokio::spawn(run_messages(socket, to_send, received));
        Self {
            outgoing: Sender(outgoing),
            incoming,
            task,
            local,
            remote,
        }
    }

    /// True if this machine still has the address that the connection was made from. Without it
    /// nothing arrives any more, but the loss is noticed only after [`SILENCE_LIMIT`].
    #[must_use]
    pub fn has_its_address(&self) -> bool {
        self.local.is_none_or(|local| {
            // Binding sends nothing. Any other error says nothing about the address.
            let bound = std::net::UdpSocket::bind((local, 0));
            !bound.is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
        })
    }

    /// The address that it was made to: the portal's, or that of a proxy in front of it.
    #[must_use]
    pub const fn remote(&self) -> Option<IpAddr> {
        self.remote
    }

    /// The way out.
    #[must_use]
    pub fn sender(&self) -> Sender {
        self.outgoing.clone()
    }

    /// The next text of the portal. May be dropped and called again without loss.
    ///
    /// # Errors
    /// The reason why the connection has ended.
    pub async fn receive(&mut self) -> Result<String, Closed> {
        self.incoming.recv().await.unwrap_or(Err(Closed::Here))
    }

    /// Sends what is in the queue, then closes. Takes at most a second.
    pub async fn close(mut self) {
        // The task ends when the last sender is gone and the queue is empty.
        let (closed, _) = mpsc::channel(1);
        self.outgoing = Sender(closed);
        self.incoming.close();
        let _ended = timeout(Duration::from_secs(1), &mut self.task).await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Carries texts until either side ends.
async fn run_messages(
    mut socket: Socket,
    mut to_send: mpsc::Receiver<String>,
    received: mpsc::Sender<Result<String, Closed>>,
) {
    let reason = exchange(&mut socket, &mut to_send, &received).await;
    let _closed = timeout(Duration::from_secs(1), socket.close(None)).await;
    // Nobody listens where this side ended it.
    let _unheard = received.send(Err(reason)).await;
}

async fn exchange(
    socket: &mut Socket,
    to_send: &mut mpsc::Receiver<String>,
    received: &mpsc::Sender<Result<String, Closed>>,
) -> Closed {
    let mut pings = interval(PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut silent_at = Instant::now() + SILENCE_LIMIT;
    // A text that the role has no room for yet. The role's own messages still go out meanwhile,
    // because it may wait for that before it takes the next text.
    let mut held = None;
    loop {
        let message = tokio::select! {
            room = received.reserve(), if held.is_some() => {
                match room {
                    Ok(room) => {
                        if let Some(text) = held.take() {
                            room.send(Ok(text));
                        }
                    }
                    Err(_) if to_send.is_closed() => return Closed::Here,
                    Err(_) => held = None,
                }
                // A role that is slow makes the portal wait; it must not make it look silent.
                silent_at = Instant::now() + SILENCE_LIMIT;
                continue;
            }
            incoming = socket.next(), if held.is_none() => {
                silent_at = Instant::now() + SILENCE_LIMIT;
                match take(incoming) {
                    Ok(text) => held = text,
                    Err(closed) => return closed,
                }
                continue;
            }
            text = to_send.recv() => match text {
                Some(text) => Message::text(text),
                None => return Closed::Here,
            },
            _ = pings.tick() => Message::Ping(Bytes::new()),
            () = sleep_until(silent_at), if held.is_none() => return Closed::Silent,
        };
        match timeout(SEND_LIMIT, socket.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return broken(&error),
            Err(_elapsed) => return Closed::Silent,
        }
    }
}

/// The text in what arrived, if there is one.
fn take(incoming: Option<Result<Message, tungstenite::Error>>) -> Result<Option<String>, Closed> {
    match incoming {
        Some(Ok(Message::Text(text))) => Ok(Some(text.as_str().to_owned())),
        // The library answers pings by itself.
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
        Some(Ok(Message::Binary(_))) => Err(Closed::Protocol(
            "a binary message where texts are expected".to_owned(),
        )),
        Some(Ok(Message::Close(frame))) => Err(Closed::ByPortal {
            reason: frame.as_ref().and_then(said),
        }),
        Some(Err(error)) => Err(broken(&error)),
        None => Err(Closed::ByPortal { reason: None }),
    }
}

/// The peer's words, without what could disturb a log.
fn said(frame: &CloseFrame) -> Option<String> {
    let text: String = frame
        .reason
        .chars()
        .filter(|letter| !letter.is_control())
        .collect();
    (!text.is_empty()).then_some(text)
}

fn broken(error: &tungstenite::Error) -> Closed {
    match error {
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
            Closed::ByPortal { reason: None }
        }
        tungstenite::Error::Capacity(_)
        | tungstenite::Error::Protocol(_)
        | tungstenite::Error::Utf8(_) => Closed::Protocol(error.to_string()),
        _ => Closed::Broken(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_refuses_a_message_and_an_ended_connection_loses_it() {
        let (outgoing, queue) = mpsc::channel(1);
        let sender = Sender(outgoing);
        assert!(sender.try_send("first".to_owned()));
        assert!(!sender.try_send("second".to_owned()));
        // The reason of its end is told by `receive`; a full queue would be another.
        drop(queue);
        assert!(sender.try_send("third".to_owned()));
    }
}
