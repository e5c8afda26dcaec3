//! Forms that wait until their persons have proven anew who they are, or have signed in again.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_ids::{ActorId, TokenId};
use culvert_portal_auth::{Share, Waiting};
use culvert_portal_base::Fault;
use std::fmt;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// For how long a form waits for the proof: as long as a person may be on the way to an identity provider, and then
/// some to go on.
const LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Forms that wait at once, and those of one person. A form has as many bytes as a body may (`MAX_BODY_BYTES`, 64 KiB): 16 MiB
/// in all.
const ROOM: Share = Share {
    all: 256,
    of_one: 8,
};

/// Random bytes of what a form that waits is known by.
const TICKET_LEN: usize = 16;

/// Forms that wait for their persons to be proven.
#[derive(Debug)]
pub(super) struct PendingForms(Waiting<[u8; TICKET_LEN], PendingForm>);

impl Default for PendingForms {
    fn default() -> Self {
        Self(Waiting::sharing("held_requests", ROOM, LIFETIME))
    }
}

/// The person or the session whose form waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormOwner {
    /// It is good in no other session.
    Session(TokenId),
    /// Its session has ended: it is good in any later one of the person.
    Person(ActorId),
}

/// A form that waits.
#[derive(Clone)]
pub struct PendingForm {
    owner: FormOwner,
    /// The path that it was sent to.
    pub path: String,
    /// Its fields as they were filled in, secrets among them.
    pub fields: Vec<(String, Zeroizing<String>)>,
}

impl fmt::Debug for PendingForm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PendingForm")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl PendingForms {
    /// Has a form of the actor wait. Returns what it is known by.
    pub(super) fn put(
        &self,
        actor: ActorId,
        owner: FormOwner,
        path: String,
        fields: Vec<(String, Zeroizing<String>)>,
    ) -> Result<String, Fault> {
        let mut ticket = [0; TICKET_LEN];
        getrandom::fill(&mut ticket)?;
        let form = PendingForm {
            owner,
            path,
            fields,
        };
        self.0.put(&actor, ticket, form, Instant::now());
        Ok(URL_SAFE_NO_PAD.encode(ticket))
    }

    /// A form that waits in this session of the actor.
    pub(super) fn get(
        &self,
        actor: ActorId,
        session: TokenId,
        ticket: &str,
    ) -> Option<PendingForm> {
        let ticket = URL_SAFE_NO_PAD.decode(ticket).ok()?;
        let ticket = <[u8; TICKET_LEN]>::try_from(ticket).ok()?;
        let found = self
            .0
            .with(&ticket, Instant::now(), |form| (form.clone(), true));
        found.filter(|form| match form.owner {
            FormOwner::Session(of) => of == session,
            FormOwner::Person(of) => of == actor,
        })
    }
}
