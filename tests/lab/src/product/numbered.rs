//! Numbered datagrams, each of which must be answered: what is lost or overtaken is counted, not
//! guessed.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::namespace::Namespace;
use crate::wait_until;

/// Between two datagrams, or two bursts of them. Sockets hold several hundred, so a machine that is busy for seconds loses none.
const INTERVAL: Duration = Duration::from_millis(20);

/// The last answers may be this late on a machine that is busy.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// The interval at which a thread checks for its stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Sends every datagram back to where it came from.
#[derive(Debug)]
pub struct Echo {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Listens at an address of the namespace.
    ///
    /// # Errors
    /// When it can't.
    pub fn start(namespace: &Namespace, address: IpAddr, port: u16) -> Result<Self> {
        let socket = namespace.inside(|| {
            let socket = UdpSocket::bind((address, port));
            socket.with_context(|| format!("cannot listen at {address} port {port}"))
        })?;
        socket.set_read_timeout(Some(STOP_INTERVAL))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut datagram = [0; 64];
            while !stopping.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut datagram) {
                    let _gone = socket.send_to(&datagram[..len], from);
                }
            }
        });
        let thread = Some(thread);
        Ok(Self { stop, thread })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// The result of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Datagrams sent.
    pub sent: u64,
    /// The numbers of those that were not answered.
    pub missing: Vec<u64>,
    /// Answers that came after one of a higher number.
    pub overtaken: u64,
}

/// The datagrams that have come back so far.
#[derive(Debug)]
struct Answers {
    numbers: BTreeSet<u64>,
    overtaken: u64,
    last_at: Instant,
    longest_gap: Duration,
}

impl Answers {
    fn take(&mut self, number: u64) {
        let is_overtaken = self.numbers.last().is_some_and(|last| number < *last);
        self.overtaken += u64::from(is_overtaken);
        self.numbers.insert(number);
        self.longest_gap = self.longest_gap.max(self.last_at.elapsed());
        self.last_at = Instant::now();
    }
}

/// A stream of numbered datagrams to an [`Echo`], from 0 on.
#[derive(Debug)]
pub struct NumberedStream {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    answers: Arc<Mutex<Answers>>,
    sender: Option<JoinHandle<()>>,
}

impl NumberedStream {
    /// Begins to send from the namespace, and waits for the first answer.
    ///
    /// # Errors
    /// When none comes within ten seconds.
    pub fn start(namespace: &Namespace, address: IpAddr, port: u16) -> Result<Self> {
        Self::start_bursts(namespace, address, port, 1)
    }

    /// As [`Self::start`], with several datagrams at once each time: so close to each other they show
    /// whether one overtakes another.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_bursts(
        namespace: &Namespace,
        address: IpAddr,
        port: u16,
        burst: u32,
    ) -> Result<Self> {
        let socket = namespace.inside(|| Ok(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?))?;
        // A client that has only just been welcomed has no route yet.
        let target = SocketAddr::new(address, port);
        let connected = || socket.connect(target).is_ok();
        wait_until("a route", Duration::from_secs(10), connected)?;
        socket.set_read_timeout(Some(STOP_INTERVAL))?;
        let receiver = socket.try_clone()?;
        let mut stream = Self {
            stop: Arc::default(),
            sent: Arc::default(),
            answers: Arc::new(Mutex::new(Answers {
                numbers: BTreeSet::new(),
                overtaken: 0,
                last_at: Instant::now(),
                longest_gap: Duration::ZERO,
            })),
            sender: None,
        };
        let answers = Arc::downgrade(&stream.answers);
        thread::spawn(move || {
            let mut datagram = [0; 8];
            // Ends with the stream.
            while let Some(answers) = answers.upgrade() {
                if let Ok(8) = receiver.recv(&mut datagram) {
                    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                    answers.take(u64::from_be_bytes(datagram));
                }
            }
        });
        let (stop, sent) = (Arc::clone(&stream.stop), Arc::clone(&stream.sent));
        stream.sender = Some(thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..burst {
                    let number = sent.fetch_add(1, Ordering::Relaxed);
                    // A datagram that the host refuses counts as lost, and is not sent again.
                    let _refused = socket.send(&number.to_be_bytes());
                }
                thread::sleep(INTERVAL);
            }
        }));
        wait_until("the first answer", Duration::from_secs(10), || {
            stream.answers() > 0
        })?;
        // Access had to be asked for.
        stream.lock().longest_gap = Duration::ZERO;
        Ok(stream)
    }

    /// Answers so far.
    #[must_use]
    pub fn answers(&self) -> usize {
        self.lock().numbers.len()
    }

    /// The longest time without an answer after the first one, the time since the last one included.
    #[must_use]
    pub fn longest_gap(&self) -> Duration {
        let answers = self.lock();
        answers.longest_gap.max(answers.last_at.elapsed())
    }

    /// Waits until there are more answers than so far.
    ///
    /// # Errors
    /// When none come within `deadline`.
    pub fn goes_on(&self, deadline: Duration) -> Result<()> {
        let before = self.answers();
        let more = || self.answers() > before;
        wait_until("the numbered stream to go on", deadline, more)
    }

    /// Sends no more, waits for the last answers, and counts.
    #[must_use]
    pub fn finish(mut self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(sender) = self.sender.take() {
            let _panicked = sender.join();
        }
        let sent = self.sent.load(Ordering::Relaxed);
        let all = usize::try_from(sent).unwrap_or(usize::MAX);
        // If some stay away, the tally says which.
        let _in_vain = wait_until("all answers", LAST_ANSWERS, || self.answers() == all);
        let answers = self.lock();
        let missing = (0..sent).filter(|number| !answers.numbers.contains(number));
        Tally {
            sent,
            missing: missing.collect(),
            overtaken: answers.overtaken,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NumberedStream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
