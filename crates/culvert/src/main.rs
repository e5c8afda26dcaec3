//! The culvert program: its command line.
//!
//! `culvert wg NAME` is a userspace WireGuard ([`wg`]); what carries packets is `culvert-engine`.
//! This crate parses arguments, goes into the background, serves the configuration socket and the
//! metrics, and shows what a running interface does.

#![forbid(unsafe_code)]

mod admin;
mod arguments;
mod client;
mod commands;
mod config_file;
mod confinement;
mod debug;
mod detach;
mod device_sign_in;
mod end;
mod exit;
mod exposition;
mod gateway;
mod help;
mod host_name;
mod http;
mod json;
mod listen_address;
mod listeners;
mod log_files;
mod log_level;
mod logging;
mod netcheck;
mod node_metrics;
mod password_input;
mod ping;
mod portal;
mod proxy;
mod redact;
mod relay;
mod resources;
mod routing_numbers;
mod run;
mod service_socket;
mod settings;
mod status;
mod stored_descriptors;
mod token_input;
mod token_source;
mod toml_file;
mod visible;
mod wg;
mod whole_number;
mod workers;

use arguments::{Arguments, Command};
use clap::CommandFactory;
use exit::Failure;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    culvert_host::keep_to_built_in_name_services();
    let mut words = std::env::args().skip(1);
    // A service starts this program again as its helper; it is no command of anybody else.
    if words.next().as_deref() == Some(culvert_host::SYSTEM_HELPER) {
        return system_helper(&words.collect::<Vec<_>>());
    }
    let arguments = match Arguments::of(std::env::args_os()) {
        Ok(arguments) => arguments,
        // Prints help and version too; the status of a wrong command line is 2.
        Err(error) => error.exit(),
    };
    let configured = arguments.configured(std::env::args_os());
    configured.and_then(run).unwrap_or_else(|failure| {
        // Standard error may be closed; there is nowhere else to say it.
        let _ = writeln!(std::io::stderr(), "culvert: {failure}");
        failure.status.into()
    })
}

fn system_helper(arguments: &[String]) -> ExitCode {
    match culvert_host::run_system_helper(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(
                std::io::stderr(),
                "culvert {}: {error}",
                culvert_host::SYSTEM_HELPER
            );
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    match arguments.command {
        Command::Wg(wg) => wg::run(&wg),
        Command::Portal(portal) => portal::run(portal),
        Command::Client(client) => client::run(client),
        Command::Gateway(gateway) => gateway::run(gateway),
        Command::Relay(relay) => relay::run(relay),
        Command::Status(status) => status::run(&status),
        Command::Resources(resources) => resources::run(&resources),
        Command::Ping(ping) => ping::run(&ping),
        Command::Run(run) => run::run(&run),
        Command::Netcheck(netcheck) => netcheck::run(&netcheck),
        Command::Up(up) => commands::up(&up),
        Command::Down(down) => commands::down(&down),
        Command::SignIn(sign_in) => commands::sign_in(&sign_in),
        Command::SignOut(sign_out) => commands::sign_out(&sign_out),
        Command::Settings(settings) => settings::run(&settings),
        Command::Debug(debug) => debug::run(debug),
        Command::Admin(admin) => admin::run(*admin),
        Command::Completions { shell } => completions(shell),
        Command::ManPages { directory } => man_pages(&directory),
    }
}

fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "culvert", &mut script);
    exit::print(&script)?;
    Ok(ExitCode::SUCCESS)
}

fn man_pages(directory: &Path) -> Result<ExitCode, Failure> {
    clap_mangen::generate_to(help::teach(Arguments::command()), directory).map_err(|error| {
        Failure::io(format_args!("writing into {}", directory.display()), &error)
    })?;
    Ok(ExitCode::SUCCESS)
}
