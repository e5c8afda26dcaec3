//! From a request to a WebSocket (RFC 6455 §4.2).

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use culvert_wire::MAX_MESSAGE_LEN;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::fmt;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

/// The one version of the protocol (RFC 6455 §4.1).
const VERSION: &str = "13";

/// Bytes that a session reads at once: a message is some hundred long. The library's own default
/// would take 128 KiB for each session.
const READ_BUFFER_LEN: usize = 8 * 1024;

/// Bytes that are gathered before they are written: some messages of a list.
const WRITE_BUFFER_LEN: usize = 16 * 1024;

/// A session's socket.
pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A request that asks to become a WebSocket.
pub(super) struct Upgrade {
    accept: String,
    on_upgrade: OnUpgrade,
}

/// The reason for which a request can't become a WebSocket, with the lines that a proxy in front
/// needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoUpgrade(String);

impl fmt::Display for NoUpgrade {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(wrong) = self;
        write!(
            out,
            "a session is a WebSocket, but {wrong}. A reverse proxy in front of the portal must pass WebSockets on. \
             nginx: `proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection \
             upgrade;`. HAProxy and Caddy do by themselves, unless a line takes the headers away"
        )
    }
}

impl Upgrade {
    /// Takes the request apart.
    pub(super) fn of(request: &mut Request) -> Result<Self, NoUpgrade> {
        let accept = check(request).map_err(NoUpgrade)?;
        let on_upgrade = request.extensions_mut().remove();
        let on_upgrade =
            on_upgrade.ok_or_else(|| NoUpgrade("the connection can't become one".to_owned()))?;
        Ok(Self { accept, on_upgrade })
    }

    /// The answer that agrees to it, and what to wait for once it has been sent. A message of the peer has
    /// at most `max_len` bytes.
    pub(super) fn accept(self, max_len: usize) -> (Response, impl Future<Output = Option<Socket>>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::from_str(&self.accept) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        let response = (StatusCode::SWITCHING_PROTOCOLS, headers).into_response();
        let on_upgrade = self.on_upgrade;
        let socket = async move {
            let upgraded = TokioIo::new(on_upgrade.await.ok()?);
            let limits = WebSocketConfig::default()
                .read_buffer_size(READ_BUFFER_LEN)
                .write_buffer_size(WRITE_BUFFER_LEN)
                .max_write_buffer_size(WRITE_BUFFER_LEN + 2 * MAX_MESSAGE_LEN)
                .max_message_size(Some(max_len))
                .max_frame_size(Some(max_len));
            Some(WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(limits)).await)
        };
        (response, socket)
    }
}

/// The `Sec-WebSocket-Accept` for the request's key, or the reason why there is none.
fn check(request: &Request) -> Result<String, String> {
    let headers = request.headers();
    if request.version() < Version::HTTP_11 {
        return Err(format!("the request came by {:?}", request.version()));
    }
    if request.method() != Method::GET {
        return Err(format!("the method is {}", request.method()));
    }
    for (name, shown, word) in [
        (header::CONNECTION, "Connection", "upgrade"),
        (header::UPGRADE, "Upgrade", "websocket"),
        (
            header::SEC_WEBSOCKET_VERSION,
            "Sec-WebSocket-Version",
            VERSION,
        ),
    ] {
        if !has_word(headers, &name, word) {
            return Err(format!("it came without `{shown}: {word}`"));
        }
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let key = key.ok_or_else(|| "it came without `Sec-WebSocket-Key`".to_owned())?;
    Ok(derive_accept_key(key.as_bytes()))
}

/// True if the header's list has the word, whatever the case of its letters.
fn has_word(headers: &HeaderMap, name: &header::HeaderName, word: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| part.trim().eq_ignore_ascii_case(word))
}
