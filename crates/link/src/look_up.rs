//! Looking up the addresses of a name.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

/// Looks up the addresses of a name, for a port.
pub type LookUp =
    fn(String, u16) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Looks up a name in this process (getaddrinfo(3)). A process in a sandbox can't.
pub fn system_look_up(
    host: String,
    port: u16,
) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>> {
    Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
}
