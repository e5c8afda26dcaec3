//! A password that a person chooses: in a file, on standard input, or at a prompt. Never an argument,
//! which the list of processes and the shell's history would show.

use crate::exit::{Failure, Status};
use crate::token_input::{STANDARD_INPUT, line_of_input};
use culvert_host::read_password_file;
use std::io::IsTerminal;
use std::path::Path;
use zeroize::Zeroizing;

/// The password in a file, or on standard input where that is named; without a file, what somebody types
/// twice.
pub(crate) fn read(path: Option<&Path>) -> Result<Zeroizing<String>, Failure> {
    match path {
        Some(path) if path == Path::new(STANDARD_INPUT) => {
            line("New password, then Enter: ").and_then(filled)
        }
        Some(path) => match read_password_file(path) {
            Ok(password) => Ok(Zeroizing::new(password.expose().to_owned())),
            Err(error) => Err(usage(error)),
        },
        None if std::io::stdin().is_terminal() => at_the_terminal(),
        None => Err(usage(
            "there is no terminal to ask for a password: give --password-file FILE, or - for standard \
             input",
        )),
    }
}

fn at_the_terminal() -> Result<Zeroizing<String>, Failure> {
    let password = filled(line("New password, then Enter: ")?)?;
    let again = line("Once more: ")?;
    match password == again {
        true => Ok(password),
        false => Err(usage("the two are not the same; nothing was changed")),
    }
}

/// A line without its end.
fn line(prompt: &str) -> Result<Zeroizing<String>, Failure> {
    let text =
        line_of_input(prompt).map_err(|error| usage(format_args!("standard input: {error}")))?;
    Ok(Zeroizing::new(
        text.trim_end_matches(['\n', '\r']).to_owned(),
    ))
}

fn filled(password: Zeroizing<String>) -> Result<Zeroizing<String>, Failure> {
    match password.is_empty() {
        true => Err(usage("there is no password; give one line with it")),
        false => Ok(password),
    }
}

fn usage(message: impl std::fmt::Display) -> Failure {
    Failure::new(Status::Usage, message)
}
