//! Faults as problem documents (RFC 9457).

use crate::Fault;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use culvert_wire::api::{FieldProblem, PROBLEM_MEDIA_TYPE, Problem, ProblemKind};

/// A problem on its way out: [`render`] writes it, once the request's id is known.
#[derive(Clone, Debug)]
struct Pending(Problem);

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let mut headers = HeaderMap::new();
        let problem = self.problem(&mut headers);
        let status =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, headers).into_response();
        response.extensions_mut().insert(Pending(problem));
        response
    }
}

impl Fault {
    fn problem(self, headers: &mut HeaderMap) -> Problem {
        let with = |kind, detail: String| Problem {
            detail: Some(detail),
            ..Problem::new(kind)
        };
        match self {
            Self::Malformed(detail) => with(ProblemKind::Malformed, detail),
            Self::Invalid(errors) => Problem {
                detail: Some(in_one_line(&errors)),
                errors,
                ..Problem::new(ProblemKind::Invalid)
            },
            Self::Unauthenticated => {
                headers.insert(
                    header::WWW_AUTHENTICATE,
                    HeaderValue::from_static("Bearer realm=\"culvert\""),
                );
                let detail = "send `Authorization: Bearer` with a token that is neither expired nor \
                              revoked";
                with(ProblemKind::Unauthenticated, detail.to_owned())
            }
            Self::Forbidden(detail) => with(ProblemKind::Forbidden, detail),
            Self::NotFound(detail) => with(ProblemKind::NotFound, detail),
            Self::MethodNotAllowed => Problem::new(ProblemKind::MethodNotAllowed),
            Self::Conflict(detail) | Self::InUse { detail, .. } => {
                with(ProblemKind::Conflict, detail)
            }
            Self::VersionConflict { current } => Problem {
                current_version: Some(current),
                ..with(
                    ProblemKind::VersionConflict,
                    format!("it is at version {current} now: read it again, then change it"),
                )
            },
            Self::VersionRequired => with(
                ProblemKind::VersionRequired,
                "send the `ETag` of what you have read as `If-Match`, or `If-Match: *` to change \
                 whatever is there"
                    .to_owned(),
            ),
            Self::TooLarge { limit } => with(
                ProblemKind::TooLarge,
                format!("a body has at most {limit} bytes here"),
            ),
            Self::AddressTooLong { limit } => with(
                ProblemKind::AddressTooLong,
                format!(
                    "path and query have at most {limit} bytes: ask with fewer or shorter words"
                ),
            ),
            Self::UnsupportedMediaType => with(
                ProblemKind::UnsupportedMediaType,
                "send `Content-Type: application/json`".to_owned(),
            ),
            Self::TooMany { wait } => {
                let wait_s = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                headers.insert(header::RETRY_AFTER, HeaderValue::from(wait_s));
                let detail = format!("try again in {wait_s} s");
                with(ProblemKind::TooMany, detail)
            }
            Self::Internal => with(
                ProblemKind::Internal,
                "the portal's log says why, under the id of this request".to_owned(),
            ),
            Self::Unavailable(detail) => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
                with(ProblemKind::Unavailable, detail)
            }
        }
    }
}

fn in_one_line(errors: &[FieldProblem]) -> String {
    let each = errors
        .iter()
        .map(|error| format!("{}: {}", error.field, error.detail));
    each.collect::<Vec<_>>().join("; ")
}

/// Writes the problem document of a response that is to have one: ours, and those of errors that
/// came about before a handler was reached.
#[must_use]
pub fn render(mut response: Response, request_id: &str) -> Response {
    let Some(Pending(mut problem)) = response.extensions_mut().remove::<Pending>() else {
        return response;
    };
    problem.request_id = Some(request_id.to_owned());
    // Strings and numbers; it has a JSON form.
    let text = serde_json::to_vec(&problem).unwrap_or_default();
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(PROBLEM_MEDIA_TYPE),
    );
    response.headers_mut().remove(header::CONTENT_LENGTH);
    *response.body_mut() = Body::from(text);
    response
}

/// Takes the pending problem out of a response, for callers that show it otherwise.
pub fn take_problem(response: &mut Response) -> Option<Problem> {
    let pending = response.extensions_mut().remove::<Pending>();
    pending.map(|Pending(problem)| problem)
}
