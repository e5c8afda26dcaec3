//! The link from a portal that follows to the one that leads: the sessions of its machines, questions, and signs of
//! change, over one WebSocket.
//!
//! The portal that follows knows address and certificate of the leader from the database, and shows a key whose digest is
//! there. A message is a line of JSON, and behind it the text that it carries. A link that breaks ends the sessions that it
//! carried: their machines come back, as they do after a restart of a portal.

mod follower;
mod frame;
mod leader;

pub(super) use follower::RemoteHub;
pub(super) use frame::Ask;
pub(super) use leader::{MAX_LINKS, enter};
