//! Requests to the portal's API: one connection at a time, made anew where it has been idle.

use crate::exit::{Failure, Status};
use culvert_http::{Answer, Connection, USER_AGENT, read_body};
use culvert_link::ConnectError;
use culvert_wire::api::Problem;
use culvert_wire::token::{Bearer, Portal};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request};
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Time limit for an answer. A portal under load writes a configuration of its largest size, 4 MiB,
/// within seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Most bytes of an answer. The largest is the report of a configuration of 20,000 things (`MAX_APPLY_BYTES`
/// of the portal), each with all of its fields at some 500 bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// A connection that has been idle for longer is not used again: the portal ends it after 15 s, perhaps
/// just when it is used.
const IDLE_LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of repeats of a request that the portal refused by its rate limit. It allows 50 a
/// second, so it asks to wait for one second; ten are enough beside several other scripts.
const MAX_REPEATS: usize = 10;

/// The longest wait that a portal may ask for before a request is sent again; longer ones are an error.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The portal's API.
pub(crate) struct Http {
    portal: Portal,
    bearer: Bearer,
    /// The connection of the request before, and when that ended.
    connection: Option<(Connection, Instant)>,
}

/// A request that the API did not do.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The portal said why.
    Problem(Box<Problem>),
    /// It could not be asked, or its answer is not one of a portal.
    Failure(Failure),
}

/// A request.
#[derive(Clone)]
pub(crate) struct Ask<'a> {
    pub(crate) method: Method,
    /// Path and query, as they are sent.
    pub(crate) path: &'a str,
    /// The version that is to be changed.
    pub(crate) if_match: Option<u64>,
    /// JSON.
    pub(crate) body: Option<Vec<u8>>,
}

impl<'a> Ask<'a> {
    pub(super) const fn get(path: &'a str) -> Self {
        Self {
            method: Method::GET,
            path,
            if_match: None,
            body: None,
        }
    }
}

impl Http {
    pub(super) const fn new(portal: Portal, bearer: Bearer) -> Self {
        Self {
            portal,
            bearer,
            connection: None,
        }
    }

    /// The portal that is asked.
    pub(super) const fn portal(&self) -> &Portal {
        &self.portal
    }

    /// Asks, and reads the answer. A request that the portal refused for coming too soon is repeated.
    pub(crate) async fn send<T: DeserializeOwned>(
        &mut self,
        ask: &Ask<'_>,
    ) -> Result<T, RequestError> {
        let answer = self.answer(ask).await?;
        // An answer without content stands for `()`.
        let text: &[u8] = if answer.is_empty() { b"null" } else { &answer };
        serde_json::from_slice(text).map_err(|error| {
            let message = format!(
                "{} answers {} {} otherwise than this version of culvert expects: {error}; use the \
                 version that the portal has",
                self.portal.url, ask.method, ask.path
            );
            RequestError::Failure(Failure::new(Status::Failed, message))
        })
    }

    async fn answer(&mut self, ask: &Ask<'_>) -> Result<Zeroizing<Vec<u8>>, RequestError> {
        let mut repeats = 0;
        loop {
            let (status, retry_after, body) = self.exchange(ask).await?;
            if (200..300).contains(&status) {
                return Ok(body);
            }
            match retry_after {
                Some(wait) if status == 429 && repeats < MAX_REPEATS && wait <= MAX_WAIT => {
                    repeats += 1;
                    tokio::time::sleep(wait).await;
                }
                _ => return Err(self.refusal(status, &body)),
            }
        }
    }

    /// Asks, and hands over the answer as it comes, until `take` has enough. An answer that ends
    /// early, for whatever reason, is an error.
    pub(super) async fn stream(
        &mut self,
        ask: &Ask<'_>,
        mut take: impl FnMut(&[u8]) -> Result<bool, Failure>,
    ) -> Result<(), RequestError> {
        let request = self.request(ask)?;
        let mut connection = self.connect().await?;
        let response = self.in_time(ask, connection.begin_answer(request)).await?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        if !(200..300).contains(&status) {
            let body = self.in_time(ask, read_body(body, MAX_ANSWER_BYTES)).await?;
            return Err(self.refusal(status, &body));
        }
        loop {
            let frame = async { body.frame().await.transpose() };
            let Some(frame) = self.in_time(ask, frame).await? else {
                return Ok(());
            };
            if let Some(part) = frame.data_ref()
                && !take(part)?
            {
                return Ok(());
            }
        }
    }

    /// The answer of the portal, or an error if it takes too long.
    async fn in_time<T, E: std::fmt::Display>(
        &self,
        ask: &Ask<'_>,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Failure> {
        let url = &self.portal.url;
        let ended = |reason: &dyn std::fmt::Display| {
            // A request that only reads is safe to repeat.
            let fix = match ask.method {
                Method::GET => "try again",
                _ => {
                    "whether it was done is unknown: see `culvert admin log changes`, then try again"
                }
            };
            Failure::new(
                Status::PortalUnreachable,
                format_args!("no answer of {url}: {reason}; {fix}"),
            )
        };
        match tokio::time::timeout(ANSWER_LIMIT, answer).await {
            Ok(answer) => answer.map_err(|error| ended(&error)),
            Err(_elapsed) => {
                let limit = format!("it took longer than {} s", ANSWER_LIMIT.as_secs());
                Err(ended(&limit))
            }
        }
    }

    async fn exchange(
        &mut self,
        ask: &Ask<'_>,
    ) -> Result<(u16, Option<Duration>, Zeroizing<Vec<u8>>), Failure> {
        let request = self.request(ask)?;
        let mut connection = self.connect().await?;
        let exchange = async {
            let answer = connection.ask(request, MAX_ANSWER_BYTES).await;
            let Answer {
                status,
                headers,
                body,
            } = answer.map_err(|error| error.to_string())?;
            let body = body.map_err(|error| error.to_string())?;
            Ok::<_, String>((status.as_u16(), retry_after(&headers), body))
        };
        let exchanged = self.in_time(ask, exchange).await?;
        self.connection = Some((connection, Instant::now()));
        Ok(exchanged)
    }

    /// The connection of the request before, or a new one.
    async fn connect(&mut self) -> Result<Connection, Failure> {
        if let Some((mut connection, last_used)) = self.connection.take()
            && last_used.elapsed() < IDLE_LIMIT
            && connection.is_open().await
        {
            return Ok(connection);
        }
        let stream = culvert_link::open(&self.portal)
            .await
            .map_err(unreachable)?;
        Connection::begin(stream).await.map_err(|error| {
            let url = &self.portal.url;
            Failure::new(Status::PortalUnreachable, format_args!("{url}: {error}"))
        })
    }

    fn request(&self, ask: &Ask<'_>) -> Result<Request<Full<Bytes>>, Failure> {
        let impossible =
            |error: hyper::http::Error| Failure::new(Status::Failed, format_args!("{error}"));
        let authority = self.portal.url.trim_start_matches("https://");
        let bearer = self.bearer.expose();
        let bearer = Zeroizing::new(format!("Bearer {}", *bearer));
        let mut authorization =
            HeaderValue::from_str(&bearer).map_err(|error| impossible(error.into()))?;
        authorization.set_sensitive(true);
        let mut request = Request::builder()
            .method(&ask.method)
            .uri(ask.path)
            .header(header::HOST, authority)
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::AUTHORIZATION, authorization);
        if let Some(version) = ask.if_match {
            request = request.header(header::IF_MATCH, format!("\"{version}\""));
        }
        if ask.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = Bytes::from(ask.body.clone().unwrap_or_default());
        request.body(Full::new(body)).map_err(impossible)
    }

    fn refusal(&self, status: u16, body: &[u8]) -> RequestError {
        match serde_json::from_slice::<Problem>(body) {
            Ok(problem) => RequestError::Problem(Box::new(problem)),
            Err(_) => RequestError::Failure(Failure::new(
                Status::PortalUnreachable,
                format_args!(
                    "{} answers with HTTP {status} and not as a portal does; is it one, or a proxy \
                     in front of it?",
                    self.portal.url
                ),
            )),
        }
    }
}

/// RFC 9110 §10.2.3, in the form that the portal uses.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

fn unreachable(error: ConnectError) -> Failure {
    let status = match error {
        ConnectError::Url { .. } => Status::Usage,
        ConnectError::Local { .. } | ConnectError::NoAuthorities => Status::Failed,
        _ => Status::PortalUnreachable,
    };
    Failure::new(status, error)
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<RequestError> for Failure {
    fn from(refusal: RequestError) -> Self {
        let problem = match refusal {
            RequestError::Failure(failure) => return failure,
            RequestError::Problem(problem) => problem,
        };
        let detail = problem.detail.unwrap_or(problem.title);
        match problem.status {
            401 => Self::new(
                Status::NotEnrolled,
                "the portal does not accept the token: it is unknown, expired or revoked, or its \
                 owner is disabled; get another one and keep it by `culvert admin login \
                 --token-file -`",
            ),
            403 => Self::new(Status::Denied, detail),
            500.. => {
                let id = problem.request_id.unwrap_or_default();
                Self::new(Status::Failed, format_args!("{detail} (request {id})"))
            }
            _ => Self::new(Status::Failed, detail),
        }
    }
}
