//! Parsers of untrusted bytes without a server, for the fuzz targets (feature `fuzzing`). No program calls it.

pub use crate::console::fuzzing::Form;
pub use crate::oidc::fuzzing::{Believed, id_token};

use crate::api;
use crate::console::fuzzing::{is_from_here, session};
use crate::server::{Origin, check_address, protocol};
use crate::webauthn::{Assertion, Registration, RelyingParty};
use axum::body::Body;
use axum::http::{Request, Response};
use culvert_policy::Prefix;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

/// Bytes of an answer that are read; an empty answer is shorter.
const MAX_ANSWER_LEN: usize = 4096;

/// A passkey that the portal would store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The challenge that the page sent.
    pub challenge: Vec<u8>,
    /// The credential ID.
    pub credential: Vec<u8>,
    /// The public key in COSE format.
    pub public_key: Vec<u8>,
    /// The signature counter.
    pub uses: u32,
}

/// Checks the registration of a new passkey at the portal at `url`; `text` is the browser's JSON.
pub fn registration(url: &str, text: &str) -> Result<Registered, String> {
    let party = RelyingParty::of(url).ok_or("no name")?;
    let registration = Registration::parse(text).map_err(|refusal| refusal.to_string())?;
    let registered = registration.check(&party);
    let registered = registered.map_err(|refusal| refusal.to_string())?;
    Ok(Registered {
        challenge: registration.challenge().to_vec(),
        credential: registered.credential,
        public_key: registered.public_key,
        uses: registered.uses,
    })
}

/// A successful assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asserted {
    /// The challenge that the page sent.
    pub challenge: Vec<u8>,
    /// The credential ID.
    pub credential: Vec<u8>,
    /// The signature counter.
    pub uses: u32,
}

/// Checks an assertion by the key `public_key`; `text` is the browser's JSON.
pub fn assertion(url: &str, text: &str, public_key: &[u8]) -> Result<Asserted, String> {
    let party = RelyingParty::of(url).ok_or("no name")?;
    let assertion = Assertion::parse(text).map_err(|refusal| refusal.to_string())?;
    let uses = assertion.check(&party, public_key);
    let uses = uses.map_err(|refusal| refusal.to_string())?;
    Ok(Asserted {
        challenge: assertion.challenge().to_vec(),
        credential: assertion.credential,
        uses,
    })
}

/// What the portal takes from the head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its method.
    pub method: String,
    /// Where it is said to come from.
    pub from: IpAddr,
    /// Whether the console would look at it: for this portal, and from one of its pages.
    pub is_from_here: bool,
    /// Whether its address is short enough.
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
            bearer: api::bearer(headers).map(str::to_owned),
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
