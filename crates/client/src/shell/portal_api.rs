//! Requests to the portal's API that need no credential: JSON over HTTP/1.1, one at a time.

use culvert_client_core::{SignInFailure, SignInFault};
use culvert_http::{Answer, Connection, USER_AGENT};
use culvert_link::{ConnectError, Way};
use culvert_wire::api::{PREFIX, Problem};
use culvert_wire::token::Portal;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use zeroize::Zeroizing;

/// The time limit for an answer, after the connection: a portal answers within milliseconds, and within a second under
/// load.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The longest answer, in bytes: a token of 4,096, or two URLs of 2,100 and codes; 16 times as much.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// A connection that was idle for longer is not used again: the portal ends it after 15 s.
const IDLE_LIMIT: Duration = Duration::from_secs(5);

/// A portal's API.
#[derive(Debug)]
pub(super) struct PortalApi {
    portal: Portal,
    way: Way,
    /// The connection of the last request, and when that ended.
    retained: Option<(Connection, Instant)>,
}

impl PortalApi {
    pub(super) const fn new(portal: Portal, way: Way) -> Self {
        Self {
            portal,
            way,
            retained: None,
        }
    }

    pub(super) const fn portal(&self) -> &Portal {
        &self.portal
    }

    /// Posts `body` to a path below [`PREFIX`], and reads the answer.
    pub(super) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, SignInFault> {
        let body = serde_json::to_vec(body).map_err(|error| self.not_a_portal(&error))?;
        let body = Zeroizing::new(body);
        // The portal may close a connection that was retained just as it is used.
        let retained = self.kept_connection().await;
        let answer = match retained {
            Some(connection) => self.exchange(connection, path, &body).await.ok(),
            None => None,
        };
        let answer = match answer {
            Some(answer) => answer,
            None => {
                let connection = self.connect().await?;
                self.exchange(connection, path, &body).await?
            }
        };
        self.read(answer)
    }

    async fn kept_connection(&mut self) -> Option<Connection> {
        let (mut connection, last_used) = self.retained.take()?;
        (last_used.elapsed() < IDLE_LIMIT && connection.is_open().await).then_some(connection)
    }

    async fn connect(&self) -> Result<Connection, SignInFault> {
        let stream = culvert_link::open_by(&self.portal, &self.way)
            .await
            .map_err(|error| SignInFault {
                code: failure(&error),
                text: error.to_string(),
            })?;
        let begun = Connection::begin(stream).await;
        begun.map_err(|error| self.unreachable(&error))
    }

    async fn exchange(
        &mut self,
        mut connection: Connection,
        path: &str,
        body: &[u8],
    ) -> Result<Answer, SignInFault> {
        let authority = self.portal.url.trim_start_matches("https://");
        let request = Request::post(format!("{PREFIX}{path}"))
            .header(header::HOST, authority)
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::copy_from_slice(body)))
            .map_err(|error| self.not_a_portal(&error))?;
        match timeout(ANSWER_LIMIT, connection.ask(request, MAX_ANSWER_BYTES)).await {
            Ok(Ok(answer)) => {
                // The rest of an answer that was not read is still to come.
                if answer.body.is_ok() {
                    self.retained = Some((connection, Instant::now()));
                }
                Ok(answer)
            }
            Ok(Err(error)) => Err(self.unreachable(&error)),
            Err(_elapsed) => {
                let limit = format!("it took longer than {} s", ANSWER_LIMIT.as_secs());
                Err(self.unreachable(&limit))
            }
        }
    }

    fn read<T: DeserializeOwned>(&self, answer: Answer) -> Result<T, SignInFault> {
        let status = answer.status;
        let body = answer.body.map_err(|error| match error {
            culvert_http::BodyError::TooLong => self.not_a_portal(&"an answer that is too long"),
            error => self.unreachable(&error),
        })?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|_| {
                // The error of the parser would show a part of the answer, which may hold a token.
                self.not_a_portal(&"an answer of another form")
            });
        }
        let url = &self.portal.url;
        let problem = serde_json::from_slice::<Problem>(&body).ok();
        let said = problem.map_or_else(
            || format!("HTTP {}", status.as_u16()),
            |problem| problem.detail.unwrap_or(problem.title),
        );
        let (code, text) = match status {
            StatusCode::NOT_FOUND => (
                SignInFailure::NotAPortal,
                format!("{url} knows no sign-in with a browser ({said}): check the address"),
            ),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => (
                SignInFailure::Busy,
                format!("{url} is busy: {said}; sign in again in a minute"),
            ),
            status if status.is_server_error() => (
                SignInFailure::Unreachable,
                format!("{url} does not work at the moment: {said}; sign in again in a minute"),
            ),
            _ => (
                SignInFailure::Refused,
                format!("{url} refuses the sign-in: {said}"),
            ),
        };
        Err(SignInFault { code, text })
    }

    fn unreachable(&self, why: &dyn std::fmt::Display) -> SignInFault {
        SignInFault {
            code: SignInFailure::Unreachable,
            text: format!("no answer of {}: {why}; try again", self.portal.url),
        }
    }

    fn not_a_portal(&self, why: &dyn std::fmt::Display) -> SignInFault {
        SignInFault {
            code: SignInFailure::NotAPortal,
            text: format!(
                "{} does not answer as a portal does: {why}; check the address",
                self.portal.url
            ),
        }
    }
}

const fn failure(error: &ConnectError) -> SignInFailure {
    match error {
        ConnectError::WrongCertificate { .. }
        | ConnectError::CertificateDates { .. }
        | ConnectError::NoAuthorities
        | ConnectError::Tls { .. } => SignInFailure::Certificate,
        ConnectError::Url { .. } | ConnectError::NoPortal { .. } => SignInFailure::NotAPortal,
        _ => SignInFailure::Unreachable,
    }
}
