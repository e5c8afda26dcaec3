//! `culvert admin setup`, `login` and `logout`: where the token comes from, and where it is kept.

use super::api::{Api, Query};
use super::common::usage;
use super::credentials::{Profile, SecretFile, named_token};
use super::http::{Http, RequestError};
use super::interrupt::uninterrupted;
use super::output::{Format, note, print_json, print_line};
use super::shell::CommonArguments;
use crate::exit::{Failure, Status, print_once};
use crate::password_input;
use crate::token_input::STANDARD_INPUT;
use clap::Args;
use culvert_base::quoted;
use culvert_wire::api::{Account, Actor, ProblemKind, SetupAnswer, SetupRequest, Token};
use culvert_wire::token::TokenKind;
use serde::Serialize;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Become the owner of a portal, by its set-up token
///
/// The portal prints the token when it starts for the first time ("culvert portal setup-token" makes
/// another). It is good for this once. The owner's API token is saved in ~/.config/culvert/admin.token,
/// mode 0600, and later commands use it.
#[derive(Debug, Args)]
#[command(after_help = SETUP_EXAMPLES)]
pub(super) struct SetupArguments {
    /// Name of the owner
    #[arg(
        long,
        value_name = "NAME",
        env = "USER",
        hide_env = true,
        default_value = "owner"
    )]
    owner: String,
    /// Name of the account
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Have the owner sign in to the console as well, with the password in FILE, mode 0600, one line
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Write the API token to FILE, mode 0600, instead of saving it; FILE must not be there yet
    #[arg(long, value_name = "FILE", conflicts_with = "replace")]
    out: Option<PathBuf>,
    /// Save it in the place of a token that was saved before
    #[arg(long)]
    replace: bool,
}

/// Save an API token for later commands
///
/// The portal is asked whether it accepts the token, which is then saved in
/// ~/.config/culvert/admin.token, mode 0600.
#[derive(Debug, Args)]
#[command(after_help = LOGIN_EXAMPLES)]
pub(super) struct LoginArguments {
    /// Save it in the place of a token that was saved before
    #[arg(long)]
    replace: bool,
}

/// Forget the saved token; it stays good until it is revoked
#[derive(Debug, Args)]
#[command(after_help = LOGOUT_EXAMPLES)]
pub(super) struct LogoutArguments {}

const SETUP_EXAMPLES: &str = "\
Examples:
  culvert admin setup --token-file - --owner ada
  culvert admin setup --token-file setup.token --password-file ada.password
  culvert admin setup --token-file setup.token --account \"Example Ltd\"";

const LOGIN_EXAMPLES: &str = "\
Examples:
  culvert admin login --token-file -
  culvert admin login --token-file ada.token --replace";

const LOGOUT_EXAMPLES: &str = "\
Examples:
  culvert admin logout";

/// The outcome that is not known after Ctrl-C.
const UNKNOWN: &str = "whether the set-up token was used is unknown: try again, and where it is no longer \
                       accepted, make another by `culvert portal setup-token` on the portal's machine";

/// The objects that set-up created; the token's secret is in `file`.
#[derive(Serialize)]
struct SetUp<'a> {
    account: &'a Account,
    owner: &'a Actor,
    token: &'a Token,
    file: PathBuf,
}

#[derive(Serialize)]
struct LoggedIn<'a> {
    account: &'a Account,
    portal: &'a str,
    file: PathBuf,
}

#[derive(Serialize)]
struct LoggedOut {
    file: PathBuf,
}

/// The place in which the owner's token is put.
pub(super) enum Place {
    Profile(Profile),
    File(SecretFile),
}

impl Place {
    fn keep(self, secret: &str) -> Result<PathBuf, Failure> {
        match self {
            Self::Profile(profile) => profile.save(secret).and_then(|()| Profile::path()),
            Self::File(file) => file.write(secret),
        }
    }
}

pub(super) async fn set_up(
    common: &CommonArguments,
    arguments: SetupArguments,
) -> Result<(), Failure> {
    let token = named_token(common.token_file.as_deref(), TokenKind::Setup)?;
    let portal = common.portal_of(&token)?;
    let password = match &arguments.password_file {
        Some(path) if path == Path::new(STANDARD_INPUT) && common.token_on_input() => {
            return Err(usage("standard input is one line: token or password"));
        }
        Some(path) => Some(password_input::read(Some(path))?),
        None => None,
    };
    // The set-up token is good for one attempt: what can go wrong here goes wrong before it.
    let place = match &arguments.out {
        Some(path) => Place::File(SecretFile::create(path)?),
        None => Place::Profile(profile(arguments.replace)?),
    };
    let mut api = Api::new(Http::new(portal, token.bearer));
    let request = SetupRequest {
        owner: arguments.owner,
        account: arguments.account,
        password: password.map(|password| password.to_string()),
    };
    let (answer, file) = own(&mut api, &request, place).await?;
    match common.format() {
        Format::Json => print_json(SetUp {
            account: &answer.account,
            owner: &answer.owner,
            token: &answer.token.token,
            file,
        }),
        Format::Table => print_line(owns(&answer, api.url(), &file)),
    }
}

/// Becomes the owner, and keeps the owner's token.
pub(super) async fn own(
    api: &mut Api,
    request: &SetupRequest,
    place: Place,
) -> Result<(SetupAnswer, PathBuf), Failure> {
    let nothing_else = Query::default();
    let posted = async {
        let posted = api.post("/setup", &nothing_else, request).await;
        posted.map_err(|refusal| name_taken(refusal, &request.owner))
    };
    let answer = uninterrupted(posted, UNKNOWN).await;
    let mut answer: SetupAnswer = answer.map_err(|failure: Failure| match failure.status {
        Status::NotEnrolled => Failure::new(
            Status::NotEnrolled,
            "the portal does not accept the set-up token: it was used or has expired; make \
             another by `culvert portal setup-token` on the portal's machine",
        ),
        _ => failure,
    })?;
    let secret = Zeroizing::new(std::mem::take(&mut answer.token.secret));
    match place.keep(&secret) {
        Ok(file) => Ok((answer, file)),
        Err(failure) => {
            // It is the only way in.
            print_once(format!("{}\n", *secret).as_bytes())?;
            note("The owner's API token could not be saved and is printed this once: keep it.");
            Err(failure)
        }
    }
}

/// The set-up token stays good where the owner's name is somebody's already.
fn name_taken(refusal: RequestError, owner: &str) -> Failure {
    let conflict = ProblemKind::Conflict.status();
    match refusal {
        RequestError::Problem(problem) if problem.status == conflict => {
            let detail = problem.detail.unwrap_or(problem.title);
            let owner = quoted(owner);
            Failure::new(
                Status::Failed,
                format_args!(
                    "{detail}; try again with another name: --owner NAME instead of {owner}"
                ),
            )
        }
        refusal => refusal.into(),
    }
}

pub(super) fn owns(answer: &SetupAnswer, url: &str, file: &Path) -> String {
    format!(
        "{} owns account {} at {url} now; the API token is in {}",
        quoted(&answer.owner.name),
        quoted(&answer.account.name),
        file.display()
    )
}

pub(super) async fn log_in(
    common: &CommonArguments,
    arguments: &LoginArguments,
) -> Result<(), Failure> {
    let mut token = named_token(common.token_file.as_deref(), TokenKind::Api)?;
    let portal = common.portal_of(&token)?;
    let profile = profile(arguments.replace)?;
    token.portal = Some(portal.clone());
    let text = token.expose();
    let mut api = Api::new(Http::new(portal, token.bearer));
    let account: Account = api.get("/account", &Query::default()).await?;
    profile.save(&text)?;
    let file = Profile::path()?;
    match common.format() {
        Format::Json => print_json(LoggedIn {
            account: &account,
            portal: api.url(),
            file,
        }),
        Format::Table => print_line(format_args!(
            "the token for account {} at {} is in {} now",
            quoted(&account.name),
            api.url(),
            file.display()
        )),
    }
}

pub(super) fn log_out(format: Format) -> Result<(), Failure> {
    Profile::open()?.forget()?;
    let file = Profile::path()?;
    let sentence = format!("{} is gone; to end the token, revoke it", file.display());
    format.done(&LoggedOut { file }, sentence)
}

fn profile(replace: bool) -> Result<Profile, Failure> {
    let profile = Profile::open()?;
    if !replace {
        profile.refuse_if_taken("put this one in its place by --replace")?;
    }
    Ok(profile)
}
