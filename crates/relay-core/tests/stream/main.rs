//! Datagrams in a stream, and back.

mod outbox;
mod unframer;
