//! Where programs ask: UDP and TCP sockets, each query remembered until it is answered.

use super::{DnsEvent, DnsEvents};
use culvert_dns::{QUERY_LEN_MAX, Transport};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Programs with a TCP connection at once, over all listeners: some hundred bytes each while idle.
const MAX_CONNECTIONS: usize = 128;

/// How long a TCP connection may be idle. RFC 7766 §6.2.3 asks for a few seconds.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Answers of one TCP connection that wait to be written; what exceeds it is not answered.
const MAX_WAITING_ANSWERS: usize = 64;

/// Where UDP queries came from that were not answered yet: twice what the stub lets wait. Beyond it
/// the ones from longest ago are forgotten: the stub answers within seconds or never.
const MAX_ASKERS: usize = 4096;

/// The sockets, and who waits at them.
pub(crate) struct Listeners {
    events: DnsEvents,
    askers: Arc<Mutex<Askers>>,
    connections: Arc<Semaphore>,
    bound: BTreeMap<SocketAddr, Bound>,
}

/// One address, both transports.
struct Bound {
    admit: Admit,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Bound {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Who waits for an answer.
#[derive(Default)]
struct Askers {
    /// By which socket the answer leaves.
    udp: BTreeMap<SocketAddr, Arc<UdpSocket>>,
    /// In the order in which they came.
    order: std::collections::VecDeque<SocketAddr>,
    tcp: BTreeMap<SocketAddr, mpsc::Sender<Vec<u8>>>,
}

/// Who may ask at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admit {
    /// Programs on this machine: a neighbour on the network must not learn names through it.
    Local,
    /// Whoever reaches it.
    Everybody,
}

impl Listeners {
    pub(crate) fn new(events: DnsEvents) -> Self {
        Self {
            events,
            askers: Arc::default(),
            connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            bound: BTreeMap::new(),
        }
    }

    /// Where queries are received.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.bound.keys().copied().collect()
    }

    /// Receives queries at `address` by both transports.
    pub(crate) async fn bind(&mut self, address: SocketAddr, admit: Admit) -> io::Result<()> {
        if self.bound.contains_key(&address) {
            return Ok(());
        }
        let udp = Arc::new(UdpSocket::bind(address).await?);
        // Port 0 chooses one: TCP has the same then.
        let address = udp.local_addr()?;
        let tcp = TcpListener::bind(address).await?;
        let own = address.ip();
        let may_ask = move |from: SocketAddr| match admit {
            Admit::Everybody => true,
            // What a program sends to an address of its own machine comes from that address, or from
            // one that it has chosen.
            Admit::Local => from.ip() == own || from.ip().is_loopback(),
        };
        let udp = receive(udp, self.events.clone(), Arc::clone(&self.askers), may_ask);
        let tcp = accept(
            tcp,
            self.events.clone(),
            Arc::clone(&self.askers),
            Arc::clone(&self.connections),
            may_ask,
        );
        let tasks = [tokio::spawn(udp), tokio::spawn(tcp)];
        self.bound.insert(address, Bound { admit, tasks });
        Ok(())
    }

    /// Of the addresses that are for this machine alone, stops at all but these.
    pub(crate) fn keep(&mut self, addresses: &BTreeSet<IpAddr>) {
        self.bound.retain(|address, bound| {
            bound.admit == Admit::Everybody || addresses.contains(&address.ip())
        });
    }

    /// Sends an answer to whoever asked.
    pub(crate) fn answer(&self, bytes: Vec<u8>, to: SocketAddr, transport: Transport) {
        let mut askers = self.askers.lock().unwrap_or_else(PoisonError::into_inner);
        match transport {
            Transport::Udp => {
                if let Some(socket) = askers.udp.get(&to) {
                    // A full socket loses the answer, as the network may.
                    let _sent = socket.try_send_to(&bytes, to);
                }
            }
            Transport::Tcp => {
                let gone = match askers.tcp.get(&to) {
                    Some(sender) => sender.try_send(bytes).is_err(),
                    None => false,
                };
                if gone {
                    askers.tcp.remove(&to);
                }
            }
        }
    }
}

impl Askers {
    fn note(&mut self, from: SocketAddr, socket: &Arc<UdpSocket>) {
        if self.udp.insert(from, Arc::clone(socket)).is_none() {
            self.order.push_back(from);
        }
        if self.order.len() > MAX_ASKERS
            && let Some(oldest) = self.order.pop_front()
        {
            self.udp.remove(&oldest);
        }
    }
}

async fn receive(
    socket: Arc<UdpSocket>,
    events: DnsEvents,
    askers: Arc<Mutex<Askers>>,
    may_ask: impl Fn(SocketAddr) -> bool,
) {
    // One byte more than is read tells a query that is too long.
    let mut buffer = vec![0; QUERY_LEN_MAX + 1];
    loop {
        let (len, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                // What an ICMP error reports of an earlier answer does not concern the next query.
                tracing::trace!(%error, "a DNS socket reports an error");
                tokio::task::yield_now().await;
                continue;
            }
        };
        if !may_ask(from) || len > QUERY_LEN_MAX {
            continue;
        }
        askers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .note(from, &socket);
        let query = DnsEvent::Query {
            bytes: buffer[..len].to_vec(),
            transport: Transport::Udp,
            from,
        };
        // A full queue loses the query; whoever asked asks again.
        let _queued = events.try_send(query);
    }
}

async fn accept(
    listener: TcpListener,
    events: DnsEvents,
    askers: Arc<Mutex<Askers>>,
    connections: Arc<Semaphore>,
    may_ask: impl Fn(SocketAddr) -> bool,
) {
    /// How long accepting pauses where there are no file descriptors left.
    const PAUSE: Duration = Duration::from_millis(100);
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, from)) if may_ask(from) => {
                let (events, askers) = (events.clone(), Arc::clone(&askers));
                tokio::spawn(serve(stream, from, events, askers, permit));
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "a DNS connection was not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// One TCP connection, until it is idle for too long.
async fn serve(
    stream: TcpStream,
    from: SocketAddr,
    events: DnsEvents,
    askers: Arc<Mutex<Askers>>,
    _permit: OwnedSemaphorePermit,
) {
    let (answers, to_write) = mpsc::channel(MAX_WAITING_ANSWERS);
    let lock = || askers.lock().unwrap_or_else(PoisonError::into_inner);
    lock().tcp.insert(from, answers);
    let (reader, writer) = stream.into_split();
    let write = write_answers(writer, to_write);
    tokio::select! {
        () = read_queries(reader, from, &events) => {}
        () = write => {}
    }
    lock().tcp.remove(&from);
}

async fn read_queries(mut reader: OwnedReadHalf, from: SocketAddr, events: &DnsEvents) {
    while let Ok(Some(bytes)) = timeout(IDLE_LIMIT, read_message(&mut reader)).await {
        let query = DnsEvent::Query {
            bytes,
            transport: Transport::Tcp,
            from,
        };
        if events.send(query).await.is_err() {
            return;
        }
    }
}

/// A message with its length in front (RFC 1035 §4.2.2); `None` at the end, or where it is too long.
async fn read_message(reader: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let len = usize::from(reader.read_u16().await.ok()?);
    if len > QUERY_LEN_MAX {
        return None;
    }
    let mut bytes = vec![0; len];
    reader.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

async fn write_answers(mut writer: OwnedWriteHalf, mut answers: mpsc::Receiver<Vec<u8>>) {
    while let Some(answer) = answers.recv().await {
        let Ok(len) = u16::try_from(answer.len()) else {
            continue;
        };
        let mut framed = len.to_be_bytes().to_vec();
        framed.extend(answer);
        match timeout(IDLE_LIMIT, writer.write_all(&framed)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}
