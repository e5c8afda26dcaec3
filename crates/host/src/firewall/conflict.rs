//! Tables of others that drop what a gateway forwards.

use std::fmt;

use super::nft;
use crate::firewall::rules::TABLE_PREFIX;
use crate::{HostError, InterfaceName};

/// The most conflicts that are reported: one for each of the managers and families that exist, and
/// room for a few written by hand.
const MAX_CONFLICTS: usize = 16;

/// A chain of somebody else that drops forwarded packets unless a rule of its own accepts them. Its
/// text is one line with the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardConflict {
    /// The family of its table, as `nft` names it.
    pub family: String,
    /// The name of its table.
    pub table: String,
    /// The name of the chain.
    pub chain: String,
    /// Commands that let the tunnel's packets pass.
    pub fix: String,
}

impl fmt::Display for ForwardConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            family,
            table,
            chain,
            fix,
        } = self;
        write!(
            f,
            "the firewall drops what the gateway forwards (chain {chain} of table {family} {table}): \
             `{fix}`"
        )
    }
}

/// Looks for chains of others that drop forwarded packets: Docker's, ufw's, firewalld's, and those
/// with such a policy. It reads `nft`'s list, so it sees what iptables-nft has set up, but not what
/// iptables-legacy has.
///
/// A conflict is a reason to warn and not to stop: a rule in that chain may accept the packets.
///
/// # Errors
/// As [`Firewall::install`](super::Firewall::install).
pub async fn forward_conflicts(
    interface: &InterfaceName,
) -> Result<Vec<ForwardConflict>, HostError> {
    let chains = nft::run(&["list", "chains"], None, String::new())
        .await?
        .success("list the firewall's chains")?;
    Ok(conflicts_in(&chains, interface))
}

/// A chain in `nft`'s list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listed<'a> {
    family: &'a str,
    table: &'a str,
    chain: &'a str,
    /// The word after `type`; chains without a hook have none.
    hook: Option<&'a str>,
}

fn conflicts_in(list: &str, interface: &InterfaceName) -> Vec<ForwardConflict> {
    let chains = parse(list);
    let has_chain = |of: &Listed<'_>, prefix: &str| {
        chains.iter().any(|other| {
            (other.family, other.table) == (of.family, of.table) && other.chain.starts_with(prefix)
        })
    };
    let mut conflicts = Vec::new();
    for listed in &chains {
        let Some(hook) = listed.hook else { continue };
        if !hook.contains("hook forward") || listed.table.starts_with(TABLE_PREFIX) {
            continue;
        }
        let fix = if listed.table == "firewalld" {
            // Its policy is accept, and its last rule rejects.
            firewalld_fix(interface)
        } else if !hook.contains("policy drop") {
            continue;
        } else if has_chain(listed, "ufw") {
            ufw_fix(interface)
        } else if listed.table == "filter" && has_chain(listed, "DOCKER-USER") {
            iptables_fix(listed.family, "DOCKER-USER", interface)
        } else if listed.table == "filter" && listed.chain == "FORWARD" {
            iptables_fix(listed.family, "FORWARD", interface)
        } else {
            nft_fix(listed, interface)
        };
        if conflicts.len() < MAX_CONFLICTS {
            conflicts.push(ForwardConflict {
                family: listed.family.to_owned(),
                table: listed.table.to_owned(),
                chain: listed.chain.to_owned(),
                fix,
            });
        }
    }
    conflicts
}

/// Reads `nft list chains`: tables, in them chains, in those that have a hook one line about it. It
/// skips every line that it does not understand, because this is for a warning.
fn parse(list: &str) -> Vec<Listed<'_>> {
    let mut table = ("", "");
    let mut chains: Vec<Listed<'_>> = Vec::new();
    for line in list.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["table", family, name, "{"] => table = (family, name),
            ["chain", chain, "{"] => chains.push(Listed {
                family: table.0,
                table: table.1,
                chain,
                hook: None,
            }),
            ["type", ..] => {
                if let Some(chain) = chains.last_mut() {
                    chain.hook = Some(line.trim());
                }
            }
            _ => {}
        }
    }
    chains
}

fn firewalld_fix(interface: &InterfaceName) -> String {
    format!(
        "firewall-cmd --permanent --zone=trusted --add-interface={interface} && \
         firewall-cmd --reload"
    )
}

fn ufw_fix(interface: &InterfaceName) -> String {
    format!("ufw route allow in on {interface}")
}

fn iptables_fix(family: &str, chain: &str, interface: &InterfaceName) -> String {
    let program = if family == "ip6" {
        "ip6tables"
    } else {
        "iptables"
    };
    format!(
        "{program} -I {chain} -i {interface} -j ACCEPT && {program} -I {chain} -o {interface} \
         -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT"
    )
}

fn nft_fix(listed: &Listed<'_>, interface: &InterfaceName) -> String {
    let Listed {
        family,
        table,
        chain,
        ..
    } = listed;
    format!(
        "nft 'insert rule {family} {table} {chain} iifname \"{interface}\" accept; insert rule \
         {family} {table} {chain} oifname \"{interface}\" ct state established,related accept'"
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tunnel() -> InterfaceName {
        "cv0".parse().expect("a name")
    }

    /// The output of `nft list chains` on hosts with these managers.
    const DOCKER: &str = "\
table ip nat {
	chain DOCKER {
	}
	chain POSTROUTING {
		type nat hook postrouting priority srcnat; policy accept;
	}
}
table ip filter {
	chain DOCKER {
	}
	chain FORWARD {
		type filter hook forward priority filter; policy drop;
	}
	chain DOCKER-USER {
	}
}
table ip6 filter {
	chain FORWARD {
		type filter hook forward priority filter; policy accept;
	}
}
";
    const FIREWALLD: &str = "\
table inet firewalld {
	chain filter_INPUT {
		type filter hook input priority filter + 10; policy accept;
	}
	chain filter_FORWARD {
		type filter hook forward priority filter + 10; policy accept;
	}
}
";
    const UFW: &str = "\
table ip6 filter {
	chain FORWARD {
		type filter hook forward priority filter; policy drop;
	}
	chain ufw6-before-forward {
	}
}
";
    const OWN_HAND: &str = "\
table inet site {
	chain routed {
		type filter hook forward priority filter; policy drop;
	}
	chain input {
		type filter hook input priority filter; policy drop;
	}
}
table inet culvert_cv1 {
	chain forward {
		type filter hook forward priority filter; policy drop;
	}
}
";

    #[test]
    fn each_manager_gets_the_fix_in_its_own_words() {
        for (list, chain, fix) in [
            (
                DOCKER,
                "FORWARD",
                "iptables -I DOCKER-USER -i cv0 -j ACCEPT",
            ),
            (
                FIREWALLD,
                "filter_FORWARD",
                "--zone=trusted --add-interface=cv0",
            ),
            (UFW, "FORWARD", "ufw route allow in on cv0"),
            (
                OWN_HAND,
                "routed",
                "insert rule inet site routed iifname \"cv0\" accept",
            ),
        ] {
            let conflicts = conflicts_in(list, &tunnel());
            let [conflict] = &conflicts[..] else {
                panic!("expected one conflict, got {conflicts:?}");
            };
            assert_eq!(conflict.chain, chain);
            assert!(conflict.to_string().contains(fix), "{conflict}");
            assert!(!conflict.to_string().contains('\n'));
        }
    }

    #[test]
    fn a_forward_policy_without_a_manager_is_mended_by_iptables_of_its_family() {
        let list = UFW.replace("ufw6", "other");
        let conflicts = conflicts_in(&list, &tunnel());
        assert!(conflicts[0].fix.starts_with("ip6tables -I FORWARD -i cv0"));
    }

    #[test]
    fn a_host_that_drops_nothing_has_no_conflict() {
        assert_eq!(conflicts_in("", &tunnel()), []);
        assert_eq!(
            conflicts_in(&DOCKER.replace("policy drop", "policy accept"), &tunnel()),
            []
        );
    }

    proptest! {
        #[test]
        fn any_list_is_read_to_its_end(list in "((table|chain|type|hook|forward|[{};a-z]{0,4}|\n)[ \n]){0,40}") {
            prop_assert!(conflicts_in(&list, &tunnel()).len() <= MAX_CONFLICTS);
        }
    }
}
