//! The relay and its ends, without I/O.

mod end;
mod forwarding;
mod model;
mod portal;
mod registering;
mod world;
