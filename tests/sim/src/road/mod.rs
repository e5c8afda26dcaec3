//! Packets of programs through client and gateway to a resource and back, under the virtual clock: the shipped
//! [`DataPath`](culvert_datapath::DataPath) and [`Handshaker`](culvert_session::Handshaker) at either end, a network
//! that loses, duplicates and reorders between them, and a [`Ledger`] that knows what was sent and what policy allows.

mod frame;
mod ledger;
mod machine;
mod scene;
mod shell;

pub use ledger::{Ledger, Way};
pub use scene::{Kind, Scene, Traffic};
