//! Real namespaces, links and processes for tests, the demo and benchmarks.
//!
//! Everything here runs on the machine's own kernel. A [`Namespace`] is a network namespace, a
//! [`Link`] a veth pair, and a [`Process`] a program that runs inside a namespace. A
//! [`WireGuardEnd`] is one end that runs any WireGuard implementation, and a [`Tunnel`] is two such
//! ends that know each other. A [`Machine`] is a Debian with systemd. [`measure`] reads what they
//! achieve.
//!
//! Nothing is left behind. Each of these undoes itself when dropped, and a small watcher process
//! (module `reaper`) removes the namespaces, processes, cgroups and files of a program that was killed.
//!
//! Needs root and the tools that `scripts/setup.sh` installs: [`require`] says what is missing.

#![forbid(unsafe_code)]

mod command;
mod link;
mod machine;
mod marks;
pub mod measure;
mod named;
mod namespace;
mod narrow;
pub mod nat;
pub mod nat64;
mod postgres;
mod process;
pub mod product;
mod programs;
mod reaper;
mod relay;
mod service_manager;
mod traces;
mod transfer;
mod tunnel;
mod wait;
mod wireguard;

pub use command::{find, require, run};
pub use culvert_base::Family;
pub use link::{Link, LinkShape, Subnet};
pub use machine::Machine;
pub use marks::{MARKING_RULES, count_sent, sent, set_marks};
pub use namespace::Namespace;
pub use narrow::{RoutedTunnel, narrow_in_silence};
pub use postgres::Postgres;
pub use process::Process;
pub use programs::{culvert_program, documented, peer_program, workspace_dir};
pub use reaper::{application_name, process_dir};
pub use relay::{Direction, Relay};
pub use service_manager::ServiceManager;
pub use traces::Traces;
pub use transfer::Transfer;
pub use tunnel::{Tunnel, TunnelPlan};
pub use wait::{in_one_of_some_attempts, wait_until};
pub use wireguard::{Implementation, KeyPair, WireGuardEnd};
