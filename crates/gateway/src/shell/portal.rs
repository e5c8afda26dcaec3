//! The connection to the portal: at most one attempt or one connection at a time.

use crate::settings::Settings;
use culvert_base::{BootTime, UnixTime};
use culvert_control::Repeats;
use culvert_link::{Closed, ConnectError, Connected, Connection, Destination, connect};
use culvert_wire::messages::FromGateway;
use culvert_wire::{GATEWAY_SESSION_PATH, encode};
use tokio::task::{JoinError, JoinHandle};

/// The connection to the portal.
pub(super) struct Portal {
    destination: Destination,
    state: State,
    /// True if there was ever a connection.
    has_connected: bool,
    /// Troubles that were logged.
    repeats: Repeats,
}

enum State {
    Idle,
    Connecting(JoinHandle<Result<Connected, ConnectError>>),
    Open(Connection),
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
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            destination: Destination {
                portal: settings.enrolment.portal.clone(),
                path: GATEWAY_SESSION_PATH,
                bearer: settings.enrolment.bearer.clone(),
                mark: Some(settings.routing.mark.get()),
                look_up: |host, port| Box::pin(culvert_host::look_up(host, port)),
                addresses: None,
            },
            state: State::Idle,
            has_connected: false,
            repeats: Repeats::default(),
        }
    }

    /// True if there was ever a connection.
    pub(super) const fn has_connected(&self) -> bool {
        self.has_connected
    }

    /// Begins an attempt.
    pub(super) fn connect(&mut self) {
        let destination = self.destination.clone();
        let attempt = tokio::spawn(async move { connect(&destination).await });
        self.state = State::Connecting(attempt);
    }

    /// Ends the connection in order: messages that are queued leave first. An attempt goes on.
    pub(super) async fn disconnect(&mut self) {
        if let Some(connection) = self.take_connection_if(|_| true) {
            connection.close().await;
        }
    }

    /// Drops the connection if its address is one that this machine no longer has; true if so.
    pub(super) fn drop_if_address_is_lost(&mut self) -> bool {
        self.take_connection_if(|connection| !connection.has_its_address())
            .is_some()
    }

    /// Says something. If the connection has ended, the next event tells it.
    pub(super) async fn say(&self, message: &FromGateway) {
        if let State::Open(connection) = &self.state {
            let _ended = connection.sender().send(encode(message)).await;
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
            State::Open(connection) => match connection.receive().await {
                Ok(text) => PortalEvent::Text(text),
                Err(closed) => {
                    self.state = State::Idle;
                    PortalEvent::Closed(closed)
                }
            },
        }
    }

    /// Logs a trouble with the portal; the same again once a minute.
    pub(super) fn warn(&mut self, what: &str, why: &str, now: BootTime) {
        let portal = &self.destination.portal.url;
        match self.repeats.count(why, now) {
            None => {}
            Some(0) => tracing::warn!(portal, why, "{what}"),
            Some(repeated) => tracing::warn!(portal, why, repeated, "{what}"),
        }
    }

    fn attempted(
        &mut self,
        attempted: Result<Result<Connected, ConnectError>, JoinError>,
    ) -> PortalEvent {
        self.state = State::Idle;
        match attempted {
            Ok(Ok(connected)) => {
                self.state = State::Open(connected.connection);
                self.has_connected = true;
                PortalEvent::Opened(connected.portal_time)
            }
            Ok(Err(error)) => PortalEvent::Failed(error),
            Err(error) => PortalEvent::Failed(ConnectError::Local {
                what: "run an attempt to connect",
                source: std::io::Error::other(error),
            }),
        }
    }

    fn take_connection_if(&mut self, wanted: impl Fn(&Connection) -> bool) -> Option<Connection> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Open(connection) if wanted(&connection) => Some(connection),
            other => {
                self.state = other;
                None
            }
        }
    }
}
