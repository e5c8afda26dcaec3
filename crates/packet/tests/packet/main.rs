//! The promises of the crate, a module a subject, through its public interface only.

mod build;
mod checksum;
mod coalesce;
mod fragment;
mod icmp;
mod ip;
mod oracle;
mod quoted;
mod random_bytes;
mod round_trip;
mod split;
