//! Between a running gateway and whoever asks how it is.

use crate::status::{SCHEMA_VERSION, Status};
use culvert_host::{HostError, StatusError, StatusSocket};
use std::path::Path;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

/// Status requests that wait for an answer: the connections of the socket, and some collectors.
const MAX_WAITING_REQUESTS: usize = 16;

/// A gateway looks around at least every two seconds. One that did not for five times as long hangs.
const PULSE_LIMIT: Duration = Duration::from_secs(10);

/// How long a gateway that lives may take over an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Asks for the state; the answer goes into the channel.
pub(crate) type StatusRequest = culvert_host::StatusRequest<Status>;

/// Asks the gateway that answers at `path`.
///
/// # Errors
/// What is wrong, for people.
pub async fn ask_status(path: &Path) -> Result<Status, StatusError> {
    culvert_host::ask_status(path, "gateway", SCHEMA_VERSION).await
}

/// Who asks, and what [`run`](crate::run) needs to answer.
#[must_use]
pub fn observe() -> (Observer, Observed) {
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
    };
    (observer, observed)
}

/// Asks a gateway of this process.
#[derive(Clone, Debug)]
pub struct Observer {
    requests: mpsc::Sender<StatusRequest>,
    pulse: watch::Receiver<Pulse>,
}

/// How a gateway is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Clients may be sent to it.
    Ready,
    /// It works, but clients should not be sent to it, for this reason.
    NotReady(String),
    /// It has ended, or does nothing any more.
    Stuck,
}

impl Observer {
    /// How the gateway is, without waiting for it.
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

    /// Everything that the gateway tells of itself; nothing where it does not answer in time.
    pub async fn status(&self) -> Option<Status> {
        let (answer, answered) = oneshot::channel();
        let asked = async {
            self.requests.send(answer).await.ok()?;
            answered.await.ok()
        };
        tokio::time::timeout(ANSWER_LIMIT, asked).await.ok()?
    }
}

/// What a gateway saw of itself when it last looked.
#[derive(Debug)]
struct Pulse {
    at: Instant,
    not_ready: Option<String>,
}

/// The gateway's end.
#[derive(Debug)]
pub struct Observed {
    requests: mpsc::Sender<StatusRequest>,
    received: mpsc::Receiver<StatusRequest>,
    pulse: watch::Sender<Pulse>,
}

impl Observed {
    /// Answers at a Unix socket too.
    pub(crate) fn bind(&self, path: &Path) -> Result<StatusSocket, HostError> {
        StatusSocket::bind(path, SCHEMA_VERSION, self.requests.clone())
    }

    /// The next request.
    pub(crate) async fn next(&mut self) -> StatusRequest {
        match self.received.recv().await {
            Some(request) => request,
            // It has a sender of its own.
            None => std::future::pending().await,
        }
    }

    /// The gateway lives.
    pub(crate) fn beat(&self, not_ready: Option<String>) {
        self.pulse.send_replace(Pulse {
            at: Instant::now(),
            not_ready,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_gateway_is_ready_while_it_says_so_and_stuck_when_it_says_nothing_more() {
        let (observer, observed) = observe();
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
    async fn who_asks_a_gateway_that_does_not_answer_is_not_kept_waiting() {
        let (observer, mut observed) = observe();
        assert_eq!(observer.status().await, None);
        // The request is still there: whoever made it is gone.
        assert!(observed.next().await.is_closed());
        drop(observed);
        assert_eq!(observer.status().await, None);
    }
}
