//! The bodies of requests: whole, within bounds and in time.

use crate::Fault;
use axum::body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::time::Duration;

/// Most bytes of a request's body.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// Most bytes of a whole configuration: 10,000 resources and as many policies of 200 bytes each.
const MAX_APPLY_BYTES: usize = 4 * 1024 * 1024;

/// The one path whose body may have [`MAX_APPLY_BYTES`].
const APPLY_PATH: &str = "/api/v1/apply";

/// The time limit for a body: 4 MiB at 150 kB/s.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Most bytes of a body for the path.
#[must_use]
pub fn limit_for(path: &str) -> usize {
    match path {
        APPLY_PATH => MAX_APPLY_BYTES,
        _ => MAX_BODY_BYTES,
    }
}

/// Reads a whole body.
///
/// # Errors
/// [`Fault::TooLarge`] beyond `limit` bytes, [`Fault::Malformed`] where it breaks off or takes too long.
pub async fn read_body(body: Body, limit: usize) -> Result<Vec<u8>, Fault> {
    let collected = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, limit).collect()).await;
    match collected {
        Ok(Ok(whole)) => Ok(whole.to_bytes().into()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Fault::TooLarge { limit }),
        Ok(Err(_)) => Err(Fault::Malformed("the body ended before its end".to_owned())),
        Err(_) => Err(Fault::Malformed("the body took too long".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body whose chunks come one after another, each after a pause.
    fn trickle(pause: Duration, chunk: &'static str, count: usize) -> Body {
        let chunks = futures_util::stream::unfold(0, move |sent| async move {
            tokio::time::sleep(pause).await;
            let chunk = Ok::<_, std::io::Error>(chunk);
            (sent < count).then_some((chunk, sent + 1))
        });
        Body::from_stream(chunks)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_comes_slowly_is_read_for_thirty_seconds_and_no_longer() {
        let second = Duration::from_secs(1);
        let in_time = read_body(trickle(second, "a", 20), 100).await;
        assert_eq!(in_time.unwrap().len(), 20);
        let began = tokio::time::Instant::now();
        let late = read_body(trickle(second, "a", usize::MAX), usize::MAX).await;
        assert!(matches!(late, Err(Fault::Malformed(_))), "{late:?}");
        assert_eq!(began.elapsed(), Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_without_end_is_read_up_to_the_limit() {
        let endless = trickle(Duration::ZERO, "0123456789", usize::MAX);
        let refused = read_body(endless, 100).await;
        assert_eq!(refused, Err(Fault::TooLarge { limit: 100 }));
    }
}
