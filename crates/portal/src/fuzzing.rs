//! The heads of requests without a server, for the fuzz targets (feature `fuzzing`). No program calls it.

use crate::server::protocol;
use axum::body::Body;
use axum::http::{Request, Response};
use culvert_console::fuzzing::{is_from_here, session};
use culvert_policy::Prefix;
use culvert_portal_base::{Origin, bearer, check_address};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

/// Bytes of an answer that are read; an empty answer is shorter.
const MAX_ANSWER_LEN: usize = 4096;

/// The parts of a request's head that the portal reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its method.
    pub method: String,
    /// The address that the request is said to come from.
    pub from: IpAddr,
    /// True if the console would accept the request: it is for this portal, and comes from one of
    /// its pages.
    pub is_from_here: bool,
    /// True if its address is short enough.
    pub has_short_address: bool,
    /// The session of its cookie.
    pub session: Option<String>,
    /// Its API token.
    pub bearer: Option<String>,
}

/// Serves a connection from `peer` that sends `bytes`. Returns each head that reached the service, and the
/// bytes of the answer. The portal is at `url` and trusts the proxies in `trusted`.
pub fn heads(bytes: &[u8], url: &str, peer: IpAddr, trusted: &[Prefix]) -> (Vec<Head>, Vec<u8>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let answer = service_fn(|request: Request<Incoming>| {
        let headers = request.headers();
        let head = Head {
            method: request.method().to_string(),
            from: Origin::of(peer, headers, trusted).address.0,
            is_from_here: is_from_here(url, &request),
            has_short_address: check_address(request.uri()).is_ok(),
            session: session(headers),
            bearer: bearer(headers).map(str::to_owned),
        };
        let mut heads = seen.lock().unwrap_or_else(PoisonError::into_inner);
        heads.push(head);
        async { Ok::<_, Infallible>(Response::new(Body::empty())) }
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.expect("a runtime without I/O needs nothing of the system");
    let answered = runtime.block_on(async {
        let (mut client, server) = duplex(bytes.len().max(MAX_ANSWER_LEN));
        let speak = async {
            // The other end closes early where it does not like what it reads.
            let _ = client.write_all(bytes).await;
            let _ = client.shutdown().await;
            let mut answer = Vec::new();
            let mut some = client.take(MAX_ANSWER_LEN as u64);
            let _ = some.read_to_end(&mut answer).await;
            answer
        };
        let mut protocol = protocol();
        let served = protocol
            .keep_alive(false)
            // Its end of the input is not the end of its interest in the answer.
            .half_close(true)
            .serve_connection(TokioIo::new(server), answer);
        let (answer, _) = tokio::join!(speak, served);
        answer
    });
    let heads = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    (heads, answered)
}
