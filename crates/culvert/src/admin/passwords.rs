//! `culvert admin password`.

use super::api::Query;
use super::common::{Which, usage};
use super::shell::Shell;
use crate::exit::Failure;
use crate::password_input;
use crate::token_input::STANDARD_INPUT;
use clap::{Args, ValueEnum};
use culvert_base::quoted;
use culvert_wire::api::{Actor, ActorKind, ApiRole, NewSignIn};
use std::path::{Path, PathBuf};

/// Let a person sign in to the console with a new password
///
/// The person signs in under the actor's name. The sessions that there are end; a second factor stays,
/// until "culvert admin actor reset-second-factor" takes it away. The password is asked for twice, or
/// read from a file; it has 12 to 256 characters.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PasswordArguments {
    #[command(flatten)]
    which: Which,
    /// Role of the person from then on; by default the role stays, or is user for a new one
    #[arg(long, value_enum)]
    role: Option<Role>,
    /// Read the password from FILE, mode 0600, or from standard input (-), one line
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// A role, on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Role {
    /// Sees and gives up the own clients
    User,
    /// Reads everything
    Auditor,
    /// Changes everything but owners
    Admin,
    /// Everything
    Owner,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin password ada --role admin
  culvert admin password ada --password-file ada.password";

impl PasswordArguments {
    /// True if the password is read from standard input.
    pub(super) fn on_input(&self) -> bool {
        self.password_file.as_deref() == Some(Path::new(STANDARD_INPUT))
    }
}

pub(super) async fn run(shell: &mut Shell, arguments: PasswordArguments) -> Result<(), Failure> {
    let actor: Actor = shell.api.find(&arguments.which.which).await?;
    let role = match (arguments.role, actor.sign_in, actor.kind) {
        (Some(role), _, _) => role.into(),
        (None, Some(sign_in), _) => sign_in.role,
        (None, None, ActorKind::User) => ApiRole::User,
        (None, None, ActorKind::Admin | ActorKind::ServiceAccount) => {
            return Err(usage(format_args!(
                "{} does not sign in yet: say as what, by --role",
                quoted(&actor.name)
            )));
        }
    };
    let password = password_input::read(arguments.password_file.as_deref())?;
    let new = NewSignIn {
        role,
        password: Some(password.to_string()),
    };
    let path = format!("/actors/{}/sign-in", actor.id);
    let actor: Actor = shell.api.post(&path, &Query::default(), &new).await?;
    let sentence = format!(
        "{} signs in with the new password now; sessions from before have ended",
        quoted(&actor.name)
    );
    shell.format.done(&actor, sentence)
}

impl From<Role> for ApiRole {
    fn from(role: Role) -> Self {
        match role {
            Role::User => Self::User,
            Role::Auditor => Self::Auditor,
            Role::Admin => Self::Admin,
            Role::Owner => Self::Owner,
        }
    }
}
