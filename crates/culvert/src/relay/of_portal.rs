//! The relay beside a portal: its token is the first line of standard input, and it ends at the end of that.

use crate::exit::Failure;
use crate::token_source::Found;
use std::future::Future;
use std::io::{BufRead, Read};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

/// Says to the process that it is one.
pub(crate) const OF_PORTAL_VARIABLE: &str = "CULVERT_RELAY_OF_PORTAL";

/// The longest token, in bytes: as long as one in a file.
const MAX_TOKEN_LEN: u64 = 4_096;

/// True if a portal started this process.
pub(super) fn is_of_portal() -> bool {
    std::env::var_os(OF_PORTAL_VARIABLE).is_some()
}

/// The token that the portal gives.
pub(super) fn token() -> Result<Found, Failure> {
    let mut token = Zeroizing::new(String::with_capacity(MAX_TOKEN_LEN as usize));
    let mut input = std::io::stdin().lock();
    let read = input.by_ref().take(MAX_TOKEN_LEN).read_line(&mut token);
    read.map_err(|error| Failure::io("reading the token of the portal", &error))?;
    Ok(Found {
        token: Zeroizing::new(token.trim_end().to_owned()),
        source: "the portal beside which it runs".to_owned(),
    })
}

/// Done once the portal closes standard input, or is gone. A service manager tells all processes of a unit to end: the
/// portal does that here, after the relay has drained.
pub(super) fn told_by_portal() -> Result<impl Future<Output = ()>, Failure> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        // From now on the signal does nothing.
        let _ignored = signal(kind).map_err(|error| Failure::io("watching for signals", &error))?;
    }
    let (tell, told) = oneshot::channel();
    let watch = move || {
        let mut rest = [0; 64];
        let mut input = std::io::stdin().lock();
        while input.read(&mut rest).is_ok_and(|read| read > 0) {}
        // Nobody listens where the relay has ended first.
        let _unheard = tell.send(());
    };
    // Not one of the runtime's threads, whose end it waits for: this one may wait for ever.
    let thread = std::thread::Builder::new().name("portal watch".to_owned());
    thread
        .spawn(watch)
        .map_err(|error| Failure::io("starting a thread", &error))?;
    Ok(async move {
        let _closed = told.await;
    })
}
