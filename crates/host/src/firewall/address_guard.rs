//! The client's addresses in the tunnel are for the tunnel alone.
//!
//! Linux takes a packet for any of its addresses at any of its interfaces (RFC 1122's weak host model). A neighbour on the
//! local network that sends to the tunnel's address learns from the encrypted answers which connections there are
//! (CVE-2019-14899). The client's gate sees nothing of such a packet, which never was in the tunnel, so it ends here: before
//! connections are tracked, and without a change of `rp_filter`.
//!
//! Linux answers ARP requests for any of its IPv4 addresses at any of its interfaces too (`arp_ignore` 0). A table of the family
//! `arp` drops those for the tunnel's address. Neighbour discovery of IPv6 needs none: Linux answers for the addresses of the
//! interface alone.

use std::fmt::Write;
use std::net::IpAddr;

use super::rules::{TABLE_PREFIX, header, remove_text};
use super::{TableState, list, load, nft};
use crate::{Family, HostError, InterfaceName};

/// The installed tables. They stay when this is dropped, as that about applications does.
#[derive(Debug)]
pub struct AddressGuard {
    interface: InterfaceName,
    /// The table of the family `inet` as `nft` lists it, compared as text.
    listing: String,
}

impl AddressGuard {
    /// Installs the rules about these addresses in place of whatever was in their tables. A kernel without rules for ARP has
    /// the others alone.
    ///
    /// # Errors
    /// [`HostError::NftMissing`], [`HostError::NeedsNetAdmin`], or what `nft` says; the table is as it was before then.
    pub async fn install(
        interface: InterfaceName,
        addresses: &[IpAddr],
    ) -> Result<Self, HostError> {
        let text = to_nft(&interface, addresses);
        let listing = load(&table_of(&interface), text).await?;
        let text = arp_to_nft(&interface, addresses);
        let loaded = nft::run(&["-f", "-"], None, text).await?;
        if let Err(error) = loaded.success("load the rules about ARP") {
            tracing::info!(%error, "the local network gets answers when it asks for the tunnel's IPv4 address by ARP");
        }
        Ok(Self { interface, listing })
    }

    /// Looks whether the table of the family `inet` is still as it was installed: programs that flush one flush both.
    ///
    /// # Errors
    /// As [`install`](Self::install).
    pub async fn check(&self) -> Result<TableState, HostError> {
        Ok(match list(&table_of(&self.interface)).await? {
            None => TableState::Lost,
            Some(listing) if listing == self.listing => TableState::Intact,
            Some(_) => TableState::Changed,
        })
    }
}

/// Removes the tables of an interface, such as those that a crash left behind; nothing happens if there are none.
///
/// # Errors
/// As [`AddressGuard::install`].
pub async fn remove_address_guard(interface: &InterfaceName) -> Result<(), HostError> {
    let text = remove_text(&table_of(interface));
    nft::run(&["-f", "-"], None, text)
        .await?
        .success("remove the table about the tunnel's addresses")?;
    let text = remove_arp_text(&table_of(interface));
    let removed = nft::run(&["-f", "-"], None, text).await?;
    if let Err(error) = removed.success("remove the table about ARP") {
        tracing::debug!(%error, "a kernel without rules for ARP has no such table");
    }
    Ok(())
}

fn table_of(interface: &InterfaceName) -> String {
    format!("{TABLE_PREFIX}addresses_{interface}")
}

/// The transaction that replaces whatever is in the table.
fn to_nft(interface: &InterfaceName, addresses: &[IpAddr]) -> String {
    let table = table_of(interface);
    let mut text = remove_text(&table);
    let mut line = |line: &str| {
        // Writing into a string does not fail.
        let _written = writeln!(text, "{line}");
    };
    line(&format!("table inet {table} {{"));
    line("\tchain prerouting {");
    line("\t\ttype filter hook prerouting priority raw; policy accept;");
    line(&format!("\t\tiifname {{ \"lo\", \"{interface}\" }} accept"));
    // Containers ask the host's resolver at this address, by the bridge that they are on. It answers guests alone.
    line("\t\tmeta iifkind \"bridge\" meta l4proto { tcp, udp } th dport 53 accept");
    for address in addresses {
        let header = header(Family::of(*address));
        line(&format!("\t\t{header} daddr {address} counter drop"));
    }
    line("\t}");
    line("}");
    text
}

/// The transaction that replaces whatever is in the table about ARP, which takes IPv4 addresses alone.
fn arp_to_nft(interface: &InterfaceName, addresses: &[IpAddr]) -> String {
    let table = table_of(interface);
    let mut text = remove_arp_text(&table);
    let mut line = |line: &str| {
        // Writing into a string does not fail.
        let _written = writeln!(text, "{line}");
    };
    line(&format!("table arp {table} {{"));
    line("\tchain input {");
    line("\t\ttype filter hook input priority filter; policy accept;");
    for address in addresses.iter().filter(|address| address.is_ipv4()) {
        line(&format!(
            "\t\tarp operation request arp daddr ip {address} counter drop"
        ));
    }
    line("\t}");
    line("}");
    text
}

/// As [`remove_text`], of the family `arp`.
fn remove_arp_text(table: &str) -> String {
    format!("table arp {table}\ndelete table arp {table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tunnel_and_the_host_itself_reach_the_tunnels_addresses() {
        let interface = "cv0".parse().unwrap();
        let addresses = ["100.64.0.9", "fd00::9"].map(|text| text.parse().unwrap());
        let text = to_nft(&interface, &addresses);
        assert_eq!(
            text,
            "table inet culvert_addresses_cv0\n\
             delete table inet culvert_addresses_cv0\n\
             table inet culvert_addresses_cv0 {\n\
             \tchain prerouting {\n\
             \t\ttype filter hook prerouting priority raw; policy accept;\n\
             \t\tiifname { \"lo\", \"cv0\" } accept\n\
             \t\tmeta iifkind \"bridge\" meta l4proto { tcp, udp } th dport 53 accept\n\
             \t\tip daddr 100.64.0.9 counter drop\n\
             \t\tip6 daddr fd00::9 counter drop\n\
             \t}\n\
             }\n"
        );
    }
    #[test]
    fn nobody_is_told_by_arp_that_the_tunnels_address_is_here() {
        let interface = "cv0".parse().unwrap();
        let addresses = ["100.64.0.9", "fd00::9"].map(|text| text.parse().unwrap());
        let text = arp_to_nft(&interface, &addresses);
        assert_eq!(
            text,
            "table arp culvert_addresses_cv0\n\
             delete table arp culvert_addresses_cv0\n\
             table arp culvert_addresses_cv0 {\n\
             \tchain input {\n\
             \t\ttype filter hook input priority filter; policy accept;\n\
             \t\tarp operation request arp daddr ip 100.64.0.9 counter drop\n\
             \t}\n\
             }\n"
        );
    }
}
