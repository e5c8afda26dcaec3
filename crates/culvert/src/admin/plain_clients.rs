//! `culvert admin client add`, `file` and `rekey`: plain WireGuard devices.

use super::api::Query;
use super::common::{Seen, Which};
use super::output::{Format, note, print_json, print_line};
use super::shell::Shell;
use crate::exit::Failure;
use clap::Args;
use culvert_wire::PublicKey;
use culvert_wire::api::{
    Actor, Client, Gateway, NewPlainClient, PREFIX, PlainClientFile, PlainClientRekey,
};

#[derive(Debug, Args)]
pub(super) struct AddArguments {
    /// The name of the device
    name: String,
    /// Its public key, as `wg pubkey` prints it; the private key stays on the device
    #[arg(long, value_name = "KEY")]
    public_key: PublicKey,
    /// Its owner [default: you]
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    #[command(flatten)]
    through: Through,
}

#[derive(Debug, Args)]
pub(super) struct RekeyArguments {
    #[command(flatten)]
    seen: Seen,
    /// Its public key from now on
    #[arg(long, value_name = "KEY")]
    public_key: PublicKey,
    #[command(flatten)]
    through: Through,
}

/// The way to the gateway.
#[derive(Debug, Args)]
struct Through {
    /// The gateway that it uses [default: the one that it has, or the only one]
    #[arg(long, value_name = "GATEWAY")]
    gateway: Option<String>,
    /// Host and port of the gateway for the file [default: an address that the gateway reports]
    #[arg(long, value_name = "HOST:PORT")]
    endpoint: Option<String>,
}

pub(super) async fn add(shell: &mut Shell, add: AddArguments) -> Result<(), Failure> {
    let new = NewPlainClient {
        name: add.name,
        public_key: add.public_key,
        actor: shell.api.id_of_some::<Actor>(add.actor.as_deref()).await?,
        gateway: shell
            .api
            .id_of_some::<Gateway>(add.through.gateway.as_deref())
            .await?,
        endpoint: add.through.endpoint,
    };
    let path = "/plain-clients";
    let file = shell.api.post(path, &Query::default(), &new).await?;
    print(shell.format, &file)
}

pub(super) async fn file(shell: &mut Shell, which: &Which) -> Result<(), Failure> {
    let client: Client = shell.api.find(&which.which).await?;
    let path = format!("/plain-clients/{}", client.id);
    let file = shell.api.get(&path, &Query::default()).await?;
    print(shell.format, &file)
}

pub(super) async fn rekey(shell: &mut Shell, rekey: RekeyArguments) -> Result<(), Failure> {
    let client: Client = shell.api.find(&rekey.seen.which.which).await?;
    let body = PlainClientRekey {
        public_key: rekey.public_key,
        gateway: shell
            .api
            .id_of_some::<Gateway>(rekey.through.gateway.as_deref())
            .await?,
        endpoint: rekey.through.endpoint,
    };
    let path = format!("{PREFIX}/plain-clients/{}/key", client.id);
    let version = rekey.seen.if_version;
    let file = shell.api.post_at(&path, version, &body).await?;
    print(shell.format, &file)
}

/// The file on standard output, so that it can be redirected, and the rest on standard error.
fn print(format: Format, file: &PlainClientFile) -> Result<(), Failure> {
    if format == Format::Json {
        return print_json(file);
    }
    print_line(file.file.trim_end())?;
    note("The device has its private key; write it into the line PrivateKey.");
    for limit in &file.limits {
        note(limit);
    }
    Ok(())
}
