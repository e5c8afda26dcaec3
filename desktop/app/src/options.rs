//! The options of the command line.

use std::path::PathBuf;

/// The default path of the service's socket.
const SOCKET: &str = "/run/culvert/culvert.sock";

/// The program that signs in and checks the network, found by `PATH`.
const PROGRAM: &str = "culvert";

const HELP: &str = "\
The window of the Culvert client: sign in, connect, and see your resources.

Usage: culvert-desktop [OPTIONS]

Options:
  --socket PATH    the socket of the service [default: /run/culvert/culvert.sock]
  --program PATH   the program culvert [default: culvert, found by PATH]
  --hidden         begin without a window; a second start shows it
  --version        print the version
  --help           print this text
";

/// The options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The path of the service's socket.
    pub(crate) socket: PathBuf,
    /// The program `culvert`.
    pub(crate) program: PathBuf,
    /// Begin without a window.
    pub(crate) is_hidden: bool,
}

/// The meaning of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// To run.
    Run(Options),
    /// To print a text and end.
    Print(String),
}

/// Reads the command line without the name of the program.
pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Parsed, String> {
    let mut options = Options {
        socket: SOCKET.into(),
        program: PROGRAM.into(),
        is_hidden: false,
    };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let mut value = || {
            arguments
                .next()
                .ok_or(format!("{argument} needs a path after it"))
        };
        match argument.as_str() {
            "--socket" => options.socket = value()?.into(),
            "--program" => options.program = value()?.into(),
            "--hidden" => options.is_hidden = true,
            "--version" => {
                return Ok(Parsed::Print(format!(
                    "culvert-desktop {}\n",
                    env!("CARGO_PKG_VERSION")
                )));
            }
            "--help" | "-h" => return Ok(Parsed::Print(HELP.to_owned())),
            other => {
                return Err(format!(
                    "there is no option {other}; see culvert-desktop --help"
                ));
            }
        }
    }
    Ok(Parsed::Run(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let parse = |line: &str| parse(line.split_whitespace().map(str::to_owned));
        let Ok(Parsed::Run(options)) = parse("--socket /s --program /c --hidden") else {
            panic!("they run");
        };
        assert_eq!((options.socket, options.is_hidden), ("/s".into(), true));
        assert!(parse("--socket").is_err_and(|text| text.contains("--socket")));
        assert!(parse("--sokcet /s").is_err_and(|text| text.contains("--sokcet")));
        assert!(matches!(parse("--help"), Ok(Parsed::Print(_))));
    }
}
