//! The sockets that programs ask, UDP and TCP, each query remembered until it is answered.

use super::{DnsEvent, DnsEvents};
use culvert_dns::{QUERY_LEN_MAX, Transport};
use culvert_host::Guests;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;

/// Programs with a TCP connection at once, over all listeners: some hundred bytes each while idle. One more takes the
/// place of the one that has been silent for longest.
const MAX_CONNECTIONS: usize = 128;

/// The time for which a TCP connection may be idle. RFC 7766 §6.2.3 asks for a few seconds.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Answers of one TCP connection that wait to be written; what exceeds it is not answered.
const MAX_WAITING_ANSWERS: usize = 64;

/// The maximum number of UDP addresses with an open query: twice the number of queries that the
/// stub keeps. Beyond it the ones from longest ago are forgotten: the stub answers within seconds
/// or never.
const MAX_ASKERS: usize = 4096;

/// The sockets, and who waits at them.
pub(crate) struct Listeners {
    events: DnsEvents,
    guests: Arc<tokio::sync::Mutex<Option<Guests>>>,
    askers: Arc<Mutex<Askers>>,
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

/// The senders that wait for an answer.
#[derive(Default)]
struct Askers {
    /// By which socket the answer leaves.
    udp: BTreeMap<SocketAddr, Arc<UdpSocket>>,
    /// In the order in which they came.
    order: std::collections::VecDeque<SocketAddr>,
    tcp: BTreeMap<SocketAddr, Connection>,
    /// Counts connections and their queries: the order in which they came.
    turns: u64,
}

/// A TCP connection.
struct Connection {
    answers: mpsc::Sender<Vec<u8>>,
    task: AbortHandle,
    /// Of its last query, or of its beginning.
    turn: u64,
}

/// The senders that may ask at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admit {
    /// Programs on this machine, and in its containers and virtual machines: a neighbour on the network must not learn
    /// names through it.
    Local,
    /// Every sender that reaches it.
    Everybody,
}

/// Decides who may ask at one address.
#[derive(Clone)]
struct Door {
    own: IpAddr,
    admit: Admit,
    guests: Arc<tokio::sync::Mutex<Option<Guests>>>,
}

impl Door {
    async fn admits(&self, from: IpAddr) -> bool {
        // A program's packets to an address of its own machine come from that address, or from one that it has chosen.
        if self.admit == Admit::Everybody || from == self.own || from.is_loopback() {
            return true;
        }
        match &mut *self.guests.lock().await {
            Some(guests) => guests.is_guest(from).await,
            None => false,
        }
    }
}

impl Listeners {
    /// Without `guests`, programs in containers are not told from neighbours.
    pub(crate) fn new(events: DnsEvents, guests: Option<Guests>) -> Self {
        Self {
            events,
            guests: Arc::new(tokio::sync::Mutex::new(guests)),
            askers: Arc::default(),
            bound: BTreeMap::new(),
        }
    }

    /// The addresses at which queries are received.
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
        let door = Door {
            own: address.ip(),
            admit,
            guests: Arc::clone(&self.guests),
        };
        let askers = || Arc::clone(&self.askers);
        let udp = receive(udp, self.events.clone(), askers(), door.clone());
        let tcp = accept(tcp, self.events.clone(), askers(), door);
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

    /// Sends an answer to the sender of the query.
    pub(crate) fn answer(&self, bytes: Vec<u8>, to: SocketAddr, transport: Transport) {
        let mut askers = lock(&self.askers);
        match transport {
            Transport::Udp => {
                if let Some(socket) = askers.udp.get(&to) {
                    // A full socket loses the answer, as the network may.
                    let _sent = socket.try_send_to(&bytes, to);
                }
            }
            Transport::Tcp => {
                let gone = match askers.tcp.get(&to) {
                    Some(connection) => connection.answers.try_send(bytes).is_err(),
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

    /// A connection begins. If there are too many, the one that has been silent for longest ends.
    fn admit(&mut self, from: SocketAddr, answers: mpsc::Sender<Vec<u8>>, task: AbortHandle) {
        if self.tcp.len() >= MAX_CONNECTIONS {
            let silent = self
                .tcp
                .iter()
                .min_by_key(|(_, connection)| connection.turn);
            let silent = silent.map(|(from, _)| *from);
            if let Some(silent) = silent.and_then(|from| self.tcp.remove(&from)) {
                silent.task.abort();
            }
        }
        let turn = self.next_turn();
        let connection = Connection {
            answers,
            task,
            turn,
        };
        self.tcp.insert(from, connection);
    }

    /// A query came over a connection.
    fn note_query(&mut self, from: SocketAddr) {
        let turn = self.next_turn();
        if let Some(connection) = self.tcp.get_mut(&from) {
            connection.turn = turn;
        }
    }

    fn next_turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }
}

async fn receive(
    socket: Arc<UdpSocket>,
    events: DnsEvents,
    askers: Arc<Mutex<Askers>>,
    door: Door,
) {
    // One byte more than is read tells a query that is too long.
    let mut buffer = vec![0; QUERY_LEN_MAX + 1];
    loop {
        let (len, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                // An ICMP error about an earlier answer does not concern the next query.
                tracing::trace!(%error, "a DNS socket reports an error");
                tokio::task::yield_now().await;
                continue;
            }
        };
        if len > QUERY_LEN_MAX || !door.admits(from.ip()).await {
            continue;
        }
        lock(&askers).note(from, &socket);
        let query = DnsEvent::Query {
            bytes: buffer[..len].to_vec(),
            transport: Transport::Udp,
            from,
        };
        // A full queue loses the query; its sender asks again.
        let _queued = events.try_send(query);
    }
}

async fn accept(listener: TcpListener, events: DnsEvents, askers: Arc<Mutex<Askers>>, door: Door) {
    /// The pause of accepting when no file descriptors are left.
    const PAUSE: Duration = Duration::from_millis(100);
    loop {
        match listener.accept().await {
            Ok((stream, from)) if door.admits(from.ip()).await => {
                let (answers, to_write) = mpsc::channel(MAX_WAITING_ANSWERS);
                // Until it is in the table, it can't take itself out.
                let mut table = lock(&askers);
                let connection = serve(stream, from, events.clone(), Arc::clone(&askers), to_write);
                let task = tokio::spawn(connection).abort_handle();
                table.admit(from, answers, task);
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
    to_write: mpsc::Receiver<Vec<u8>>,
) {
    let (reader, writer) = stream.into_split();
    let write = write_answers(writer, to_write);
    tokio::select! {
        () = read_queries(reader, from, &events, &askers) => {}
        () = write => {}
    }
    lock(&askers).tcp.remove(&from);
}

fn lock(askers: &Mutex<Askers>) -> MutexGuard<'_, Askers> {
    askers.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read_queries(
    mut reader: OwnedReadHalf,
    from: SocketAddr,
    events: &DnsEvents,
    askers: &Mutex<Askers>,
) {
    while let Ok(Some(bytes)) = timeout(IDLE_LIMIT, read_message(&mut reader)).await {
        lock(askers).note_query(from);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// For what happens at once on a machine that is not busy.
    const SOON: Duration = Duration::from_secs(60);

    async fn ask(stream: &mut TcpStream, text: &[u8]) {
        let mut framed = u16::try_from(text.len()).unwrap().to_be_bytes().to_vec();
        framed.extend(text);
        stream.write_all(&framed).await.unwrap();
    }

    /// Listeners at a port that is free for UDP and for TCP: another program may have the one that UDP got.
    async fn listening(waiting: usize) -> (Listeners, mpsc::Receiver<DnsEvent>) {
        for _ in 0..100 {
            let (events, heard) = mpsc::channel(waiting);
            let mut listeners = Listeners::new(events, None);
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            match listeners.bind(any, Admit::Local).await {
                Ok(()) => return (listeners, heard),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no port is free");
    }

    #[tokio::test]
    async fn of_too_many_connections_the_one_that_is_silent_for_longest_gives_way() {
        let (listeners, mut heard) = listening(16).await;
        let address = listeners.addresses()[0];
        let mut hear = async || {
            let heard = timeout(SOON, heard.recv()).await.unwrap();
            match heard {
                Some(DnsEvent::Query { bytes, from, .. }) => (bytes, from),
                _ => panic!("a query"),
            }
        };
        let mut held = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            held.push(TcpStream::connect(address).await.unwrap());
        }
        // The first one asks, so that the second is silent for longer.
        ask(&mut held[0], b"first").await;
        assert_eq!(hear().await.0, b"first");
        let mut newcomer = TcpStream::connect(address).await.unwrap();
        ask(&mut newcomer, b"newcomer").await;
        let (bytes, from) = hear().await;
        assert_eq!(bytes, b"newcomer");
        let ended = timeout(SOON, held[1].read(&mut [0; 1])).await.unwrap();
        assert_eq!(ended.unwrap_or(0), 0);
        // All others are still there, and their senders are answered.
        let mut byte = [0; 1];
        let mut is_open = |stream: &TcpStream| match stream.try_read(&mut byte) {
            Ok(read) => read > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        let (first, rest) = held.split_first().unwrap();
        assert_eq!(
            rest[1..]
                .iter()
                .chain([first])
                .filter(|it| is_open(it))
                .count(),
            rest.len()
        );
        listeners.answer(b"answer".to_vec(), from, Transport::Tcp);
        let mut answer = [0; 8];
        timeout(SOON, newcomer.read_exact(&mut answer))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(&answer, b"\0\x06answer");
    }

    /// The bytes that a connection sends before it falls silent: nothing, parts of a length, of a question, one question
    /// after another, and a length that no question has.
    #[tokio::test]
    async fn connections_that_fall_silent_anywhere_hold_up_no_question_of_another() {
        const HOLDERS: [&[u8]; 9] = [
            b"",
            b"\0",
            b"\0\x10",
            b"\0\x10half of it",
            b"\0\x05whole",
            b"\0\x05whole\0\x05again",
            b"\0\x05whole\0",
            b"\0\0",
            b"\xff\xff",
        ];
        for holder in HOLDERS {
            let (listeners, mut heard) = listening(2 * MAX_CONNECTIONS + 16).await;
            let address = listeners.addresses()[0];
            let mut held = Vec::new();
            for _ in 0..MAX_CONNECTIONS * 2 {
                let mut stream = TcpStream::connect(address).await.unwrap();
                // One that gave way already can't be written to.
                let _gone = stream.write_all(holder).await;
                held.push(stream);
            }
            let mut newcomer = TcpStream::connect(address).await.unwrap();
            ask(&mut newcomer, b"newcomer").await;
            // Well before any of them is idle for too long.
            let asked = timeout(IDLE_LIMIT / 2, async {
                loop {
                    match heard.recv().await {
                        Some(DnsEvent::Query { bytes, .. }) if bytes == b"newcomer" => break,
                        Some(_) => {}
                        None => panic!("the listeners ended"),
                    }
                }
            });
            assert!(asked.await.is_ok(), "{holder:?}");
        }
    }
}
