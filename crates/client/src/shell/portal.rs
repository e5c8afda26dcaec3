//! The connection to the portal: at most one attempt or one connection at a time.

use culvert_base::UnixTime;
use culvert_link::{Closed, ConnectError, Connected, Connection, Destination, Sender, connect};
use culvert_wire::encode;
use culvert_wire::messages::FromClient;
use tokio::task::{JoinError, JoinHandle};

/// The connection to the portal.
pub(super) struct Portal {
    destination: Destination,
    state: State,
}

enum State {
    Idle,
    Connecting(JoinHandle<Result<Connected, ConnectError>>),
    Open(Connection, Sender),
}

/// An event of the connection.
pub(super) enum PortalEvent {
    /// It is open; the portal's clock, where it told it.
    Opened(Option<UnixTime>),
    /// It did not come about.
    Failed(ConnectError),
    /// The portal said something.
    Text(String),
    /// It ended.
    Closed(Closed),
}

impl Portal {
    pub(super) const fn new(destination: Destination) -> Self {
        Self {
            destination,
            state: State::Idle,
        }
    }

    /// Begins an attempt.
    pub(super) fn connect(&mut self) {
        let destination = self.destination.clone();
        let attempt = tokio::spawn(async move { connect(&destination).await });
        self.state = State::Connecting(attempt);
    }

    /// Ends what there is; nothing more is heard of it.
    pub(super) fn disconnect(&mut self) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => {}
            State::Connecting(attempt) => attempt.abort(),
            State::Open(connection, sender) => {
                drop(sender);
                tokio::spawn(connection.close());
            }
        }
    }

    /// True if there is a connection from an address that this machine no longer has.
    pub(super) fn has_lost_its_address(&self) -> bool {
        matches!(&self.state, State::Open(connection, _) if !connection.has_its_address())
    }

    /// Says something; `false` where the portal does not keep up, or is gone.
    pub(super) fn say(&self, message: &FromClient) -> bool {
        match &self.state {
            State::Open(_, sender) => sender.try_send(encode(message)),
            State::Idle | State::Connecting(_) => false,
        }
    }

    /// The next event; it never comes without an attempt or a connection. May be dropped and called
    /// again without loss.
    pub(super) async fn next(&mut self) -> PortalEvent {
        match &mut self.state {
            State::Idle => std::future::pending().await,
            State::Connecting(attempt) => {
                let attempted = attempt.await;
                self.attempted(attempted)
            }
            State::Open(connection, _) => match connection.receive().await {
                Ok(text) => PortalEvent::Text(text),
                Err(closed) => {
                    self.state = State::Idle;
                    PortalEvent::Closed(closed)
                }
            },
        }
    }

    fn attempted(
        &mut self,
        attempted: Result<Result<Connected, ConnectError>, JoinError>,
    ) -> PortalEvent {
        self.state = State::Idle;
        match attempted {
            Ok(Ok(connected)) => {
                let sender = connected.connection.sender();
                self.state = State::Open(connected.connection, sender);
                PortalEvent::Opened(connected.portal_time)
            }
            Ok(Err(error)) => PortalEvent::Failed(error),
            Err(_panicked) => PortalEvent::Closed(Closed::Here),
        }
    }

    /// Ends in order: messages that are queued leave first.
    pub(super) async fn close(self) {
        match self.state {
            State::Idle => {}
            State::Connecting(attempt) => attempt.abort(),
            State::Open(connection, sender) => {
                drop(sender);
                connection.close().await;
            }
        }
    }
}
