//! The desktop client without a display: the service's answers, the states of the window, and their wording.
//!
//! Nothing here opens a socket, reads a clock or draws. The time is an argument, in milliseconds of a clock that never
//! goes back, so every state can be tested on a machine without a display.

#![forbid(unsafe_code)]

pub mod address;
pub mod dns;
pub mod ended;
pub mod exchange;
pub mod favourites;
mod natural;
pub mod netcheck;
pub mod notices;
pub mod opening;
pub mod pace;
pub mod peer;
pub mod phase;
pub mod pixels;
pub mod present;
pub mod rates;
pub mod resources;
pub mod settings;
pub mod sign_in;
pub mod status;
pub mod text;
pub mod told;
pub mod tray;
pub mod watch;
pub mod words;
