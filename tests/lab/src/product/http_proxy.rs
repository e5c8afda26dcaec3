//! An HTTP proxy that connects (`CONNECT`, RFC 9110 §9.3.6) for those who know its credentials.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::namespace::Namespace;

/// The credentials as `USER:PASSWORD`, and as `Proxy-Authorization` has them.
const CREDENTIALS: &str = "joe:open sesame";
const AUTHORIZATION: &str = "Proxy-Authorization: Basic am9lOm9wZW4gc2VzYW1l";

/// The longest head of a request.
const HEAD_MAX: usize = 8 * 1024;

/// The time for a connection to the destination.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The pause between two looks whether a connection has lived long enough.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The proxy.
#[derive(Debug)]
pub struct HttpProxy {
    address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    stop: AtomicBool,
    /// The life of a connection in milliseconds; 0 is for ever.
    lifetime_ms: AtomicU64,
    connected: AtomicU64,
    refused: AtomicU64,
    broken_off: AtomicU64,
}

impl HttpProxy {
    /// Listens at an address of the namespace.
    ///
    /// # Errors
    /// When it can't.
    pub fn start(namespace: &Namespace, address: IpAddr, port: u16) -> Result<Self> {
        let address = SocketAddr::new(address, port);
        let listener = namespace.inside(|| {
            TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))
        })?;
        listener.set_nonblocking(true)?;
        let state = Arc::new(State::default());
        let (shared, namespace) = (Arc::clone(&state), namespace.clone());
        let thread = thread::spawn(move || {
            while !shared.stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let (state, namespace) = (Arc::clone(&shared), namespace.clone());
                        // A fault ends the connection.
                        thread::spawn(move || namespace.inside(|| serve(&stream, &state)));
                    }
                    Err(_) => thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Ok(Self {
            address,
            state,
            thread: Some(thread),
        })
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The content of a file with its credentials.
    #[must_use]
    pub const fn credentials() -> &'static str {
        CREDENTIALS
    }

    /// Breaks every connection off once it has lived for so long, those that are open included.
    pub fn allow_for(&self, lifetime: Duration) {
        let millis = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        self.state.lifetime_ms.store(millis, Ordering::Relaxed);
    }

    /// Connections that were made, and requests without the credentials.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.state.connected), read(&self.state.refused))
    }

    /// Connections that were broken off.
    #[must_use]
    pub fn broken_off(&self) -> u64 {
        self.state.broken_off.load(Ordering::Relaxed)
    }
}

impl Drop for HttpProxy {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Serves one connection until it ends.
fn serve(client: &TcpStream, state: &State) -> Result<()> {
    client.set_nonblocking(false)?;
    let head = read_head(client)?;
    if !head.lines().any(|line| line == AUTHORIZATION) {
        state.refused.fetch_add(1, Ordering::Relaxed);
        let answer = "HTTP/1.1 407 Proxy Authentication Required\r\n\
                      Proxy-Authenticate: Basic realm=\"lab\"\r\nContent-Length: 0\r\n\r\n";
        return Ok((&*client).write_all(answer.as_bytes())?);
    }
    let request = head.strip_prefix("CONNECT ").context("it is no CONNECT")?;
    let authority = request.split(' ').next().unwrap_or_default();
    let Ok(server) = TcpStream::connect_timeout(&authority.parse()?, CONNECT_LIMIT) else {
        return Ok((&*client).write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")?);
    };
    (&*client).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    state.connected.fetch_add(1, Ordering::Relaxed);
    carry(client, &server, state);
    Ok(())
}

/// The head of a request. Nothing may follow it before the answer.
fn read_head(mut client: &TcpStream) -> Result<String> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.ends_with(b"\r\n\r\n") {
        let len = client.read(&mut buffer)?;
        anyhow::ensure!(len > 0 && head.len() + len <= HEAD_MAX, "no whole head");
        head.extend_from_slice(&buffer[..len]);
    }
    Ok(String::from_utf8(head)?)
}

/// Carries bytes both ways until one side ends, or the connection has lived for long enough.
fn carry(client: &TcpStream, server: &TcpStream, state: &State) {
    let began = Instant::now();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (from, to) in [(client, server), (server, client)] {
            let is_over = &is_over;
            scope.spawn(move || {
                // Its end is the end of both.
                let (mut from, mut to) = (from, to);
                let _failed = std::io::copy(&mut from, &mut to);
                is_over.store(true, Ordering::Relaxed);
            });
        }
        while !is_over.load(Ordering::Relaxed) && !state.stop.load(Ordering::Relaxed) {
            let lifetime_ms = state.lifetime_ms.load(Ordering::Relaxed);
            if lifetime_ms > 0 && began.elapsed() >= Duration::from_millis(lifetime_ms) {
                state.broken_off.fetch_add(1, Ordering::Relaxed);
                break;
            }
            thread::sleep(LOOK_EVERY);
        }
        for stream in [client, server] {
            let _closed = stream.shutdown(Shutdown::Both);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_connects_for_those_who_know_the_credentials() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let serving = thread::spawn(move || {
            let state = State::default();
            for _ in 0..2 {
                let (stream, _) = listener.accept().unwrap();
                let _ended = serve(&stream, &state);
            }
            state.refused.load(Ordering::Relaxed)
        });
        let echo = TcpListener::bind("127.0.0.1:0").unwrap();
        let authority = echo.local_addr().unwrap();
        let ask = |authorization: &str| {
            let mut stream = TcpStream::connect(to).unwrap();
            let head = format!("CONNECT {authority} HTTP/1.1\r\n{authorization}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let mut status = [0; 12];
            stream.read_exact(&mut status).unwrap();
            (stream, status)
        };
        assert_eq!(&ask("Host: x").1, b"HTTP/1.1 407");
        let (stream, status) = ask(AUTHORIZATION);
        assert_eq!(&status, b"HTTP/1.1 200");
        drop((stream, echo));
        assert_eq!(serving.join().unwrap(), 1);
    }
}
