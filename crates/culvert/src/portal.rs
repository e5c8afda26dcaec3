//! `culvert portal`: its commands.

mod backup;
mod certificate;
mod common;
mod database;
mod migrate;
mod own_relay;
mod run;
mod schema;
mod secrets;
mod setup_token;

use crate::exit::{Failure, Status, print};
use crate::logging;
use clap::{Args, Subcommand};
use common::EXIT_STATUS;
use std::process::ExitCode;

/// Run the portal, which knows who may use what
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = EXIT_STATUS
)]
pub(crate) struct PortalArguments {
    #[command(subcommand)]
    command: PortalCommand,
}

#[derive(Debug, Subcommand)]
enum PortalCommand {
    Run(Box<run::RunArguments>),
    SetupToken(setup_token::SetupTokenArguments),
    Backup(backup::BackupArguments),
    Restore(backup::RestoreArguments),
    Migrate(migrate::MigrateArguments),
    Schema(schema::SchemaArguments),
    Certificate(Box<certificate::CertificateArguments>),
    Secrets(secrets::SecretsArguments),
    /// Print the document that describes the REST API (OpenAPI 3.1)
    #[command(after_help = OPENAPI_EXAMPLES)]
    Openapi,
}

const OPENAPI_EXAMPLES: &str = "\
Examples:
  culvert portal openapi > openapi.json

Exit status:
  0  done
  1  something failed
  2  the command line is wrong";

/// Carries out `culvert portal`.
pub(crate) fn run(arguments: PortalArguments) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("portal")
        .build()
        .map_err(|error| Failure::new(Status::Failed, format_args!("starting threads: {error}")))?;
    match arguments.command {
        PortalCommand::Run(run) => {
            logging::start_service(run.log_level, &logging::Destination::StandardError)?;
            let descriptors =
                culvert_host::raise_descriptors(culvert_portal_base::DESCRIPTORS_NEEDED);
            runtime.block_on(run::serve(*run, descriptors))
        }
        PortalCommand::SetupToken(arguments) => runtime.block_on(setup_token::run(&arguments)),
        PortalCommand::Backup(arguments) => runtime.block_on(backup::back_up(&arguments)),
        PortalCommand::Restore(arguments) => runtime.block_on(backup::restore(&arguments)),
        PortalCommand::Migrate(arguments) => runtime.block_on(migrate::run(&arguments)),
        PortalCommand::Schema(arguments) => runtime.block_on(schema::run(&arguments)),
        PortalCommand::Certificate(arguments) => runtime.block_on(certificate::run(*arguments)),
        PortalCommand::Secrets(arguments) => runtime.block_on(secrets::run(arguments)),
        PortalCommand::Openapi => {
            print(culvert_portal::openapi().as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
