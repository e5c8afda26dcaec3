//! Set-up of the host against the kernel and the programs that it is made for. Needs root: every test
//! that touches the network makes namespaces of its own.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod application_firewall;
mod firewall;
mod firewall_traffic;
mod forwarding;
mod notify;
mod routes;
mod sandbox;
mod secret_files;
mod support;
mod tunnel_host;
mod watch;
mod watchers;
