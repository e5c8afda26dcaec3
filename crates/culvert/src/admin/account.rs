//! `culvert admin account`.

use super::api::Query;
use super::common::{Switch, ask, can_ask, on_or_off, something, usage};
use super::output::{instant, note};
use super::shell::Shell;
use super::words::{Lifetime, applications, parse_applications, parse_lifetime};
use crate::exit::Failure;
use clap::{Args, Subcommand, ValueEnum};
use culvert_base::quoted;
use culvert_wire::api::{AccountPatch, EndedAccess, Gateway, PathRule, SecondFactorRule};
use culvert_wire::model::Applications;

/// The account: its name, how long grants last, the networks of the tunnel, and who may use it
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum AccountCommand {
    /// Show the account, with the networks that are used inside the tunnel
    Show,
    /// Rename the account, change how long grants last, the networks of the tunnel or who may use it
    Set(SetArguments),
}

#[derive(Debug, Args)]
pub(super) struct SetArguments {
    /// Its new name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Lifetime of a grant that is not renewed: 1m to 24h, such as 30m
    ///
    /// So long does access go on without the portal, and so long may a gateway that hears nothing of the
    /// portal keep a grant that was revoked. Grants that are out keep their ends.
    #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
    grant_lifetime: Option<Lifetime>,
    /// The IPv4 network inside the tunnel, such as 10.20.0.0/16: /8 to /23
    ///
    /// Machines have the first half of it, names of resources the second. It must be in use nowhere else:
    /// neither where machines are, nor as a resource. All clients and gateways connect again, with new
    /// addresses; connections through the tunnel end.
    #[arg(long, value_name = "NETWORK")]
    range4: Option<String>,
    /// The IPv6 network inside the tunnel, such as fd12:3456:789a::/48: /8 to /119
    #[arg(long, value_name = "NETWORK")]
    range6: Option<String>,
    /// The programs of a client that may use the tunnel at all: any, only:backup,sync or except:browser
    ///
    /// It holds for every resource, together with what the resource itself says.
    #[arg(long, value_name = "WHICH", value_parser = parse_applications)]
    applications: Option<Applications>,
    /// People who must have a second factor besides a password: off, administrators (all roles but
    /// user) or everybody
    ///
    /// Without one, a person can do nothing in the console but set one up. API tokens are not
    /// concerned.
    #[arg(long, value_name = "WHO", value_enum, hide_possible_values = true)]
    second_factor: Option<SecondFactor>,
    /// Require an administrator's "culvert admin gateway verify" before a gateway gets access: on or off
    ///
    /// It verifies none. Gateways that are not verified are listed first, and lose all access at once.
    #[arg(long, value_name = "ON|OFF", value_enum, hide_possible_values = true)]
    require_verified_gateways: Option<Switch>,
    /// Paths between clients and gateways that are allowed: any, direct (no relays) or relayed (relays alone)
    ///
    /// With "relayed", neither end is told the other's addresses. Clients and gateways of earlier versions, and all of
    /// them without a relay, have no access then.
    #[arg(long, value_name = "PATHS", value_enum, hide_possible_values = true)]
    paths: Option<Paths>,
    /// Traffic to where a client's access has ended: refuse, or release (it leaves outside of the tunnel)
    ///
    /// A resource was deleted, or no policy gives it to a person any more. With "refuse", clients that had it refuse its
    /// traffic until they go down. With "release", it leaves by the machine's own routes, unencrypted.
    #[arg(long, value_name = "RULE", value_enum, hide_possible_values = true)]
    ended_access: Option<WhenEnded>,
    /// People add plain WireGuard devices of their own in the console: on or off
    #[arg(long, value_name = "ON|OFF", value_enum, hide_possible_values = true)]
    own_devices: Option<Switch>,
    /// Do not ask whether gateways that are not verified may lose access
    #[arg(long, short, requires = "require_verified_gateways")]
    yes: bool,
    /// Only if it is still at version N, as "show" said
    #[arg(long, value_name = "N", value_parser = crate::whole_number::version)]
    if_version: Option<u64>,
}

/// The people who must have a second factor, as the command line names them.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum SecondFactor {
    Off,
    Administrators,
    Everybody,
}

impl From<SecondFactor> for SecondFactorRule {
    fn from(who: SecondFactor) -> Self {
        match who {
            SecondFactor::Off => Self::Off,
            SecondFactor::Administrators => Self::Administrators,
            SecondFactor::Everybody => Self::Everybody,
        }
    }
}

/// The treatment of traffic to where access has ended, as the command line names it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum WhenEnded {
    Refuse,
    Release,
}

impl From<WhenEnded> for EndedAccess {
    fn from(rule: WhenEnded) -> Self {
        match rule {
            WhenEnded::Refuse => Self::Refuse,
            WhenEnded::Release => Self::Release,
        }
    }
}

const fn ended_access(rule: EndedAccess) -> &'static str {
    match rule {
        EndedAccess::Refuse => "refuse",
        EndedAccess::Release => "release",
    }
}

/// The paths that are allowed, as the command line names them.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Paths {
    Any,
    Direct,
    Relayed,
}

impl From<Paths> for PathRule {
    fn from(paths: Paths) -> Self {
        match paths {
            Paths::Any => Self::Any,
            Paths::Direct => Self::Direct,
            Paths::Relayed => Self::Relayed,
        }
    }
}

const fn paths(rule: PathRule) -> &'static str {
    match rule {
        PathRule::Any => "any",
        PathRule::Direct => "direct",
        PathRule::Relayed => "relayed",
    }
}

const fn rule(rule: SecondFactorRule) -> &'static str {
    match rule {
        SecondFactorRule::Off => "off",
        SecondFactorRule::Administrators => "administrators",
        SecondFactorRule::Everybody => "everybody",
    }
}

const EXAMPLES: &str = "\
Examples:
  culvert admin account show
  culvert admin account set --grant-lifetime 30m
  culvert admin account set --range4 10.20.0.0/16 --range6 fd12:3456:789a::/48
  culvert admin account set --applications except:browser
  culvert admin account set --second-factor administrators
  culvert admin account set --require-verified-gateways on
  culvert admin account set --paths direct
  culvert admin account set --ended-access release
  culvert admin account set --own-devices on
  culvert admin account set --name \"Example Ltd\"";

pub(super) async fn run(shell: &mut Shell, command: AccountCommand) -> Result<(), Failure> {
    let found = shell.api.account().await?;
    match command {
        AccountCommand::Show => shell.format.record(&found, || {
            let ranges = &found.ranges;
            let both = |v4: &str, v6: &str| format!("{v4}, {v6}");
            vec![
                ("id", found.id.to_string()),
                ("name", found.name.clone()),
                ("grant lifetime", format!("{} s", found.grant_lifetime_s)),
                (
                    "machines",
                    both(&ranges.machines_ipv4, &ranges.machines_ipv6),
                ),
                ("names", both(&ranges.names_ipv4, &ranges.names_ipv6)),
                ("applications", applications(&found.applications)),
                ("second factor", rule(found.second_factor).to_owned()),
                (
                    "verified gateways",
                    match found.require_verified_gateways {
                        true => "required".to_owned(),
                        false => "not required".to_owned(),
                    },
                ),
                ("paths", paths(found.paths).to_owned()),
                ("ended access", ended_access(found.ended_access).to_owned()),
                ("own devices", on_or_off(found.own_devices).to_owned()),
                ("created", instant(Some(found.created))),
                ("changed", instant(Some(found.updated))),
                ("version", found.version.to_string()),
            ]
        }),
        AccountCommand::Set(set) => {
            let require = set.require_verified_gateways.map(|on| on == Switch::On);
            if require == Some(true) && !found.require_verified_gateways {
                confirm_cut(shell, set.yes).await?;
            }
            let patch = something(AccountPatch {
                name: set.name,
                grant_lifetime_s: set.grant_lifetime.map(|Lifetime { seconds }| seconds),
                range4: set.range4,
                range6: set.range6,
                applications: set.applications,
                dns: None,
                second_factor: set.second_factor.map(SecondFactorRule::from),
                require_verified_gateways: require,
                paths: set.paths.map(PathRule::from),
                ended_access: set.ended_access.map(EndedAccess::from),
                own_devices: set.own_devices.map(|on| on == Switch::On),
            })?;
            let version = set.if_version.unwrap_or(found.version);
            let changed = shell.api.change_account(version, &patch).await?;
            let sentence = format!("account {} changed ({})", quoted(&changed.name), changed.id);
            shell.format.done(&changed, sentence)
        }
    }
}

/// Says which gateways are about to lose access, and asks.
async fn confirm_cut(shell: &mut Shell, is_agreed: bool) -> Result<(), Failure> {
    let mut gateways: Vec<Gateway> = shell.api.list(&Query::default()).await?;
    gateways.retain(|gateway| gateway.revoked.is_none() && gateway.verified.is_none());
    if gateways.is_empty() {
        return Ok(());
    }
    note("These gateways are not verified:");
    for gateway in &gateways {
        let Gateway {
            name,
            fingerprint,
            id,
            ..
        } = gateway;
        let name = quoted(name);
        note(format_args!("  {name} with the key {fingerprint} ({id})"));
    }
    if is_agreed {
        return Ok(());
    }
    if !can_ask(shell.format) {
        return Err(usage(
            "gateways that are not verified would lose access: verify them first (`culvert admin gateway \
             verify`), or add --yes",
        ));
    }
    ask("They lose all access at once")
}
