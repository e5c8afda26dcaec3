//! `culvert admin dns`.

use super::common::usage;
use super::shell::Shell;
use crate::exit::Failure;
use clap::{Args, Subcommand};
use culvert_wire::api::{Account, AccountPatch, DesiredDns, DesiredDnsDomain};
use culvert_wire::model::Dns;

/// Names on clients: how short ones are completed, and which are asked of servers of your own
///
/// A change reaches every connected client within seconds. Names of resources go before it.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum DnsCommand {
    /// Show search domains, and domains with servers of their own
    Show,
    /// Say which domains short names are completed with: all of them, in their order
    Search(SearchArguments),
    /// Have names in a domain asked of servers of your own, and of nobody else
    ///
    /// The domain stands for itself and all below it; of several that hold a name, the longest
    /// counts. "." is every name: then clients of the account ask nobody else, but for the portal's
    /// own name. A server that lies in a resource is asked through the tunnel, by clients that may
    /// use the resource (it must allow udp:53 and tcp:53); any other is asked the usual way.
    /// Earlier settings of the domain are replaced.
    Set(SetArguments),
    /// Have names in a domain asked as all others
    Remove {
        /// The domain
        #[arg(value_name = "DOMAIN")]
        domain: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct SearchArguments {
    /// The domains; at most 6
    #[arg(
        value_name = "DOMAIN",
        required_unless_present = "none",
        conflicts_with = "none"
    )]
    domains: Vec<String>,
    /// No domain: names are asked as they are written
    #[arg(long)]
    none: bool,
}

#[derive(Debug, Args)]
pub(super) struct SetArguments {
    /// The domain, such as corp.example, 10.in-addr.arpa, or "."
    #[arg(value_name = "DOMAIN")]
    domain: String,
    /// The address of a server; up to 3, asked in their order
    #[arg(
        long = "server",
        value_name = "ADDR",
        required = true,
        value_delimiter = ','
    )]
    servers: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin dns search corp.example
  culvert admin dns set corp.example --server 10.1.2.53 --server 10.1.3.53
  culvert admin dns set 10.in-addr.arpa --server 10.1.2.53
  culvert admin dns remove corp.example
  culvert admin dns search --none
  culvert admin dns show";

pub(super) async fn run(shell: &mut Shell, command: DnsCommand) -> Result<(), Failure> {
    let found = shell.api.account().await?;
    let mut wanted = desired(&found.dns);
    let sentence = match command {
        DnsCommand::Show => return show(shell, &found),
        DnsCommand::Search(search) => {
            wanted.search = search.domains;
            match search.none {
                true => "clients complete short names as before".to_owned(),
                false => format!(
                    "clients complete short names with {}",
                    wanted.search.join(", ")
                ),
            }
        }
        DnsCommand::Set(set) => {
            let sentence = format!(
                "clients ask {} for names in {}",
                set.servers.join(", "),
                set.domain
            );
            wanted.domains.retain(|it| !is_same(&it.name, &set.domain));
            wanted.domains.push(DesiredDnsDomain {
                name: set.domain,
                servers: set.servers,
            });
            sentence
        }
        DnsCommand::Remove { domain } => {
            let before = wanted.domains.len();
            wanted.domains.retain(|it| !is_same(&it.name, &domain));
            if wanted.domains.len() == before {
                return Err(usage(format_args!(
                    "the domain {domain} has no servers: \"culvert admin dns show\" lists those that have"
                )));
            }
            format!("clients ask for names in {domain} as for all others")
        }
    };
    let patch = AccountPatch {
        dns: Some(wanted),
        ..AccountPatch::default()
    };
    // Somebody else's change in between is refused by the version, not undone.
    let changed = shell.api.change_account(found.version, &patch).await?;
    shell.format.done(&changed.dns, sentence)
}

fn show(shell: &Shell, account: &Account) -> Result<(), Failure> {
    let dns = &account.dns;
    shell.format.record(dns, || {
        let search = match dns.search.is_empty() {
            true => "none".to_owned(),
            false => dns.search.join(", "),
        };
        let mut fields = vec![("search", search)];
        let domains = dns.domains.iter();
        fields.extend(domains.map(|domain| ("domain", in_words(&domain.name, &domain.servers))));
        fields
    })
}

/// A domain and who is asked for its names.
pub(super) fn in_words(name: &str, servers: &[String]) -> String {
    format!("{name} asked of {}", servers.join(", "))
}

fn desired(dns: &Dns) -> DesiredDns {
    let domains = dns.domains.iter().map(|domain| DesiredDnsDomain {
        name: domain.name.clone(),
        servers: domain.servers.clone(),
    });
    DesiredDns {
        search: dns.search.clone(),
        domains: domains.collect(),
    }
}

/// True if two texts name the same domain.
fn is_same(one: &str, other: &str) -> bool {
    let plain = |text: &str| match text {
        "." => ".".to_owned(),
        text => text.trim_end_matches('.').to_ascii_lowercase(),
    };
    plain(one) == plain(other)
}
