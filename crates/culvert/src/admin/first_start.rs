//! `culvert portal run --set-up FILE`: what "setup", "apply" and "token create" do, in one step and from
//! within the portal that has just started.

use super::access_file::AccessFile;
use super::api::Api;
use super::apply;
use super::credentials::{Profile, SecretFile};
use super::http::Http;
use super::login::{Place, own, owns};
use super::tokens::{default_name, issue};
use super::words::now;
use crate::exit::{Failure, print};
use culvert_base::quoted;
use culvert_wire::api::{Actor, ActorKind, ApplyOptions, NewToken, SetupRequest, Site};
use culvert_wire::token::{Portal, Token, TokenKind};
use std::path::{Path, PathBuf};

/// The work that remains once the portal answers. All that this machine could refuse is settled:
/// the file is understood, and there is room for every token.
pub(crate) struct FirstStart {
    profile: Profile,
    access: Access,
}

/// The access of the first start: the resource, its policy, and the actors that connect.
struct Access {
    path: PathBuf,
    file: AccessFile,
    machines: Vec<Machine>,
}

/// One that is to connect, and where its token goes.
struct Machine {
    /// The site of a gateway, the actor of a client.
    owner: String,
    kind: TokenKind,
    token_file: SecretFile,
}

impl FirstStart {
    /// Reads the file, and makes an empty token file in `tokens` for each of its sites and service
    /// accounts.
    ///
    /// # Errors
    /// The file is not understood, a token file is there already, or this user has an API token already.
    pub(crate) fn prepare(path: &Path, tokens: &Path) -> Result<Self, Failure> {
        let file = apply::read(path)?;
        let profile = Profile::open()?;
        profile.refuse_if_taken("have it forgotten by `culvert admin logout`")?;
        let sites = file.desired.sites.iter();
        let sites = sites.map(|site| (TokenKind::Gateway, "gateway", &site.name));
        let accounts = file.desired.actors.iter();
        let accounts = accounts
            .filter(|actor| actor.kind == ActorKind::ServiceAccount)
            .map(|actor| (TokenKind::Client, "client", &actor.name));
        let machines = sites
            .chain(accounts)
            .map(|(kind, word, owner)| {
                let token_file = tokens.join(format!("{word}-{}.token", in_file_name(owner)));
                Ok(Machine {
                    owner: owner.clone(),
                    kind,
                    token_file: SecretFile::create(&token_file)?,
                })
            })
            .collect::<Result<_, Failure>>()?;
        let path = path.to_owned();
        let access = Access {
            path,
            file,
            machines,
        };
        Ok(Self { profile, access })
    }

    /// Becomes the portal's owner by its set-up token, declares what the file says, writes the tokens,
    /// and says what to do with them.
    ///
    /// # Errors
    /// Fails with the portal's refusal. Objects that were already created stay, and the error says
    /// how to go on.
    pub(crate) async fn execute(self, portal: &Portal, setup: &Token) -> Result<(), Failure> {
        let mut api = Api::new(Http::new(portal.clone(), setup.bearer.clone()));
        let user = std::env::var("USER").ok().filter(|name| !name.is_empty());
        let request = SetupRequest {
            owner: user.unwrap_or_else(|| "owner".to_owned()),
            account: None,
            password: None,
        };
        let (answer, stored) = own(&mut api, &request, Place::Profile(self.profile)).await?;
        let found_at = setup.portal.as_ref().unwrap_or(portal);
        let mut text = owns(&answer, &found_at.url, &stored) + "\n";
        let token = super::credentials::api_token(Some(&stored))?;
        let mut api = Api::new(Http::new(portal.clone(), token.bearer));

        let path = self.access.path.display().to_string();
        let declared = self.access.declare(&mut api).await.map_err(|failure| {
            let way_on = format_args!(
                "{failure}; you own the portal already, so start it without --set-up, then `culvert admin \
                 apply -f {path}` and `culvert admin token create` do the rest"
            );
            Failure::new(failure.status, way_on)
        })?;
        text += &declared;
        text += "\nEach token is good for one machine. Its file must belong to root there.\n";
        print(text.as_bytes())
    }
}

impl Access {
    /// Declares the file and writes the tokens. Returns what to say of that.
    async fn declare(self, api: &mut Api) -> Result<String, Failure> {
        let file = (self.path.as_path(), &self.file);
        let done = apply::send(api, file, ApplyOptions::default()).await?;
        let path = self.path.display();
        let mut text = format!("{path}: {}\n", apply::what_was_done(&done.changes));
        for machine in self.machines {
            text += &machine.admit(api).await?;
        }
        Ok(text)
    }
}

impl Machine {
    /// Writes the token. Returns the command that uses it.
    async fn admit(self, api: &mut Api) -> Result<String, Failure> {
        let is_gateway = self.kind == TokenKind::Gateway;
        let (site, actor) = match is_gateway {
            true => (Some(api.find::<Site>(&self.owner).await?.id), None),
            false => (None, Some(api.find::<Actor>(&self.owner).await?.id)),
        };
        let word = if is_gateway { "gateway" } else { "client" };
        let new = NewToken {
            kind: self.kind,
            actor,
            site,
            role: None,
            name: default_name(word, &self.owner, now()),
            expires: None,
            one_time: true,
        };
        let (_, path) = issue(api, &new, self.token_file).await?;
        let (heading, command) = match is_gateway {
            true => ("On a gateway of", "gateway run --enable-forwarding"),
            false => ("On the machine of", "client run"),
        };
        Ok(format!(
            "\n{heading} {}, with {}:\n  sudo culvert {command} --token-file {}\n",
            quoted(&self.owner),
            path.display(),
            path.file_name().unwrap_or_default().display()
        ))
    }
}

/// A name of anything as a part of a file's name that no shell takes for something else.
fn in_file_name(name: &str) -> String {
    let harmless = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    name.chars()
        .map(|letter| if harmless(letter) { letter } else { '-' })
        .collect()
}
