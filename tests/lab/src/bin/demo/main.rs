//! Culvert at work, for someone who sees it for the first time.
//!
//! Namespaces stand for machines. First the whole product: a portal, two gateways before a private
//! network, a client behind NAT ([`access`]). Then a client and a gateway that are both behind NAT ([`behind_nats`]). Then
//! the data plane alone: two machines that each run `culvert wg` ([`tunnel`]). `access`, `nats` or `tunnel` as its argument
//! shows one of them alone. With `ha` it shows two portals on one database instead, each of which is killed while it leads ([`leaders`]). Everything is real and nothing stays:
//! the namespaces go away with this program, however it ends.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "what it prints is the demonstration")]

mod access;
mod behind_nats;
mod leaders;
mod tunnel;

use std::process::ExitCode;

use anyhow::{Result, bail};

fn main() -> ExitCode {
    match demonstrate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nThe demonstration failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn demonstrate() -> Result<()> {
    let part = std::env::args().nth(1);
    culvert_lab::require()?;
    match part.as_deref() {
        None => {
            access::demonstrate()?;
            behind_nats::demonstrate()?;
            tunnel::demonstrate()?;
        }
        Some("access") => access::demonstrate()?,
        Some("nats") => behind_nats::demonstrate()?,
        Some("tunnel") => tunnel::demonstrate()?,
        Some("ha") => leaders::demonstrate()?,
        Some(other) => {
            bail!(
                "there is no part '{other}': `access`, `nats`, `tunnel` or `ha`, or the first three without"
            )
        }
    }
    println!("\nEverything worked. Namespaces, tunnels and files are being removed.");
    Ok(())
}
