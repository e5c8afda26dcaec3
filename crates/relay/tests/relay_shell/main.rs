//! A relay on loopback, with a portal and ends that the tests play.

mod end;
mod forwarding;
mod portal;
mod scene;
mod session;
