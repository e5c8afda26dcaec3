//! From a request to a WebSocket (RFC 6455 §4.2).

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use culvert_wire::MAX_MESSAGE_LEN;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
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

impl Upgrade {
    /// Takes the request apart; none where it asks for something else.
    pub(super) fn of(mut request: Request) -> Option<Self> {
        let headers = request.headers();
        let is_asked = request.method() == Method::GET
            && has_word(headers, &header::CONNECTION, "upgrade")
            && has_word(headers, &header::UPGRADE, "websocket")
            && has_word(headers, &header::SEC_WEBSOCKET_VERSION, VERSION);
        let key = headers
            .get(header::SEC_WEBSOCKET_KEY)
            .filter(|_| is_asked)?;
        let accept = derive_accept_key(key.as_bytes());
        let on_upgrade = request.extensions_mut().remove()?;
        Some(Self { accept, on_upgrade })
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

/// Whether the header's list has the word, whatever the case of its letters.
fn has_word(headers: &HeaderMap, name: &header::HeaderName, word: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| part.trim().eq_ignore_ascii_case(word))
}
