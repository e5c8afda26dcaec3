//! Where a machine's token comes from: a file, or the environment.

use crate::exit::{Failure, Status};
use culvert_host::{FileRefusal, HostError, read_token_file};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use zeroize::Zeroizing;

/// The variable that may hold the token itself.
const TOKEN_VARIABLE: &str = "CULVERT_TOKEN";

/// Says to the process that takes the place of this one that the token is its standard input.
const ON_INPUT_VARIABLE: &str = "CULVERT_TOKEN_ON_INPUT";

/// The longest token that is taken from the environment, in bytes: as long as one in a file. A pipe
/// holds it whole.
const MAX_TOKEN_LEN: u64 = 4096;

/// The token: from the file that was named, else from CULVERT_TOKEN, else from `usual`. `program` says
/// whose token it is, for the fix.
///
/// A process cannot take a variable out of the environment that the kernel shows others of it. One
/// that was started with CULVERT_TOKEN therefore starts itself anew without it and hands the token on
/// through a pipe. To be called before there are threads.
pub(crate) fn token(
    named: Option<&Path>,
    usual: &Path,
    program: &str,
) -> Result<Zeroizing<String>, Failure> {
    let path = match named {
        Some(path) => path,
        None => {
            if std::env::var_os(ON_INPUT_VARIABLE).is_some() {
                return from_input();
            }
            if let Some(token) = std::env::var_os(TOKEN_VARIABLE) {
                let token = token.into_string().map(Zeroizing::new);
                let token = token.map_err(|_| no_token("CULVERT_TOKEN is no token"))?;
                return Err(start_anew(&token));
            }
            usual
        }
    };
    match read_token_file(path) {
        Ok(token) => Ok(Zeroizing::new(token.expose().to_owned())),
        Err(HostError::FileRefused(refused)) if refused.refusal == FileRefusal::Missing => {
            let path = path.display();
            Err(no_token(format_args!(
                "no token: {path} does not exist; write the {program}'s token into it \
                 (chmod 600), or name another file by --token-file"
            )))
        }
        Err(error) => Err(no_token(error)),
    }
}

fn no_token(message: impl std::fmt::Display) -> Failure {
    Failure::new(Status::NotEnrolled, message)
}

fn from_input() -> Result<Zeroizing<String>, Failure> {
    let mut token = Zeroizing::new(String::with_capacity(MAX_TOKEN_LEN as usize));
    let mut input = std::io::stdin().lock().take(MAX_TOKEN_LEN);
    let read = input.read_to_string(&mut token);
    read.map_err(|error| Failure::io("reading the token", &error))?;
    Ok(token)
}

/// Only returns where it fails.
fn start_anew(token: &str) -> Failure {
    if token.len() as u64 > MAX_TOKEN_LEN {
        return no_token("CULVERT_TOKEN is longer than a token; copy it whole and alone");
    }
    let started = std::io::pipe().and_then(|(reader, mut writer)| {
        writer.write_all(token.as_bytes())?;
        drop(writer);
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command
            .args(std::env::args_os().skip(1))
            .env_remove(TOKEN_VARIABLE)
            .env(ON_INPUT_VARIABLE, "1")
            .stdin(Stdio::from(reader));
        Err::<(), _>(command.exec())
    });
    match started {
        Err(error) => Failure::io("starting without CULVERT_TOKEN in the environment", &error),
        Ok(()) => no_token("CULVERT_TOKEN could not be handed on"),
    }
}
