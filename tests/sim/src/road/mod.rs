//! Packets of programs through client and gateway to a resource and back, under the virtual clock.
//!
//! Either end is the shipped [`DataPath`](culvert_datapath::DataPath) and [`Handshaker`](culvert_session::Handshaker). The
//! network between them loses, duplicates and reorders. A [`Ledger`] knows what was sent and what policy allows.

mod frame;
mod ledger;
mod machine;
mod scene;
mod shell;

pub use ledger::{Ledger, Way};
pub use scene::{Kind, Scene, Traffic};
