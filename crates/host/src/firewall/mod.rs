//! Tables in the kernel's packet filter: a gateway's, and a client's about [`applications`] and its own [addresses](address_guard).
//!
//! One table of our own each, replaced whole in one transaction, and never read back as rules: tables of
//! others stay as they are. `accept` in one table does not overrule `drop` in another, so tables
//! that drop what we forward are looked for and reported ([`forward_conflicts`]).

mod address_guard;
mod applications;
mod conflict;
mod nft;
mod pace;
mod rules;
mod watch;

pub use address_guard::{AddressGuard, remove_address_guard};
pub use applications::{
    ApplicationFirewall, ApplicationRules, MAX_RULED_RANGES, Refused, remove_application_rules,
};
pub use conflict::{ForwardConflict, forward_conflicts};
pub use pace::RepairPace;
pub use rules::{GatewayRules, HostAccess, SourceAddress};
use rules::{PlainDns, UDP_IDLE_S, UdpIdle};
pub use watch::FirewallWatch;

use crate::{HostError, InterfaceName};

/// The state of the table since it was installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableState {
    /// It is as it was installed.
    Intact,
    /// Somebody changed it.
    Changed,
    /// It is gone: nothing guards the tunnel, so nothing may be forwarded until it is back.
    Lost,
}

/// An installed table. It stays when this is dropped: a gateway that crashes leaves its guard behind,
/// and the next one replaces it.
#[derive(Debug)]
pub struct Firewall {
    rules: GatewayRules,
    /// The table as `nft` lists it, compared as text.
    listing: String,
    left_out: LeftOut,
}

/// The parts of a gateway's rules that the kernel can't carry out, each with its reason.
#[derive(Debug, Default)]
struct LeftOut {
    /// UDP flows are kept only for the kernel's general time.
    udp_idle: Option<String>,
    /// Plain WireGuard devices can't ask for names.
    plain_dns: Option<String>,
}

impl Firewall {
    /// Installs the rules in place of whatever was in their table.
    ///
    /// # Errors
    /// [`HostError::NftMissing`], [`HostError::NeedsNetAdmin`], or what `nft` says; the table is as it
    /// was before then.
    pub async fn install(rules: GatewayRules) -> Result<Self, HostError> {
        let (listing, left_out) = load_gateway(&rules).await?;
        Ok(Self {
            rules,
            listing,
            left_out,
        })
    }

    /// Rules that the kernel can't carry out as written, each a line with the fix.
    pub fn shortcomings(&self) -> impl Iterator<Item = String> {
        let LeftOut {
            udp_idle,
            plain_dns,
        } = &self.left_out;
        let udp_idle = udp_idle.as_ref().map(|why| udp_idle_line(why));
        let plain_dns = plain_dns.as_ref().map(|why| {
            format!(
                "plain WireGuard devices find no names: the kernel, or nft, redirects no packets ({why}): a kernel with \
                 CONFIG_NFT_REDIR"
            )
        });
        udp_idle.into_iter().chain(plain_dns)
    }

    /// The name of the table of an interface, of family `inet`.
    #[must_use]
    pub fn table_of(interface: &InterfaceName) -> String {
        rules::table_of(interface)
    }

    /// The installed rules.
    #[must_use]
    pub fn rules(&self) -> &GatewayRules {
        &self.rules
    }

    /// Looks whether the table is still as it was installed. Anything but [`TableState::Intact`]
    /// means: stop forwarding, [`reinstall`](Self::reinstall), go on.
    ///
    /// # Errors
    /// As [`install`](Self::install); an error means that nobody knows, and so: stop forwarding.
    pub async fn check(&self) -> Result<TableState, HostError> {
        Ok(match list(&self.rules.table()).await? {
            None => TableState::Lost,
            Some(listing) if listing == self.listing => TableState::Intact,
            Some(_) => TableState::Changed,
        })
    }

    /// Installs the rules again.
    ///
    /// # Errors
    /// As [`install`](Self::install).
    pub async fn reinstall(&mut self) -> Result<(), HostError> {
        (self.listing, self.left_out) = load_gateway(&self.rules).await?;
        Ok(())
    }

    /// Installs other rules of the same interface in place of these; connections go on.
    ///
    /// # Errors
    /// As [`install`](Self::install); [`HostError::OtherInterface`] where the interface is another.
    pub async fn replace(&mut self, rules: GatewayRules) -> Result<(), HostError> {
        if rules.interface != self.rules.interface {
            return Err(HostError::OtherInterface {
                installed: self.rules.interface.clone(),
                asked: rules.interface,
            });
        }
        (self.listing, self.left_out) = load_gateway(&rules).await?;
        self.rules = rules;
        Ok(())
    }

    /// Removes the table: the last step of an orderly end, after the interface is gone.
    ///
    /// # Errors
    /// As [`install`](Self::install).
    pub async fn remove(self) -> Result<(), HostError> {
        remove_table(&self.rules.interface).await
    }
}

/// Removes the table of an interface, such as one that a crash left behind; nothing happens if there
/// is none. A gateway that starts again need not: installing replaces it.
///
/// # Errors
/// As [`Firewall::install`].
pub async fn remove_table(interface: &InterfaceName) -> Result<(), HostError> {
    let text = rules::remove_text(&rules::table_of(interface));
    nft::run(&["-f", "-"], None, text)
        .await?
        .success("remove the firewall table")?;
    Ok(())
}

/// Loads a gateway's rules, without those that the kernel can't carry out; returns how `nft` lists them, and which were left
/// out. If it refuses the others, it says so.
async fn load_gateway(rules: &GatewayRules) -> Result<(String, LeftOut), HostError> {
    let table = rules.table();
    let refused = match load(&table, rules.text(UdpIdle::Own, PlainDns::Redirected)).await {
        Err(HostError::Nft { message, .. }) => message,
        other => return other.map(|listing| (listing, LeftOut::default())),
    };
    for (udp_idle, plain_dns) in [
        (UdpIdle::Kernels, PlainDns::Redirected),
        (UdpIdle::Own, PlainDns::Closed),
    ] {
        match load(&table, rules.text(udp_idle, plain_dns)).await {
            Err(HostError::Nft { .. }) => {}
            other => {
                return other.map(|listing| (listing, left_out(udp_idle, plain_dns, &refused)));
            }
        }
    }
    let (udp_idle, plain_dns) = (UdpIdle::Kernels, PlainDns::Closed);
    let listing = load(&table, rules.text(udp_idle, plain_dns)).await?;
    Ok((listing, left_out(udp_idle, plain_dns, &refused)))
}

fn left_out(udp_idle: UdpIdle, plain_dns: PlainDns, refused: &str) -> LeftOut {
    LeftOut {
        udp_idle: (udp_idle == UdpIdle::Kernels).then(|| refused.to_owned()),
        plain_dns: (plain_dns == PlainDns::Closed).then(|| refused.to_owned()),
    }
}

fn udp_idle_line(why: &str) -> String {
    format!(
        "UDP flows that are silent for 120 s are forgotten by the kernel, or nft, which has no timeouts of single flows ({why}): \
         a kernel with CONFIG_NF_CONNTRACK_TIMEOUT, or `sysctl -w net.netfilter.nf_conntrack_udp_timeout_stream={UDP_IDLE_S}`"
    )
}

/// Loads the rules of a table; returns how `nft` lists them.
async fn load(table: &str, text: String) -> Result<String, HostError> {
    nft::run(&["-f", "-"], None, text)
        .await?
        .success("load the firewall rules")?;
    let listing = list(table).await?;
    listing.ok_or(HostError::FirewallFlushed)
}

/// A table as `nft` lists it, without counters; `None` if there is none.
async fn list(table: &str) -> Result<Option<String>, HostError> {
    let arguments = &["--stateless", "list", "table", "inet"];
    let outcome = nft::run(arguments, Some(table.to_owned()), String::new()).await?;
    if outcome.is_missing() {
        return Ok(None);
    }
    outcome.success("list the firewall table").map(Some)
}
