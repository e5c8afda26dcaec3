//! The channel between a running client or gateway and processes that ask for its state: health, status,
//! and the service manager's watchdog.

use crate::notify::{notify_alive, watchdog_span};
use crate::watching::Watchers;
use crate::{HostError, OnlyStatus, Request, SocketForm, StatusRequest, StatusSocket};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

/// Status requests that wait for an answer: the connections of the socket, and some collectors.
const MAX_WAITING_REQUESTS: usize = 16;

/// The running side looks around at least this often, so that its pulse is recent enough to tell
/// something.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// One that did not look around for five times as long hangs.
const PULSE_LIMIT: Duration = Duration::from_secs(10);

/// The time limit for an answer of a running program.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Makes the two ends: one asks, and the running program answers by the other. `S` is the form in
/// which it tells its state, `R` what it may be asked for.
#[must_use]
pub fn observe<S, R>() -> (Observer<S, R>, Observed<S, R>) {
    let (requests, received) = mpsc::channel(MAX_WAITING_REQUESTS);
    let (pulse, seen) = watch::channel(Pulse {
        at: Instant::now(),
        not_ready: Some("it is starting".to_owned()),
    });
    let observer = Observer {
        requests: requests.clone(),
        pulse: seen,
    };
    let observed = Observed {
        requests,
        received,
        pulse,
        watchdog: watchdog_span().map(Watchdog::new),
        watchers: Watchers::new(),
    };
    (observer, observed)
}

/// Asks a client or gateway of this process.
#[derive(Clone, Debug)]
pub struct Observer<S, R = OnlyStatus> {
    requests: mpsc::Sender<StatusRequest<S, R>>,
    pulse: watch::Receiver<Pulse>,
}

/// The health of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It does what it is there for.
    Ready,
    /// It works, but does not, for this reason.
    NotReady(String),
    /// It has ended, or does nothing any more.
    Stuck,
}

impl<S, R: Request> Observer<S, R> {
    /// The health of the program, without waiting for it.
    #[must_use]
    pub fn health(&self) -> Health {
        let has_ended = self.pulse.has_changed().is_err();
        let pulse = self.pulse.borrow();
        match &pulse.not_ready {
            _ if has_ended || pulse.at.elapsed() > PULSE_LIMIT => Health::Stuck,
            Some(why) => Health::NotReady(why.clone()),
            None => Health::Ready,
        }
    }

    /// Everything that it tells of itself; nothing where it does not answer in time.
    pub async fn status(&self) -> Option<S> {
        let (answer, answered) = oneshot::channel();
        let asked = async {
            let request = R::STATUS;
            let request = StatusRequest {
                request,
                peer: None,
                process: None,
                answer,
                watcher: None,
            };
            self.requests.send(request).await.ok()?;
            answered.await.ok()?.ok()
        };
        tokio::time::timeout(ANSWER_LIMIT, asked).await.ok()?
    }
}

/// The program's view of itself at its last look.
#[derive(Debug)]
struct Pulse {
    at: Instant,
    not_ready: Option<String>,
}

/// The times at which the service manager is told that the event loop goes on.
#[derive(Debug)]
struct Watchdog {
    /// A quarter of what it waits for: with a turn of the loop at least as often, it hears in half.
    every: Duration,
    due: Instant,
}

impl Watchdog {
    fn new(span: Duration) -> Self {
        Self {
            every: span / 4,
            due: Instant::now(),
        }
    }
}

/// The end of the one that runs.
#[derive(Debug)]
pub struct Observed<S, R = OnlyStatus> {
    requests: mpsc::Sender<StatusRequest<S, R>>,
    received: mpsc::Receiver<StatusRequest<S, R>>,
    pulse: watch::Sender<Pulse>,
    watchdog: Option<Watchdog>,
    watchers: Watchers,
}

impl<S, R> Observed<S, R>
where
    S: Serialize + Send + 'static,
    R: Request,
{
    /// Answers at a Unix socket too, in the form `schema_version`. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// As [`StatusSocket::bind`].
    pub fn bind(&self, path: &Path, schema_version: u32) -> Result<StatusSocket, HostError> {
        let form = SocketForm {
            schema_version,
            restricted: None,
            log: None,
        };
        self.bind_with(path, form)
    }

    /// The same in another form.
    ///
    /// # Errors
    /// As [`StatusSocket::bind`].
    pub fn bind_with(&self, path: &Path, form: SocketForm<S>) -> Result<StatusSocket, HostError> {
        let door = self.watchers.door();
        StatusSocket::bind(path, form, self.requests.clone(), door)
    }
}

impl<S, R> Observed<S, R> {
    /// The next request.
    pub async fn next(&mut self) -> StatusRequest<S, R> {
        match self.received.recv().await {
            Some(request) => request,
            // It has a sender of its own.
            None => std::future::pending().await,
        }
    }

    /// The watchers of the state.
    #[must_use]
    pub const fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// The event loop has made a turn, and the next one comes within [`Self::longest_rest`].
    pub fn beat(&mut self, not_ready: Option<String>) {
        let now = Instant::now();
        self.pulse.send_replace(Pulse { at: now, not_ready });
        if let Some(watchdog) = &mut self.watchdog
            && watchdog.due <= now
        {
            watchdog.due = now + watchdog.every;
            notify_alive();
        }
    }

    /// The longest sleep that the event loop may take.
    #[must_use]
    pub fn longest_rest(&self) -> Duration {
        let watchdog = self.watchdog.as_ref();
        watchdog.map_or(LONGEST_REST, |watchdog| watchdog.every.min(LONGEST_REST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_is_ready_while_it_says_so_and_stuck_when_it_says_nothing_more() {
        let (observer, mut observed) = observe::<u8, OnlyStatus>();
        assert_eq!(
            observer.health(),
            Health::NotReady("it is starting".to_owned())
        );
        observed.beat(Some("it drains".to_owned()));
        assert_eq!(observer.health(), Health::NotReady("it drains".to_owned()));
        observed.beat(None);
        tokio::time::advance(PULSE_LIMIT).await;
        assert_eq!(observer.health(), Health::Ready);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(observer.health(), Health::Stuck);
        observed.beat(None);
        assert_eq!(observer.health(), Health::Ready);
        drop(observed);
        assert_eq!(observer.health(), Health::Stuck);
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_one_that_does_not_answer_is_not_kept_waiting() {
        let (observer, mut observed) = observe::<u8, OnlyStatus>();
        assert_eq!(observer.status().await, None);
        // The request is still there: its sender is gone.
        assert!(observed.next().await.answer.is_closed());
        drop(observed);
        assert_eq!(observer.status().await, None);
    }
}
