//! `culvert run`: starts a program in an application.

use crate::exit::{Failure, Status};
use crate::service_socket::ClientSocket;
use clap::Args;
use culvert_client::{Request, ask, is_in_application};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Start a program in an application, for which the portal may have rules
///
/// The running client takes this process into the application's cgroup, then it becomes the
/// program. Programs that it starts are in the application too. Root and the group of the client's
/// socket may.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = EXAMPLES)]
pub(crate) struct RunArguments {
    /// The application's name, as rules of the portal have it
    #[arg(long, value_name = "NAME")]
    app: String,

    #[command(flatten)]
    socket: ClientSocket,

    /// The program and its arguments
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

const EXIT_STATUS: &str = "\
Exit status:
  0    that of the program, as any other but these
  2    the command line is wrong
  125  no client answers, or it does not take the program into the application
  126  the program can't be run
  127  there is no such program";

const EXAMPLES: &str = "\
Examples:
  culvert run --app backup -- rsync -a /srv backup.corp.example::store
  culvert run --app backup bash

Exit status:
  0    that of the program, as any other but these
  2    the command line is wrong
  125  no client answers, or it does not take the program into the application
  126  the program can't be run
  127  there is no such program";

/// Carries out `culvert run`; returns where that fails.
pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode, Failure> {
    join(arguments)?;
    let Some((program, rest)) = arguments.command.split_first() else {
        return Err(Failure::new(Status::Usage, "no program is named"));
    };
    // The same process goes on, so no socket of the program is made before it is in the application.
    let error = Command::new(program).args(rest).exec();
    let status = match error.kind() {
        io::ErrorKind::NotFound => Status::ProgramNotFound,
        _ => Status::ProgramNotRun,
    };
    let shown = program.to_string_lossy();
    Err(Failure::new(status, format_args!("{shown}: {error}")))
}

fn join(arguments: &RunArguments) -> Result<(), Failure> {
    let failed = |why: &dyn std::fmt::Display| Failure::new(Status::NotJoined, why);
    let path = arguments.socket.path()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(&error))?;
    runtime
        .block_on(ask(&path, Request::Join(arguments.app.clone())))
        .map_err(|error| failed(&error))?;
    match is_in_application(&arguments.app) {
        Ok(true) => Ok(()),
        Ok(false) => Err(failed(
            &"the client answered, but this process is not in the application: is the client in \
              another container?",
        )),
        Err(error) => Err(failed(&error)),
    }
}
