//! `culvert admin`: the administrator's shell, over the portal's API.
//!
//! A command asks the portal, prints the answer, and ends. It keeps no state but a token.
//! `docs/access-toml.md` describes the file that `culvert admin apply` takes.

mod access_file;
mod account;
mod actors;
mod api;
mod apply;
mod clients;
mod common;
mod condition_arguments;
mod credentials;
mod diff;
mod dns;
mod explain;
mod first_start;
mod gateways;
mod groups;
pub(crate) mod http;
mod interrupt;
mod invitations;
mod login;
mod logs;
mod one_or_more;
mod output;
mod passwords;
mod plain_clients;
mod policies;
mod policy_entry;
mod portals;
mod providers;
mod relays;
mod resources;
mod retention;
mod shell;
mod sinks;
mod sites;
mod status;
mod tokens;
mod words;

use crate::exit::{Failure, Status};
use crate::help::ADMIN_EXIT_STATUS;
use clap::{Args, Subcommand};
use shell::CommonArguments;
use std::process::ExitCode;

pub(crate) use credentials::SecretFile;
pub(crate) use first_start::FirstStart;

/// Administrate a portal: who may use what
///
/// Everything that a portal manages is declared here, thing by thing or all of it in one file
/// ("culvert admin apply"). Things are named by their names or by their ids.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = ADMIN_EXIT_STATUS,
    after_long_help = EXAMPLES
)]
pub(crate) struct AdminArguments {
    #[command(flatten)]
    common: CommonArguments,
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Debug, Subcommand)]
enum AdminCommand {
    Setup(login::SetupArguments),
    Login(login::LoginArguments),
    Logout(login::LogoutArguments),
    #[command(subcommand)]
    Account(account::AccountCommand),
    #[command(subcommand)]
    Dns(dns::DnsCommand),
    #[command(subcommand)]
    Actor(actors::ActorCommand),
    Password(passwords::PasswordArguments),
    #[command(subcommand)]
    Group(groups::GroupCommand),
    #[command(subcommand)]
    Provider(providers::ProviderCommand),
    #[command(subcommand)]
    Site(sites::SiteCommand),
    #[command(subcommand)]
    Resource(resources::ResourceCommand),
    #[command(subcommand)]
    Policy(policies::PolicyCommand),
    #[command(subcommand)]
    Token(tokens::TokenCommand),
    #[command(subcommand)]
    Client(clients::ClientCommand),
    #[command(subcommand)]
    PlainClient(plain_clients::PlainClientCommand),
    #[command(subcommand)]
    Gateway(gateways::GatewayCommand),
    #[command(subcommand)]
    Relay(relays::RelayCommand),
    Apply(apply::ApplyArguments),
    Explain(explain::ExplainArguments),
    Status(status::StatusArguments),
    #[command(subcommand)]
    Portal(portals::PortalCommand),
    #[command(subcommand)]
    Log(logs::LogCommand),
    #[command(subcommand)]
    Retention(retention::RetentionCommand),
    #[command(subcommand)]
    Sink(sinks::SinkCommand),
}

const EXAMPLES: &str = "\
Examples:
  Become the owner of a new portal, with the set-up token that it printed:
    culvert admin setup --token-file -

  Let the machines of the group \"build\" use a database in the office:
    culvert admin site create office
    culvert admin resource create db --site office --address 10.1.2.3 --allow tcp:5432
    culvert admin actor create ci --kind service-account
    culvert admin group create build --member ci
    culvert admin policy create --group build --resource db

  Tokens for the gateway in the office and for the machine:
    culvert admin token create --kind gateway --site office --out gateway.token
    culvert admin token create --kind client --actor ci --out ci.token

  See why it works, or why not:
    culvert admin explain --client ci-1 --resource db

  All of it in one file:
    culvert admin apply -f access.toml

  For programs:
    culvert admin resource list --json | jq -r '.items[].address'

Exit status:
  0  done
  1  something failed, or there is no such thing
  2  the command line or the file is wrong
  3  there is no token, or the portal does not accept it
  4  the portal cannot be reached, or is another one than the token names
  5  denied: by the token's role, or what \"explain\" explains";

/// Carries out `culvert admin`.
pub(crate) fn run(arguments: AdminArguments) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Status::Failed, format_args!("starting: {error}")))?;
    runtime.block_on(dispatch(arguments))
}

async fn dispatch(arguments: AdminArguments) -> Result<ExitCode, Failure> {
    let common = arguments.common;
    let done = match arguments.command {
        AdminCommand::Setup(setup) => login::set_up(&common, setup).await,
        AdminCommand::Login(login) => login::log_in(&common, &login).await,
        AdminCommand::Logout(_) => login::log_out(common.format()),
        AdminCommand::Account(command) => account::run(&mut common.shell()?, command).await,
        AdminCommand::Dns(command) => dns::run(&mut common.shell()?, command).await,
        AdminCommand::Actor(command) => actors::run(&mut common.shell()?, command).await,
        AdminCommand::Password(arguments) => {
            if common.token_on_input() && arguments.on_input() {
                return Err(common::usage(
                    "standard input is one line: token or password",
                ));
            }
            passwords::run(&mut common.shell()?, arguments).await
        }
        AdminCommand::Group(command) => groups::run(&mut common.shell()?, command).await,
        AdminCommand::Provider(command) => providers::run(&mut common.shell()?, command).await,
        AdminCommand::Site(command) => sites::run(&mut common.shell()?, command).await,
        AdminCommand::Resource(command) => resources::run(&mut common.shell()?, command).await,
        AdminCommand::Policy(command) => policies::run(&mut common.shell()?, command).await,
        AdminCommand::Token(command) => tokens::run(&mut common.shell()?, command).await,
        AdminCommand::Client(command) => clients::run(&mut common.shell()?, command).await,
        AdminCommand::PlainClient(command) => {
            plain_clients::run(&mut common.shell()?, command).await
        }
        AdminCommand::Gateway(command) => gateways::run(&mut common.shell()?, command).await,
        AdminCommand::Relay(command) => relays::run(&mut common.shell()?, command).await,
        AdminCommand::Apply(apply) => apply::run(&common, &apply).await,
        AdminCommand::Explain(explain) => {
            return explain::run(&mut common.shell()?, &explain).await;
        }
        AdminCommand::Status(_) => status::run(&mut common.shell()?).await,
        AdminCommand::Portal(command) => portals::run(&mut common.shell()?, command).await,
        AdminCommand::Log(command) => logs::run(&mut common.shell()?, command).await,
        AdminCommand::Retention(command) => retention::run(&mut common.shell()?, command).await,
        AdminCommand::Sink(command) => sinks::run(&mut common.shell()?, command).await,
    };
    done.map(|()| ExitCode::SUCCESS)
}
