//! `culvert up`, `down`, `sign-in` and `sign-out`: what a client without a token of the administrator's is
//! told to do. Each waits until that is so.

mod wait;

use crate::admin::SecretFile;
use crate::client::failure;
use crate::device_sign_in::{self, Manner, Obtained};
use crate::exit::{Failure, Status as Exit, print};
use crate::json;
use crate::token_input::{self, STANDARD_INPUT};
use crate::visible::visible;
use clap::Args;
use culvert_client::status::Control;
use culvert_client::{Enrolment, Request, SecretText, SignIn, ask_status};
use culvert_wire::token::{CertificatePin, Portal};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wait::{Goal, Wait, runtime};

pub(crate) use wait::OWNER_DISABLED;

/// Connect the client on this machine, now and after each restart
///
/// It waits until the portal has welcomed the client and resources are led into the tunnel. The client
/// must have been started without a token of the administrator's: one that has such a token is up as
/// long as it runs.
#[derive(Debug, Args)]
#[command(after_help = UP_STATUS, after_long_help = UP_EXAMPLES)]
pub(crate) struct UpArguments {
    #[command(flatten)]
    wait: Wait,
}

/// Disconnect the client on this machine, until it is told to go up
///
/// It waits until the host is as it was before.
#[derive(Debug, Args)]
#[command(after_help = DOWN_STATUS, after_long_help = DOWN_EXAMPLES)]
pub(crate) struct DownArguments {
    #[command(flatten)]
    wait: Wait,
}

/// Sign the client on this machine in, and connect it
///
/// With --portal, or at a terminal where the client knows its portal already, it prints a URL and a code:
/// open the URL on any machine, sign in, compare the code and approve it. The client polls the portal
/// meanwhile, and Ctrl-C gives the sign-in up. Otherwise a token is read, from
/// --token-file or standard input, and asked for without showing it where that is a terminal. The client
/// keeps the token in its state directory, and takes the place of whom it was signed in as before.
#[derive(Debug, Args)]
#[command(after_help = UP_STATUS, after_long_help = SIGN_IN_EXAMPLES)]
pub(crate) struct SignInArguments {
    /// The file with the token, mode 0600; "-" is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["portal", "token_out"])]
    token_file: Option<PathBuf>,

    /// Sign in with a browser at this portal: https://HOST or https://HOST:PORT
    #[arg(long, value_name = "URL")]
    portal: Option<String>,

    /// The SHA-256 of the portal's certificate, as the portal prints it when it starts
    ///
    /// Without it, an authority that this system trusts has to vouch for the certificate.
    // One in 64 begins with a hyphen.
    #[arg(
        long,
        value_name = "SHA256",
        requires = "portal",
        allow_hyphen_values = true
    )]
    certificate: Option<CertificatePin>,

    /// Open no browser on this machine
    #[arg(long)]
    no_browser: bool,

    /// Write the token into FILE, mode 0600, instead of giving it to the client; FILE must not be there yet
    #[arg(long, value_name = "FILE", requires = "portal")]
    token_out: Option<PathBuf>,

    #[command(flatten)]
    wait: Wait,
}

/// Disconnect the client on this machine, and have it forget its token
///
/// The token stays good until an administrator revokes it.
#[derive(Debug, Args)]
#[command(after_help = DOWN_STATUS, after_long_help = SIGN_OUT_EXAMPLES)]
pub(crate) struct SignOutArguments {
    #[command(flatten)]
    wait: Wait,
}

/// Exit statuses of commands that bring the client up.
macro_rules! up_status {
    () => {
        "\
Exit status:
  0  it is up
  1  no client answers, it may not be told so by this user or at all, or something failed
  2  the command line is wrong
  3  there is no token, or the portal does not accept it
  4  the portal can't be reached yet, or is another than the token names
  5  an administrator has revoked this client"
    };
}

/// Exit statuses of commands that bring the client down.
macro_rules! down_status {
    () => {
        "\
Exit status:
  0  it is so
  1  no client answers, it may not be told so by this user or at all, or something failed
  2  the command line is wrong"
    };
}

const UP_STATUS: &str = up_status!();

const UP_EXAMPLES: &str = concat!(
    "\
Examples:
  culvert up
  culvert up --timeout 5 || culvert netcheck

",
    up_status!()
);

const SIGN_IN_EXAMPLES: &str = concat!(
    "\
Examples:
  culvert sign-in --portal https://portal.example.com
  culvert sign-in --portal https://192.0.2.10:8443 --certificate 1KS-JH2dFWy6w02HNBrZZWfEo7teceA-zsiiMLyk0tI --token-out laptop.token
  culvert sign-in --token-file laptop.token
  pass show culvert | culvert sign-in --json

",
    up_status!()
);

const DOWN_STATUS: &str = down_status!();

const DOWN_EXAMPLES: &str = concat!(
    "\
Examples:
  culvert down
  culvert down --json | jq -r .service.state

",
    down_status!()
);

const SIGN_OUT_EXAMPLES: &str = concat!(
    "\
Examples:
  culvert sign-out

",
    down_status!()
);

/// Carries out `culvert up`.
pub(crate) fn up(arguments: &UpArguments) -> Result<ExitCode, Failure> {
    arguments.wait.execute(Request::Up, Goal::Up)
}

/// Carries out `culvert down`.
pub(crate) fn down(arguments: &DownArguments) -> Result<ExitCode, Failure> {
    arguments.wait.execute(Request::Down, Goal::Down)
}

/// Carries out `culvert sign-in`.
pub(crate) fn sign_in(arguments: &SignInArguments) -> Result<ExitCode, Failure> {
    let token = match (&arguments.token_file, arguments.portal()?) {
        (Some(path), _) => token_input::read(path)?,
        (None, None) => token_input::read(Path::new(STANDARD_INPUT))?,
        (None, Some(portal)) => return arguments.with_browser(portal),
    };
    Enrolment::from_token(token.trim()).map_err(|error| failure(&error))?;
    let request = Request::SignIn(SignIn::Token(SecretText::new(token)));
    arguments.wait.execute(request, Goal::Up)
}

/// Carries out `culvert sign-out`.
pub(crate) fn sign_out(arguments: &SignOutArguments) -> Result<ExitCode, Failure> {
    arguments.wait.execute(Request::SignOut, Goal::SignedOut)
}

impl SignInArguments {
    /// Signs in with a browser.
    fn with_browser(&self, portal: Portal) -> Result<ExitCode, Failure> {
        let wait = &self.wait;
        let manner = Manner {
            json: wait.json,
            no_browser: self.no_browser,
        };
        let runtime = runtime()?;
        if let Some(out) = &self.token_out {
            // Every error that can be found here is found before somebody signs in.
            let file = SecretFile::create(out)?;
            let obtained = runtime.block_on(device_sign_in::obtain(portal, manner))?;
            return self.written(file, &obtained);
        }
        let socket = wait.socket.path()?;
        let status = runtime.block_on(ask_status(&socket));
        let status = status.map_err(|error| Failure::new(Exit::Failed, error))?;
        let is_older = status.service.control == Control::Commands && !status.service.signs_in;
        if is_older {
            let obtained = runtime.block_on(device_sign_in::obtain(portal, manner))?;
            let token = SecretText::new(obtained.token);
            return wait.execute(Request::SignIn(SignIn::Token(token)), Goal::Up);
        }
        runtime.block_on(device_sign_in::by_service(&socket, &portal, manner))?;
        wait.execute(Request::Status, Goal::Up)
    }

    /// Says that the token is in a file.
    fn written(&self, file: SecretFile, obtained: &Obtained) -> Result<ExitCode, Failure> {
        let token_file = file.write(&obtained.token)?;
        let actor = obtained.actor.as_str();
        print(self.line_of(token_file, actor)?.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }

    fn line_of(&self, token_file: PathBuf, actor: &str) -> Result<String, Failure> {
        match self.wait.json {
            true => json::line(&Written { token_file, actor }),
            false => {
                let text = format!("the token of {actor} is in {}", token_file.display());
                Ok(format!("{}\n", visible(&text)))
            }
        }
    }

    /// The portal at which somebody is to sign in with a browser; nothing where a token is to be read.
    fn portal(&self) -> Result<Option<Portal>, Failure> {
        if self.token_file.is_some() {
            return Ok(None);
        }
        let usage = |error| Failure::new(Exit::Usage, error);
        if let Some(url) = &self.portal {
            let portal = Portal::new(url, self.certificate).map_err(usage)?;
            return Ok(Some(portal));
        }
        if !std::io::stdin().is_terminal() {
            return Ok(None);
        }
        let socket = self.wait.socket.path()?;
        // Without an answer nothing is known; that it is missing is said where the token is handed over.
        let Ok(status) = runtime()?.block_on(ask_status(&socket)) else {
            return Ok(None);
        };
        if status.portal_url.is_empty() {
            return Ok(None);
        }
        let pin = status.portal_pin.as_deref().map(str::parse).transpose();
        let pin: Option<CertificatePin> = pin.map_err(usage)?;
        Portal::new(&status.portal_url, pin)
            .map(Some)
            .map_err(usage)
    }
}

/// The result of `--token-out`, for programs.
#[derive(Serialize)]
struct Written<'a> {
    token_file: PathBuf,
    actor: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct SignInLine {
        #[command(flatten)]
        arguments: SignInArguments,
    }

    #[test]
    fn a_certificate_whose_hash_begins_with_a_hyphen_is_one() {
        use clap::Parser;
        for begin in ["-W", "--", "_-"] {
            let pin = format!("{begin}{}", "A".repeat(41));
            let line = [
                "sign-in",
                "--portal",
                "https://192.0.2.1",
                "--certificate",
                &pin,
                "--json",
            ];
            let parsed = SignInLine::try_parse_from(line).unwrap().arguments;
            assert!(parsed.certificate.is_some() && parsed.wait.json);
        }
    }

    #[test]
    fn a_token_in_a_file_is_told_of_in_one_line() {
        use clap::Parser;
        let lines = [&["sign-in"][..], &["sign-in", "--json"]].map(|words| {
            let parsed = SignInLine::try_parse_from(words).unwrap().arguments;
            parsed.line_of("/run/token".into(), "ada").unwrap()
        });
        assert_eq!(lines[0], "the token of ada is in /run/token\n");
        assert_eq!(lines[1].lines().count(), 1, "{:?}", lines[1]);
        let written: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
        assert_eq!(written["token_file"], "/run/token");
        assert_eq!(written["actor"], "ada");
    }
}
