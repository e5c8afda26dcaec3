//! DNS questions of clients, at the gateway's address in the tunnel.
//!
//! Only packets of clients with a grant to names come here, and of plain WireGuard devices: the gate sees to that, and the
//! kernel's guard stops packets from elsewhere. The core decides if a client may ask for a name.

mod message;
mod places;
mod plain;
mod records;

use super::resolver::SystemResolver;
use culvert_base::BootTime;
use culvert_dns::Transport;
use culvert_gateway_core::MAX_QUESTIONS;
use culvert_ids::ClientId;
use hickory_resolver::proto::op::ResponseCode;
use message::{Asked, Wanted};
use places::{Place, Places};
pub(crate) use plain::LookedUp;
use plain::PlainAnswers;
use records::records;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The longest question: a name has 255 bytes, and with all options that resolvers send it is far below.
const MAX_QUESTION_LEN: usize = 4_096;

/// Questions that wait to be looked at, in all and from one address. Further questions are lost, as on a link that is full:
/// all are looked at within some milliseconds.
const MAX_WAITING: usize = 256;
const MAX_WAITING_PER_ADDRESS: usize = 16;

/// Connections at once, in all and from one address: a resolver has one at a time, each answer that is too long for a datagram
/// takes another.
const MAX_CONNECTIONS: usize = 128;
const MAX_CONNECTIONS_PER_ADDRESS: usize = 8;

/// The time limit for the next question of a connection, and for writing an answer.
const IDLE: Duration = Duration::from_secs(5);

/// The wait of a connection for the answer to its question: twice as long as a device's query waits for one.
const ANSWER: Duration = Duration::from_secs(10);

/// The pause before the sockets are opened again after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// A question of a client.
#[derive(Debug)]
pub(crate) struct Question {
    asked: Asked,
    /// As it came.
    bytes: Vec<u8>,
    /// With an address in the tunnel.
    pub(crate) from: SocketAddr,
    answer: Answer,
    /// Among those that wait.
    place: Place,
}

/// The destination of an answer.
#[derive(Debug)]
enum Answer {
    Datagram(Arc<UdpSocket>, SocketAddr),
    Connection(oneshot::Sender<Vec<u8>>),
}

/// The sockets, and the results of questions.
#[derive(Debug)]
pub(crate) struct SiteDns {
    at: Option<SocketAddr>,
    tasks: Vec<JoinHandle<()>>,
    /// The reason for having no sockets, and the time of the next attempt.
    failed: Option<(String, BootTime)>,
    asked: mpsc::Sender<Question>,
    pub(crate) questions: mpsc::Receiver<Question>,
    done: mpsc::Sender<ClientId>,
    /// The clients whose questions have been answered.
    pub(crate) answered: mpsc::Receiver<ClientId>,
    pub(crate) plain: PlainAnswers,
}

impl SiteDns {
    pub(crate) fn new() -> Self {
        let (asked, questions) = mpsc::channel(MAX_WAITING);
        let (done, answered) = mpsc::channel(MAX_QUESTIONS);
        Self {
            at: None,
            tasks: Vec::new(),
            failed: None,
            asked,
            questions,
            done,
            answered,
            plain: PlainAnswers::new(MAX_CONNECTIONS),
        }
    }

    /// Answers there from now on. If the sockets can't be opened, [`Self::try_again`] does it later.
    pub(crate) async fn answer_at(&mut self, at: SocketAddr, now: BootTime) {
        if self.at == Some(at) && self.failed.is_none() {
            return;
        }
        self.stop();
        self.at = Some(at);
        match self.open(at).await {
            Ok(()) => self.failed = None,
            Err(error) => {
                let why = format!(
                    "no question about names is answered, as those of plain WireGuard devices: {at}: {error}"
                );
                if self.failed.is_none() {
                    tracing::warn!("{why}");
                }
                self.failed = Some((why, now.saturating_add(RETRY)));
            }
        }
    }

    /// Opens the sockets again, where that failed a while ago.
    pub(crate) async fn try_again(&mut self, now: BootTime) {
        if let (Some(at), Some((_, again))) = (self.at, &self.failed)
            && *again <= now
        {
            self.answer_at(at, now).await;
        }
    }

    /// The reason why nothing is answered, for the gateway's status.
    pub(crate) fn problem(&self) -> Option<String> {
        self.failed.as_ref().map(|(why, _)| why.clone())
    }

    async fn open(&mut self, at: SocketAddr) -> io::Result<()> {
        let socket = Arc::new(UdpSocket::bind(at).await?);
        self.plain.set_socket(Arc::clone(&socket));
        let listener = TcpListener::bind(at).await?;
        let waiting = Places::new(MAX_WAITING, MAX_WAITING_PER_ADDRESS);
        let datagrams = serve_datagrams(socket, self.asked.clone(), Arc::clone(&waiting));
        let connections = serve_connections(listener, self.asked.clone(), waiting);
        self.tasks
            .extend([tokio::spawn(datagrams), tokio::spawn(connections)]);
        Ok(())
    }

    fn stop(&mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
        }
    }

    /// Asks the site's DNS. The client has its share of the questions until [`Self::answered`] names it.
    pub(crate) fn look_up(
        &self,
        question: Question,
        client: ClientId,
        resolver: Option<SystemResolver>,
    ) {
        let done = self.done.clone();
        // Its share of the questions that are asked counts from here on.
        drop(question.place);
        let (asked, answer) = (question.asked, question.answer);
        tokio::spawn(async move {
            let bytes = match (asked.wanted(), resolver) {
                (Ok(Wanted { whole, kind, .. }), Some(resolver)) => {
                    let found = records(&resolver, whole, kind).await;
                    asked.answer_with(&found)
                }
                (Ok(_), None) => asked.answer(ResponseCode::ServFail),
                (Err(code), _) => asked.answer(code),
            };
            answer.send(bytes);
            // Nobody listens where the gateway ended.
            let _unheard = done.send(client).await;
        });
    }
}

impl Drop for SiteDns {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Question {
    /// The name in question.
    ///
    /// # Errors
    /// The code to refuse it with.
    pub(crate) fn name(&self) -> Result<culvert_policy::DomainName, ResponseCode> {
        self.asked.wanted().map(|wanted| wanted.name)
    }

    /// Leaves the answer to `answers`. Returns the query as it came, and its transport.
    pub(crate) fn hand_over(self, answers: &mut PlainAnswers) -> (Vec<u8>, Transport) {
        let transport = match self.answer {
            Answer::Datagram(..) => Transport::Udp,
            Answer::Connection(sender) => {
                answers.wait(self.from, sender);
                Transport::Tcp
            }
        };
        (self.bytes, transport)
    }

    /// Answers that it is not asked.
    pub(crate) fn refuse(self, code: ResponseCode) {
        let bytes = self.asked.answer(code);
        self.answer.send(bytes);
    }
}

impl Answer {
    /// An answer may be lost, as any datagram: the client asks again.
    fn send(self, bytes: Vec<u8>) {
        match self {
            Self::Datagram(socket, to) => {
                let _lost = socket.try_send_to(&bytes, to);
            }
            Self::Connection(answer) => {
                let _gone = answer.send(bytes);
            }
        }
    }
}

async fn serve_datagrams(
    socket: Arc<UdpSocket>,
    questions: mpsc::Sender<Question>,
    waiting: Arc<Places>,
) {
    let mut buffer = vec![0; MAX_QUESTION_LEN];
    loop {
        // An error is one of an earlier answer, such as an unreachable port.
        let Ok((len, from)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        // Before it is read: nobody makes others wait by more questions than its share.
        let Some(place) = Places::take(&waiting, from.ip()) else {
            continue;
        };
        let bytes = &buffer[..len];
        if let Some(asked) = Asked::read(bytes, true) {
            let answer = Answer::Datagram(Arc::clone(&socket), from);
            let _full = questions.try_send(Question {
                asked,
                bytes: bytes.to_vec(),
                from,
                answer,
                place,
            });
        }
    }
}

async fn serve_connections(
    listener: TcpListener,
    questions: mpsc::Sender<Question>,
    waiting: Arc<Places>,
) {
    let connections = Places::new(MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS);
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            // Out of descriptors: others may give some back.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if let Some(place) = Places::take(&connections, from.ip()) {
            let (questions, waiting) = (questions.clone(), Arc::clone(&waiting));
            tokio::spawn(async move {
                let _ended = serve_connection(stream, from, questions, waiting).await;
                drop(place);
            });
        }
    }
}

/// One question after another (RFC 7766 permits several at once; resolvers that ask because an answer was too long
/// have one).
async fn serve_connection(
    mut stream: TcpStream,
    from: SocketAddr,
    questions: mpsc::Sender<Question>,
    waiting: Arc<Places>,
) -> io::Result<()> {
    let mut buffer = vec![0; MAX_QUESTION_LEN];
    loop {
        let len = usize::from(timeout(IDLE, stream.read_u16()).await??);
        let Some(bytes) = buffer.get_mut(..len) else {
            return Ok(());
        };
        timeout(IDLE, stream.read_exact(bytes)).await??;
        let Some(asked) = Asked::read(bytes, false) else {
            return Ok(());
        };
        let Some(place) = Places::take(&waiting, from.ip()) else {
            return Ok(());
        };
        let (sender, answer) = oneshot::channel();
        let question = Question {
            asked,
            bytes: bytes.to_vec(),
            from,
            answer: Answer::Connection(sender),
            place,
        };
        let _full = questions.try_send(question);
        let Ok(bytes) = timeout(ANSWER, answer).await? else {
            return Ok(());
        };
        let len = u16::try_from(bytes.len()).map_err(io::Error::other)?;
        let framed = [&len.to_be_bytes()[..], &bytes].concat();
        timeout(IDLE, stream.write_all(&framed)).await??;
    }
}
