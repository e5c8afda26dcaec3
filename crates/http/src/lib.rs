//! The HTTP client: requests of the portal to identity providers and log sinks, and of the program to a portal.
//!
//! [`ask`] sends one request over a connection of its own. It connects to the first address that answers (RFC 8305),
//! follows no redirection, and reads a bounded answer within a time limit. [`Connection`] is for callers that have a
//! stream already, such as [`culvert_link::open`] makes for a portal that is known by its pin.

#![forbid(unsafe_code)]

mod connect;
mod connection;
mod target;
mod tls;

pub use connect::DialError;
pub use connection::{Answer, BodyError, Connection, read_body};
pub use target::{Target, TargetError};
pub use tls::{client_config, system_roots};

use culvert_link::LookUp;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use rustls::ClientConfig;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;

/// The `User-Agent` of requests.
pub const USER_AGENT: &str = concat!("culvert/", env!("CARGO_PKG_VERSION"));

/// The way to servers.
#[derive(Clone)]
pub struct Network {
    /// Looks up the server's name.
    pub look_up: LookUp,
    /// The authorities for servers with TLS; none where there are none.
    pub tls: Option<Arc<ClientConfig>>,
}

/// The bounds of one request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From looking up the name to the end of the answer.
    pub time: Duration,
    /// Bytes of the answer's body.
    pub answer_bytes: usize,
}

/// The reason why a request has no answer.
#[derive(Debug, Error)]
pub enum HttpError {
    /// There is no connection to the server.
    #[error(transparent)]
    Connect(DialError),
    /// There is no TLS with the server.
    #[error(transparent)]
    Tls(DialError),
    /// The exchange failed.
    #[error(transparent)]
    Exchange(hyper::Error),
    /// The time limit has passed.
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
}

/// Sends one request to a server and reads the answer, whatever its status. The connection ends with it.
///
/// # Errors
/// [`HttpError`]. A body that breaks off or is too long is an error of [`Answer::body`] alone.
pub async fn ask(
    network: &Network,
    target: &Target,
    request: Request<Full<Bytes>>,
    limits: Limits,
) -> Result<Answer, HttpError> {
    let exchange = exchange(network, target, request, limits.answer_bytes);
    match timeout(limits.time, exchange).await {
        Ok(answer) => answer,
        Err(_elapsed) => Err(HttpError::Late(limits.time)),
    }
}

async fn exchange(
    network: &Network,
    target: &Target,
    request: Request<Full<Bytes>>,
    max_bytes: usize,
) -> Result<Answer, HttpError> {
    let tls = match (target.is_tls, &network.tls) {
        (false, _) => None,
        (true, Some(tls)) => Some(tls),
        (true, None) => return Err(HttpError::Tls(DialError::NoAuthorities)),
    };
    let stream = connect::connect(&target.host, target.port, network.look_up).await;
    let stream = stream.map_err(HttpError::Connect)?;
    let mut connection = match tls {
        Some(tls) => {
            let stream = tls::handshake(Arc::clone(tls), &target.host, stream).await;
            Connection::begin(stream.map_err(HttpError::Tls)?).await
        }
        None => Connection::begin(stream).await,
    }
    .map_err(HttpError::Exchange)?;
    let answer = connection.ask(request, max_bytes).await;
    answer.map_err(HttpError::Exchange)
}
