//! `culvert portal setup-token`, and the words that go with a set-up token.

use super::common::{EXIT_STATUS, StateArguments, failure};
use super::database;
use crate::exit::{Failure, Status, print};
use crate::json;
use clap::Args;
use culvert_ids::AccountId;
use culvert_portal::Home;
use culvert_portal_service::{SetupToken, issue_setup_token};
use culvert_store::{EntityKind, ListFilter, PageLimit, Store, StoreError};
use culvert_wire::Timestamp;
use serde::Serialize;
use std::process::ExitCode;
use zeroize::Zeroizing;

/// More owners by recovery than any portal has; then the person chooses a name.
const MAX_OWNERS_TRIED: u32 = 1_000;

/// Make a new set-up token; those from before are no longer accepted
///
/// For when the token of the first start was lost or has expired, and for when every owner's token
/// was lost. The portal may be running. Run it as the portal's user, on its machine.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = SETUP_TOKEN_EXAMPLES)]
pub(super) struct SetupTokenArguments {
    /// Print one line of JSON with a schema_version
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateArguments,
    #[command(flatten)]
    database: database::DatabaseArguments,
}

const SETUP_TOKEN_EXAMPLES: &str = "\
Examples:
  culvert portal setup-token --state-dir ./portal
  culvert portal setup-token --json | jq -r .token

Exit status:
  0  done
  1  something failed
  2  the command line is wrong";

/// The command that uses the set-up token of a new portal. It is read from standard input, so that it is in no
/// list of processes.
pub(super) fn invitation(token: &SetupToken) -> String {
    format!(
        "\nMake yourself its owner, once, until {}:\n  \
         echo '{}' | culvert admin setup --token-file -\n\
         or open /set-up of the portal in a browser, and paste what is between the quotes.\n\n\
         Then connect a gateway and a client:\n  \
         culvert admin site create office\n  \
         culvert admin token create --kind gateway --site office\n  \
         culvert admin --help\n",
        token.expires,
        *token.token.expose()
    )
}

/// The same for a portal that has an owner: somebody has lost the way in. `owner` is a name that nobody has.
fn recovery(token: &SetupToken, owner: &str) -> String {
    format!(
        "The portal has an owner already; this token makes another one, once, until {}:\n  \
         echo '{}' | culvert admin setup --token-file - --owner {owner} --replace\n\
         --replace puts the new token in the place of one that is saved there. Or open /set-up of the portal in \
         a browser, and paste what is between the quotes.\n",
        token.expires,
        *token.token.expose()
    )
}

/// A set-up token, for programs.
#[derive(Serialize)]
struct Issued<'a> {
    token: &'a str,
    expires: Timestamp,
    /// The portal has an owner already.
    has_owner: bool,
    /// A name for the owner that nobody has yet.
    owner: &'a str,
}

/// A name of an owner that nobody has: `owner`, `owner-2` and so on.
async fn free_name(store: &dyn Store, account: AccountId) -> Result<String, StoreError> {
    for number in 1..=MAX_OWNERS_TRIED {
        let name = match number {
            1 => "owner".to_owned(),
            number => format!("owner-{number}"),
        };
        let filter = ListFilter {
            name: Some(name.clone()),
            ..ListFilter::default()
        };
        let first = PageLimit::new(1);
        let found = store.list(account, EntityKind::Actor, &filter, None, first);
        if found.await?.items.is_empty() {
            return Ok(name);
        }
    }
    Ok("NAME".to_owned())
}

pub(super) async fn run(arguments: &SetupTokenArguments) -> Result<ExitCode, Failure> {
    let failed = |error: StoreError| Failure::new(Status::Failed, error);
    let home = Home::open_beside(&arguments.state.state_dir).map_err(failure)?;
    let not_begun = || {
        let reason = "no portal ever ran here: start it first (culvert portal run)";
        Failure::new(Status::Failed, reason)
    };
    let whereabouts = home.whereabouts().map_err(failure)?.ok_or_else(not_begun)?;
    let store = arguments.database.open_beside(&home).await?;
    let accounts = store.accounts(None, PageLimit::new(1)).await;
    let accounts = accounts.map_err(failed)?.items;
    let account = accounts.first().ok_or_else(not_begun)?;
    let token = issue_setup_token(store.as_ref(), account.id, whereabouts).await;
    let token = token.map_err(failed)?;
    let is_set_up = store.is_set_up(account.id).await.map_err(failed)?;
    let owner = free_name(store.as_ref(), account.id)
        .await
        .map_err(failed)?;
    store.close().await;
    let text = match (arguments.json, is_set_up) {
        (true, has_owner) => json_of(&token, has_owner, &owner)?,
        (false, true) => Zeroizing::new(recovery(&token, &owner)),
        (false, false) => Zeroizing::new(invitation(&token).trim_start().to_owned()),
    };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn json_of(token: &SetupToken, has_owner: bool, owner: &str) -> Result<Zeroizing<String>, Failure> {
    let issued = Issued {
        token: &token.token.expose(),
        expires: token.expires,
        has_owner,
        owner,
    };
    json::line(&issued).map(Zeroizing::new)
}
