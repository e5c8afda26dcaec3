//! One session: hello, and then what both sides say, until one of them is silent or gone.

use super::hello::{Hello, Refused};
use super::hub_access::HubAccess;
use super::hub_actor::{Ending, Incoming, Joined, Outgoing};
use super::shared::Shared;
use super::upgrade::Socket;
use super::visitor::{Side, Visitor};
use culvert_base::{TokenBucket, TokenRate, Uptime};
use culvert_wire::messages::{
    FromClient, FromGateway, FromRelay, ReasonCode, Sequenced, ToClient, ToGateway, ToRelay,
};
use culvert_wire::{DecodeError, Decoded, decode, encode};
use futures_util::{SinkExt, StreamExt};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

/// The time within which a machine must say hello.
const HELLO_WAIT: Duration = Duration::from_secs(10);

/// The time within which the portal must answer it; a machine waits 10 s (docs/access.md).
const WELCOME_WAIT: Duration = Duration::from_secs(8);

/// The interval of pings to a machine, and the silence after which it is given up (docs/access.md).
const PING_EVERY: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(12);

/// The time limit for the closing handshake of a WebSocket (RFC 6455 §7.1.2).
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Messages that are written before the socket is flushed.
const MESSAGES_AT_ONCE: usize = 64;

/// Messages per second that a machine may send for long, and at once. Clients ask; gateways answer
/// for thousands of them. Machines that send more are read more slowly.
const CLIENT_RATE_PER_S: u32 = 100;
const CLIENT_BURST: u32 = 1_000;
const GATEWAY_RATE_PER_S: u32 = 5_000;
const GATEWAY_BURST: u32 = 20_000;

/// Serves a session from its first message to its last.
pub(super) async fn serve(shared: &Shared, visitor: Visitor, socket: Socket) {
    let mut connection = Connection::new(socket, visitor.side);
    match begin(shared, &visitor, &mut connection).await {
        Ok((joined, hub)) => connection.serve(&hub, joined).await,
        Err(None) => {}
        Err(Some(refused)) => {
            let reason = &refused.reason;
            tracing::info!(
                side = ?visitor.side,
                from = %visitor.from,
                code = ?reason.code,
                text = reason.text,
                "a session was refused"
            );
            connection.refuse(refused).await;
        }
    }
}

/// Tells a client that its owner is disabled, and ends. A status of HTTP would end clients of earlier versions for
/// good; they obey the time of a refusal.
pub(super) async fn turn_away(from: IpAddr, socket: Socket) {
    tracing::debug!(%from, "a client is refused: its owner is disabled");
    let mut connection = Connection::new(socket, Side::Client);
    connection.refuse(Refused::owner_disabled()).await;
}

/// Hears the hello and joins; nobody is to be told where the machine is gone.
async fn begin(
    shared: &Shared,
    visitor: &Visitor,
    connection: &mut Connection,
) -> Result<(Joined, HubAccess), Option<Refused>> {
    let hello = timeout(HELLO_WAIT, connection.hello())
        .await
        .map_err(|_| Refused::later(1, "no hello came in time"))??;
    let joined = timeout(WELCOME_WAIT, shared.admit(visitor, hello))
        .await
        .map_err(|_| Refused::later(1, "the portal is too busy"))??;
    Ok(joined)
}

struct Connection {
    socket: Socket,
    side: Side,
    /// The time at which the machine was last heard of.
    heard: Instant,
    rate: Rate,
}

impl Connection {
    fn new(socket: Socket, side: Side) -> Self {
        Self {
            socket,
            side,
            heard: Instant::now(),
            rate: Rate::of(side),
        }
    }

    async fn hello(&mut self) -> Result<Hello, Option<Refused>> {
        loop {
            let frame = self.socket.next().await.ok_or(None)?;
            let text = match frame.map_err(|error| too_long(&error))? {
                Message::Text(text) => text,
                Message::Ping(_) | Message::Pong(_) => continue,
                Message::Close(_) => return Err(None),
                Message::Binary(_) | Message::Frame(_) => {
                    return Err(Some(Refused::protocol("messages are text")));
                }
            };
            return match self.decode(&text) {
                Ok(Incoming::Client(hello @ FromClient::Hello { .. })) => Ok(Hello::Client(hello)),
                Ok(Incoming::Gateway(hello @ FromGateway::Hello { .. })) => {
                    Ok(Hello::Gateway(hello))
                }
                Ok(Incoming::Relay(hello @ FromRelay::Hello { .. })) => Ok(Hello::Relay(hello)),
                Ok(_) => Err(Some(Refused::not_hello())),
                Err(error) => Err(Some(Refused::protocol(error.to_string()))),
            };
        }
    }

    fn decode(&self, text: &str) -> Result<Incoming, DecodeError> {
        match self.side {
            Side::Client => known(decode(text)?, Incoming::Client),
            Side::Gateway => known(decode(text)?, Incoming::Gateway),
            Side::Relay => known(decode(text)?, Incoming::Relay),
        }
    }

    async fn serve(mut self, hub: &HubAccess, mut joined: Joined) {
        let mut ping = interval(PING_EVERY);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let went_on = tokio::select! {
                frame = self.socket.next() => match frame {
                    Some(Ok(frame)) => self.hear(hub, &joined, frame).await,
                    Some(Err(error)) => Err(self.fail(&error).await),
                    None => Err(Ending::Left),
                },
                message = joined.outgoing.recv() => match message {
                    Some(message) => self.write(message, &mut joined).await,
                    None => Err(Ending::Left),
                },
                _ = ping.tick() => self.ping().await,
                () = sleep_until(self.heard + SILENCE) => Err(Ending::Left),
                _ = &mut joined.cut => Err(Ending::Left),
            };
            if let Err(how) = went_on {
                joined.end(how);
                return;
            }
        }
    }

    /// Takes a frame, or says how the session has ended.
    async fn hear(
        &mut self,
        hub: &HubAccess,
        joined: &Joined,
        frame: Message,
    ) -> Result<(), Ending> {
        self.heard = Instant::now();
        let text = match frame {
            Message::Text(text) => text,
            // The library has answered a ping already.
            Message::Ping(_) | Message::Pong(_) => return Ok(()),
            Message::Close(_) => return Err(Ending::Left),
            Message::Binary(_) | Message::Frame(_) => {
                self.close(CloseCode::Unsupported, "messages are text")
                    .await;
                return Err(Ending::Left);
            }
        };
        self.rate.pay().await;
        match self.decode(&text) {
            Ok(message) => match hub.say(joined.session, message, &text).await {
                true => Ok(()),
                false => Err(Ending::Left),
            },
            Err(error) => {
                tracing::warn!(side = ?self.side, %error, "a machine breaks the protocol");
                self.close(CloseCode::Invalid, &error.to_string()).await;
                Err(Ending::Left)
            }
        }
    }

    /// Writes the message and some of those behind it, or says how the session has ended.
    async fn write(&mut self, message: Outgoing, joined: &mut Joined) -> Result<(), Ending> {
        let mut next = Some(message);
        let mut written = 0;
        while let Some(message) = next {
            let text = match message {
                Outgoing::Client(message) => encode(&message),
                Outgoing::Gateway(message) => encode(&message),
                Outgoing::Relay(message) => encode(&message),
                Outgoing::Text(text) => text,
                Outgoing::Close(reason) => {
                    let code = match reason {
                        ReasonCode::TryLater => CloseCode::Restart,
                        _ => CloseCode::Policy,
                    };
                    self.close(code, "").await;
                    return Err(Ending::Left);
                }
            };
            if !in_time(self.socket.feed(Message::text(text))).await {
                return Err(Ending::Broken);
            }
            written += 1;
            next = match written < MESSAGES_AT_ONCE {
                true => joined.outgoing.try_recv().ok(),
                false => None,
            };
        }
        match in_time(self.socket.flush()).await {
            true => Ok(()),
            false => Err(Ending::Broken),
        }
    }

    async fn ping(&mut self) -> Result<(), Ending> {
        match self.send(Message::Ping(Vec::new().into())).await {
            true => Ok(()),
            false => Err(Ending::Broken),
        }
    }

    async fn send(&mut self, message: Message) -> bool {
        in_time(self.socket.send(message)).await
    }

    async fn fail(&mut self, error: &Error) -> Ending {
        if too_long(error).is_some() {
            self.close(CloseCode::Size, "the message is too long").await;
            return Ending::Left;
        }
        Ending::Broken
    }

    async fn refuse(&mut self, refused: Refused) {
        let Refused {
            reason,
            retry_after_s,
        } = refused;
        let text = match self.side {
            Side::Client => first(ToClient::Refused {
                reason,
                retry_after_s,
            }),
            Side::Gateway => first(ToGateway::Refused {
                reason,
                retry_after_s,
            }),
            Side::Relay => first(ToRelay::Refused {
                reason,
                retry_after_s,
            }),
        };
        if self.send(Message::text(text)).await {
            self.close(CloseCode::Policy, "").await;
        }
    }

    /// Says goodbye and waits a little for the answer, so that what was sent before is read.
    async fn close(&mut self, code: CloseCode, reason: &str) {
        // A control frame has 125 bytes, two of them the code (RFC 6455 §5.5).
        let reason: String = reason.chars().filter(char::is_ascii).take(123).collect();
        let frame = CloseFrame {
            code,
            reason: Utf8Bytes::from(reason),
        };
        let close = async {
            if self.socket.close(Some(frame)).await.is_ok() {
                while let Some(Ok(_)) = self.socket.next().await {}
            }
        };
        // A peer that does not answer is gone anyway.
        let _ = timeout(CLOSE_TIMEOUT, close).await;
    }
}

fn known<M>(
    decoded: Decoded<M>,
    incoming: impl FnOnce(M) -> Incoming,
) -> Result<Incoming, DecodeError> {
    Ok(match decoded {
        Decoded::Known(message) => incoming(message),
        Decoded::Unknown { kind } => Incoming::Unknown(kind),
    })
}

/// A message of a session that the hub does not know, and therefore its only one.
fn first<M>(message: M) -> String
where
    Sequenced<M>: culvert_wire::Message,
{
    let (epoch, seq) = (0, 1);
    encode(&Sequenced {
        epoch,
        seq,
        message,
    })
}

/// A message that is too long is the machine's fault, and it is told; what else ends a connection
/// leaves nobody to tell.
fn too_long(error: &Error) -> Option<Refused> {
    matches!(error, Error::Capacity(_)).then(|| Refused::protocol("the message is too long"))
}

/// True if it was written before the machine would be given up.
pub(super) async fn in_time(written: impl Future<Output = Result<(), Error>>) -> bool {
    matches!(timeout(SILENCE, written).await, Ok(Ok(())))
}

/// The messages that a machine may still send at once.
struct Rate {
    rate: TokenRate,
    tokens: TokenBucket,
    start: Instant,
}

impl Rate {
    fn of(side: Side) -> Self {
        let (rate_per_s, burst) = match side {
            // A relay says little more than its load.
            Side::Client | Side::Relay => (CLIENT_RATE_PER_S, CLIENT_BURST),
            Side::Gateway => (GATEWAY_RATE_PER_S, GATEWAY_BURST),
        };
        Self {
            rate: TokenRate::per_second(rate_per_s, burst),
            tokens: TokenBucket::FULL,
            start: Instant::now(),
        }
    }

    async fn pay(&mut self) {
        let wait = self
            .tokens
            .take_ahead(self.rate, Uptime::after(self.start.elapsed()));
        if !wait.is_zero() {
            sleep(wait).await;
        }
    }
}
