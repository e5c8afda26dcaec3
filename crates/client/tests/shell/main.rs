//! The client with sockets, a tunnel and routes, in namespaces of its own, against a portal that is
//! played here and a gateway that is a real device. Needs root.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod enrolment;
mod gateway;
mod hostile;
mod portal;
mod relay;
mod relayed;
mod scene;
mod signing_in;
mod traffic;
mod tunnel;
mod watching;
