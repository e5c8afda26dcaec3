//! The thread that follows the service: it watches, and sleeps while nothing changes. A service that does not know
//! watching, or has too many watchers, is polled.

use crate::clock::now_ms;
use crate::connection::{ExchangeError, Service, command, exchange, send};
use crate::lines::Lines;
use crate::mailbox::{Event, Mailbox};
use culvert_desktop_core::exchange::{
    AnswerError, MAX_ANSWER_BYTES, Reply, Request, Watch as After,
};
use culvert_desktop_core::phase::Contact;
use culvert_desktop_core::status::Heard;
use culvert_desktop_core::watch::{Mirror, WatchError, share};
use rustix::time::{ClockId, clock_gettime};
use std::convert::Infallible;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The time limit of the first line: that of any answer.
const FIRST_LIMIT: Duration = Duration::from_secs(2);

/// The time limit of a line that has begun: the service's own for one that it sends.
const LINE_LIMIT: Duration = Duration::from_secs(10);

/// The time until the next attempt when there was no state. The window recovers within this and one exchange.
const RETRY: Duration = Duration::from_millis(250);

/// The time between two questions to a service that is polled.
const INTERVAL: Duration = Duration::from_secs(1);

/// The time between two questions is at least this many times what one takes of a processor: a client with 20,000
/// resources costs this machine no more than one part in so many of it.
const COST: u32 = 20;

/// The longest time between two questions, whatever they cost: nobody looks at a state that is older.
const MAX_INTERVAL: Duration = Duration::from_secs(5);

/// The time for which a service with too many watchers is polled before it is asked to be watched again.
const POLLED_FOR: Duration = Duration::from_secs(30);

/// The most commands that wait. A person clicks them.
const MAX_COMMANDS: usize = 8;

/// The threads that speak to the service. They end when this is dropped.
#[derive(Debug)]
pub struct Link {
    commands: SyncSender<Request>,
    nudge: SyncSender<()>,
    watched: Arc<Watched>,
}

/// The stream that is being watched, for the one who ends that.
#[derive(Debug, Default)]
struct Watched(Mutex<Stream>);

#[derive(Debug, Default)]
struct Stream {
    has_ended: bool,
    /// The service is asked anew with each round. A state is of the round in which its connection was opened.
    round: u64,
    open: Option<UnixStream>,
}

impl Stream {
    fn close(&mut self) {
        if let Some(stream) = self.open.take() {
            // The peer may have closed it.
            let _closed = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Stream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the stream that was opened in `round`. False if watching has ended, or another round has begun.
    fn open(&self, stream: UnixStream, round: u64) -> bool {
        let mut watched = self.lock();
        watched.open = Some(stream);
        !watched.has_ended && watched.round == round
    }

    fn close(&self) {
        self.lock().close();
    }

    fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    fn round(&self) -> u64 {
        self.lock().round
    }
}

impl Link {
    /// Begins to follow `service`. States and events go into `mailbox`.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(service: Service, mailbox: Arc<Mailbox>) -> std::io::Result<Self> {
        let (commands, received) = sync_channel(MAX_COMMANDS);
        let (nudge, nudged) = sync_channel(1);
        let watched: Arc<Watched> = Arc::default();
        let follower = Follower {
            service: service.clone(),
            mailbox: Arc::clone(&mailbox),
            watched: Arc::clone(&watched),
            nudged,
            round: 0,
            last: None,
        };
        thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || follower.follow())?;
        let nudges = nudge.clone();
        thread::Builder::new()
            .name("commands".to_owned())
            .spawn(move || execute_all(&service, &mailbox, &received, &nudges))?;
        Ok(Self {
            commands,
            nudge,
            watched,
        })
    }

    /// Asks the service anew, at once. Every state of the round that is returned, or a later one, is from after this call.
    pub fn ask_again(&self) -> u64 {
        let mut watched = self.watched.lock();
        watched.round += 1;
        watched.close();
        let round = watched.round;
        drop(watched);
        // A full channel nudges already.
        let _full = self.nudge.try_send(());
        round
    }

    /// Sends a command. False if too many wait already.
    pub fn send(&self, command: Request) -> bool {
        self.commands.try_send(command).is_ok()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The thread of commands ends with the sender, and with it each pause.
        let mut watched = self.watched.lock();
        watched.has_ended = true;
        watched.close();
    }
}

/// The reason why watching has ended.
enum Stop {
    /// The service is to be polled: for some time, or until it is gone.
    Poll(Option<Duration>),
    /// The service ends.
    Ending,
    /// There is no connection, or none any more.
    Lost(ExchangeError),
}

impl From<ExchangeError> for Stop {
    fn from(error: ExchangeError) -> Self {
        Self::Lost(error)
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Lost(error.into())
    }
}

impl From<WatchError> for Stop {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::Unsupported => Self::Poll(None),
            WatchError::TooMany => Self::Poll(Some(POLLED_FOR)),
            WatchError::Ending => Self::Ending,
            WatchError::Answer(error) => Self::Lost(ExchangeError::Answer(error)),
        }
    }
}

struct Follower {
    service: Service,
    mailbox: Arc<Mailbox>,
    watched: Arc<Watched>,
    /// Ends a pause: a command was sent, the service is to be asked anew, or nobody follows any more.
    nudged: Receiver<()>,
    /// The round in which the service was asked last.
    round: u64,
    /// The state that was put into the mailbox last, with its round.
    last: Option<(Contact, u64)>,
}

impl Follower {
    fn follow(mut self) {
        let mut mirror = Mirror::default();
        let mut resumed_at: Option<Instant> = None;
        while !self.watched.has_ended() {
            let mut has_heard = false;
            let Err(stop) = self.watch(&mut mirror, &mut has_heard);
            self.watched.close();
            // The end of a connection that a new round has closed says nothing about the service.
            if self.watched.round() != self.round {
                continue;
            }
            let (contact, is_told) = match stop {
                Stop::Poll(limit) => {
                    self.poll(limit);
                    continue;
                }
                Stop::Ending => (Contact::Away, true),
                Stop::Lost(error) => (error.into_contact(), false),
            };
            // A service that is well disconnects a reader that was asleep. It resumes at once, and that is no news unless
            // it fails.
            let may_resume = resumed_at.is_none_or(|at| at.elapsed() >= INTERVAL);
            if has_heard && may_resume && !is_told && contact == Contact::Away {
                resumed_at = Some(Instant::now());
                continue;
            }
            let pause = match contact {
                Contact::Away => RETRY,
                _ => INTERVAL,
            };
            self.put(contact);
            self.pause(pause);
        }
    }

    /// Watches until there is a reason not to. `has_heard` becomes true with the first state.
    fn watch(&mut self, mirror: &mut Mirror, has_heard: &mut bool) -> Result<Infallible, Stop> {
        let after = mirror.after();
        self.round = self.watched.round();
        let stream = send(&self.service, &Request::Watch(After { after }))?;
        if !self.watched.open(stream.try_clone()?, self.round) {
            return Err(Stop::Ending);
        }
        let mut lines = Lines::new(stream, MAX_ANSWER_BYTES);
        let mut line = lines.within(FIRST_LIMIT)?;
        loop {
            let status = mirror.apply(&line, now_ms())?;
            drop(line);
            *has_heard = true;
            self.put(Contact::Status(status));
            line = lines.next(LINE_LIMIT)?;
        }
    }

    /// Polls until there is no state, or for `limit`.
    fn poll(&mut self, limit: Option<Duration>) {
        let start = Instant::now();
        while !self.watched.has_ended() && limit.is_none_or(|limit| start.elapsed() < limit) {
            let used = processor_time();
            self.round = self.watched.round();
            match exchange(&self.service, &Request::Status) {
                Ok(mut status) => {
                    status.heard = Heard::at(now_ms());
                    if let Some((Contact::Status(before), _)) = &self.last {
                        share(before, &mut status);
                    }
                    self.put(Contact::Status(Arc::new(status)));
                }
                Err(error) => {
                    self.put(error.into_contact());
                    self.pause(RETRY);
                    return;
                }
            }
            let cost = processor_time().saturating_sub(used) * COST;
            self.pause(INTERVAL.max(cost).min(MAX_INTERVAL));
        }
    }

    /// Puts what the window shows now into the mailbox, unless it shows that already.
    fn put(&mut self, contact: Contact) {
        let now = (contact, self.round);
        if self.last.as_ref() != Some(&now) {
            self.last = Some(now.clone());
            let (contact, round) = now;
            self.mailbox.put_contact(contact, round);
        }
    }

    /// Waits, unless a command was sent meanwhile. The state after a command is asked for at once.
    fn pause(&self, pause: Duration) {
        if self.nudged.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            // The window ends. Its end of `watched` may be a moment behind.
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn execute_all(
    service: &Service,
    mailbox: &Mailbox,
    commands: &Receiver<Request>,
    nudge: &SyncSender<()>,
) {
    for request in commands {
        let is_log = matches!(request, Request::Log);
        match command(service, &request) {
            Ok(Reply::Taken) => {}
            Ok(Reply::Log(lines)) => mailbox.put(Event::Log(Ok(lines))),
            Err(error) if is_log => mailbox.put(Event::Log(Err(error.to_string()))),
            Err(ExchangeError::Answer(
                AnswerError::Refused(text) | AnswerError::NotPermitted(text),
            )) => mailbox.put(Event::CommandRefused(text)),
            // The state shows the reason.
            Err(_) => mailbox.put(Event::CommandLost),
        }
        // A full channel nudges already.
        let _full = nudge.try_send(());
    }
}

/// The time that this thread has used of a processor.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests;
