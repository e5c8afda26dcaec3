//! Ctrl-C while something is under way that must not stop half done.

use crate::exit::{Failure, Status};
use std::future::Future;
use tokio::signal::unix::{SignalKind, signal};

/// Waits for what the portal answers. A signal ends that, and then the caller, who tidies up: from here
/// on SIGINT and SIGTERM no longer end the process at once.
/// `unknown` is what nobody knows then, and how to find it out.
pub(super) async fn uninterrupted<T, E>(
    work: impl Future<Output = Result<T, E>>,
    unknown: &str,
) -> Result<T, Failure>
where
    Failure: From<E>,
{
    let watch = |kind| signal(kind).map_err(|error| Failure::io("watching for signals", &error));
    let mut interrupt = watch(SignalKind::interrupt())?;
    let mut terminate = watch(SignalKind::terminate())?;
    let interrupted = || Failure::new(Status::Failed, format_args!("interrupted; {unknown}"));
    tokio::select! {
        done = work => Ok(done?),
        _ = interrupt.recv() => Err(interrupted()),
        _ = terminate.recv() => Err(interrupted()),
    }
}
