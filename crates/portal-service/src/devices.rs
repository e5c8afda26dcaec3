//! Sign-in of a machine with a browser (RFC 8628). The machine shows a code, and a person who has
//! signed in compares and approves it. The machine then gets a token of that person.

use super::changes::made;
use super::tokens::issue;
use super::{Caller, Service};
use culvert_ids::ActorId;
use culvert_policy::readable_name;
use culvert_portal_auth::device_codes::{self, Approval, Decision, Told, WaitingDevice};
use culvert_portal_base::Fault;
use culvert_store::{self as store, Author, TokenScope, TokenUses};
use culvert_wire::api::{DeviceAnswer, DeviceAsk, DeviceBegun, NewDevice};
use std::net::IpAddr;
use std::time::Instant;

/// Characters of what a machine calls itself: the name of its token has the code beside it.
const MAX_MACHINE_CHARS: usize = 60;

impl Service {
    /// A machine asks to be signed in.
    pub async fn begin_device(&self, from: IpAddr, new: &NewDevice) -> Result<DeviceBegun, Fault> {
        let machine = machine(&new.machine)?;
        let taken = self.devices.take_beginning(from, Instant::now());
        taken.map_err(|wait| self.limited(wait))?;
        let begun = self.devices.begin(self.pending(), from, machine).await;
        let (device_code, user_code) = match begun {
            Err(Fault::TooMany { wait }) => return Err(self.limited(wait)),
            begun => begun?,
        };
        let url = format!("{}/device", (self.portal)().url);
        Ok(DeviceBegun {
            device_code: device_code.to_string(),
            url_with_code: format!("{url}?code={user_code}"),
            user_code,
            url,
            expires_in_s: device_codes::LIFETIME.as_secs(),
            interval_s: device_codes::INTERVAL.as_secs(),
        })
    }

    /// A machine asks whether somebody has signed in for it. Approved, it gets the token, once.
    pub async fn ask_device(&self, ask: &DeviceAsk) -> Result<DeviceAnswer, Fault> {
        let (db, code) = (self.pending(), &*ask.device_code);
        let (machine, approval) = match self.devices.ask(db, code, Instant::now()).await? {
            Told::Answer(answer) => return Ok(answer),
            Told::Approved { machine, approval } => (machine, approval),
        };
        let (author, actor) = (approval.author(), approval.actor);
        let issued = self.issue_to(&machine, author, actor).await;
        // It asks again, and the database may answer then.
        let again = matches!(issued, Err(Fault::Unavailable(_)));
        let noted = self.devices.issued(db, code, again.then_some(approval));
        if let Err(error) = noted.await {
            tracing::warn!(
                ?error,
                "a machine that was approved asks for its token again later"
            );
        }
        issued
    }

    async fn issue_to(
        &self,
        machine: &str,
        author: Author,
        actor: ActorId,
    ) -> Result<DeviceAnswer, Fault> {
        // The person who approved it may have been disabled since.
        let row: store::Actor = self.get(self.served.account, actor).await?;
        if row.disabled || row.sign_in.is_none() {
            return Ok(DeviceAnswer::Denied);
        }
        let scope = TokenScope::Client { actor };
        let mut issue = issue(scope, String::new(), TokenUses::One, None)?;
        let id = issue.row.id;
        let text = id.to_string();
        // Codes come again, ids do not.
        let end = &text[text.len() - 8..];
        issue.row.name = format!("{machine} signed in {end}");
        let (create, secret) = issue.split();
        let changes = match self.write(self.served.account, author, vec![create]).await {
            Ok(changes) => changes,
            // The person who approved it has signed out, or may do less by now.
            Err(store::StoreError::Denied(_)) => return Ok(DeviceAnswer::Denied),
            Err(error) => return Err(error.into()),
        };
        let token: store::Token = made(changes, id.into())?;
        Ok(DeviceAnswer::Approved {
            token: self.issued(token, secret).secret,
            actor: row.name,
        })
    }

    /// The machine that shows this code. Everyone who signs in may look; a caller who tries many
    /// codes has to wait.
    pub async fn waiting_device(
        &self,
        caller: &Caller,
        code: &str,
    ) -> Result<WaitingDevice, Fault> {
        self.try_code(caller).await?;
        let waiting = self.devices.waiting(self.pending(), code).await?;
        waiting.ok_or_else(no_such_code)
    }

    /// The machine gets a client's token of the caller.
    pub async fn approve_device(&self, caller: &Caller, code: &str) -> Result<(), Fault> {
        self.try_code(caller).await?;
        self.check_again(caller).await?;
        let approval = Approval {
            actor: caller.actor()?,
            session: caller.token(),
            role: caller.author().role,
        };
        self.decide_device(code, Decision::Approved(approval)).await
    }

    /// The machine gets nothing.
    pub async fn deny_device(&self, caller: &Caller, code: &str) -> Result<(), Fault> {
        self.try_code(caller).await?;
        self.check_again(caller).await?;
        self.decide_device(code, Decision::Denied).await
    }

    async fn decide_device(&self, code: &str, decision: Decision) -> Result<(), Fault> {
        match self.devices.decide(self.pending(), code, decision).await? {
            true => Ok(()),
            false => Err(no_such_code()),
        }
    }

    async fn try_code(&self, caller: &Caller) -> Result<(), Fault> {
        let actor = caller.actor()?;
        self.counted(self.devices.take_trial(self.pending(), actor).await)
    }
}

fn no_such_code() -> Fault {
    Fault::invalid(
        "code",
        "no machine shows this code now: it was used, is older than ten minutes, or is mistyped",
    )
}

/// The name that the machine gives itself, in a form that is safe to read for the person who
/// approves it.
fn machine(given: &str) -> Result<String, Fault> {
    let given = readable_name(given.trim());
    if !(1..=MAX_MACHINE_CHARS).contains(&given.chars().count()) {
        let detail = format!("a machine has a name of 1 to {MAX_MACHINE_CHARS} characters");
        return Err(Fault::invalid("machine", detail));
    }
    Ok(given)
}
