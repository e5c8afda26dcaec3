//! An account's configuration in memory, indexed for the questions that the hub asks.
//!
//! It begins with the store's snapshot and follows its changes. Rows that can't be converted to the
//! types that decide are not there: they allow nothing, and [`Directory::faults`] names them.

mod barred;
mod bounds;
mod clients;
mod configuration;
mod effect;
mod feed;
mod memberships;
mod policies;
mod resource_row;
mod settings;
mod sites;
mod tokens;

pub(super) use barred::Barred;
pub use configuration::Directory;
pub(super) use effect::{Effect, MachineChange, ResourceChange};
pub use feed::FeedError;
