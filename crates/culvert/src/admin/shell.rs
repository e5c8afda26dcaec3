//! The options of every command, and the way to the portal that they name.

use super::api::Api;
use super::credentials;
use super::http::Http;
use super::output::Format;
use crate::exit::Failure;
use crate::token_input::STANDARD_INPUT;
use clap::Args;
use culvert_wire::token::{CertificatePin, Portal, Token};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(super) struct CommonArguments {
    /// The file with the API token, mode 0600, or - for standard input
    ///
    /// Without it, CULVERT_ADMIN_TOKEN may hold the token itself; without that, the one counts that
    /// "setup" or "login" saved. "setup" and "login" take their token from here alone.
    #[arg(
        long,
        value_name = "FILE",
        env = "CULVERT_ADMIN_TOKEN_FILE",
        global = true
    )]
    pub(super) token_file: Option<PathBuf>,

    /// URL of the portal: https://HOST or https://HOST:PORT
    ///
    /// Without it, where the token says. The certificate must be the one that the token names in either
    /// case, unless --certificate names another.
    #[arg(long, value_name = "URL", env = "CULVERT_ADMIN_PORTAL", global = true)]
    pub(super) portal: Option<String>,

    /// SHA-256 of the portal's certificate, if it was exchanged after the token was made
    ///
    /// "culvert portal certificate" prints it on the portal's machine.
    #[arg(
        long,
        value_name = "SHA256",
        env = "CULVERT_ADMIN_CERTIFICATE",
        allow_hyphen_values = true,
        global = true
    )]
    certificate: Option<CertificatePin>,

    /// Print one line of JSON with a schema_version; of logs, an entry a line
    #[arg(long, global = true)]
    json: bool,

    /// The earlier spelling of --json, for scripts that have it: table or json
    #[arg(
        long,
        short,
        value_name = "FORMAT",
        env = "CULVERT_ADMIN_OUTPUT",
        value_enum,
        default_value_t = Format::Table,
        hide = true,
        global = true
    )]
    output: Format,
}

/// The parts that all commands share: the portal to ask and the form of the answer.
pub(super) struct Shell {
    pub(super) api: Api,
    pub(super) format: Format,
}

impl CommonArguments {
    /// The format of results.
    pub(super) fn format(&self) -> Format {
        match self.json {
            true => Format::Json,
            false => self.output,
        }
    }

    /// True if the token is read from standard input.
    pub(super) fn token_on_input(&self) -> bool {
        self.token_file.as_deref() == Some(Path::new(STANDARD_INPUT))
    }

    /// The portal that the token leads to, unless another address or certificate of it is named.
    pub(super) fn portal_of(&self, token: &Token) -> Result<Portal, Failure> {
        let portal = credentials::portal_of(token, self.portal.as_deref())?;
        Ok(Portal {
            pin: self.certificate.or(portal.pin),
            ..portal
        })
    }

    /// The portal's API, by the token that is at hand. Nothing is sent yet.
    pub(super) fn shell(&self) -> Result<Shell, Failure> {
        let token = credentials::api_token(self.token_file.as_deref())?;
        let portal = self.portal_of(&token)?;
        Ok(Shell {
            api: Api::new(Http::new(portal, token.bearer)),
            format: self.format(),
        })
    }
}
