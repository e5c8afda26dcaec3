//! One request to the portal, and what it says.

use culvert_http::Connection;
use culvert_link::open;
use culvert_wire::token::Portal;
use http_body_util::Full;
use hyper::header::HOST;
use hyper::{Method, Request};
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
        let mut connection = Connection::begin(stream).await.ok()?;
        let authority = portal.url.trim_start_matches("https://");
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, authority);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::default()).ok()?;
        let answer = connection.ask(request, MAX_ANSWER_BYTES).await.ok()?;
        let status = answer.status.as_u16();
        let bytes = answer.body.map(|body| body.to_vec());
        let text = String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default();
        Some(Said { status, text })
    };
    timeout(LIMIT, asked).await.ok().flatten()
}
