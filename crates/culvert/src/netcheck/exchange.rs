//! One request to the portal, and what it says.

use culvert_link::open;
use culvert_wire::token::Portal;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::time::timeout;

/// The time limit for an answer, the same as for every other step to the portal.
const LIMIT: Duration = Duration::from_secs(10);

/// Bytes of an answer that are looked at: a problem of the API has some hundred.
const MAX_ANSWER_BYTES: usize = 16 * 1024;

/// An answer of the portal, or of something in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) status: u16,
    /// Empty where it is too long, or no text.
    pub(super) text: String,
}

/// Asks the portal; none where no answer comes.
pub(super) async fn ask(
    portal: &Portal,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> Option<Said> {
    let asked = async {
        let stream = open(portal).await.ok()?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        let connection = tokio::spawn(connection);
        let authority = portal.url.trim_start_matches("https://");
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, authority);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Empty::<Bytes>::new()).ok()?;
        let response = sender.send_request(request).await.ok()?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect();
        let bytes = body.await.map(|body| Vec::from(body.to_bytes()));
        connection.abort();
        let text = String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default();
        Some(Said { status, text })
    };
    timeout(LIMIT, asked).await.ok().flatten()
}
