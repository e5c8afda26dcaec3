//! From hello to a place in the hub.

use super::hub_actor::{Join, Joined};
use super::session::{Hello, Refused};
use super::shared::Shared;
use super::visitor::Visitor;
use crate::recorder::Record;
use culvert_base::UnixTime;
use culvert_hub::limits::MAX_GRANTS_PER_GATEWAY;
use culvert_hub::{ClientJoin, GatewayJoin};
use culvert_ids::{ClientId, GatewayId, RANDOM_LEN};
use culvert_policy::ClientFacts;
use culvert_policy::conditions::OperatingSystem;
use culvert_portal_base::now;
use culvert_store::{Denial, Enrolment, MAX_MACHINE_LEN, Seen, StoreError};
use culvert_wire::messages::{FromClient, FromGateway, ReasonCode};
use culvert_wire::{Cipher, PROTOCOL, PublicKey};
use std::time::Instant;

/// Seconds until a machine comes back if the database does not answer, or has no address left.
const COME_BACK_S: u32 = 5;
const NO_ADDRESS_S: u32 = 60;

/// Suites that a hello may name: there are two.
const MAX_CIPHERS: usize = 16;

impl Shared {
    /// Enrols the machine and joins it.
    pub(super) async fn admit(&self, visitor: &Visitor, hello: Hello) -> Result<Joined, Refused> {
        let (join, seen) = match hello {
            Hello::Client(hello) => self.admit_client(visitor, hello).await?,
            Hello::Gateway(hello) => self.admit_gateway(visitor, hello).await?,
        };
        let touched = Record::Touch(visitor.principal.token, now());
        self.recorder.record(touched);
        // The hub lets nobody in whom it does not know: what the enrolment changed comes first, and
        // with it whatever was revoked in the meantime.
        if !self.feed.catch_up().await {
            return Err(unavailable());
        }
        let joined = self.hub.join(join, seen).await;
        joined.ok_or_else(|| Refused::later(COME_BACK_S, "the portal is stopping"))
    }

    async fn admit_client(
        &self,
        visitor: &Visitor,
        hello: FromClient,
    ) -> Result<(Join, Seen), Refused> {
        let FromClient::Hello {
            protocols,
            version,
            machine,
            name,
            public_key,
            ciphers,
            features,
            os,
        } = hello
        else {
            return Err(not_hello());
        };
        let ciphers = self.look_at(visitor, &protocols, &machine, ciphers)?;
        let seen = seen(visitor, version);
        let enrolment = enrolment(ClientId::new, machine, name, public_key, seen.clone())?;
        let client = self
            .store
            .enrol_client(self.account, &visitor.principal, enrolment, now())
            .await
            .map_err(|error| refusal(&error))?;
        let join = ClientJoin {
            client: client.id,
            token: visitor.principal.token,
            public_key,
            ciphers,
            seen: ClientFacts {
                os: os.and_then(OperatingSystem::checked),
                ..ClientFacts::seen_at(visitor.address, |address| self.country(address))
            },
            features,
        };
        Ok((Join::Client(join), seen))
    }

    async fn admit_gateway(
        &self,
        visitor: &Visitor,
        hello: FromGateway,
    ) -> Result<(Join, Seen), Refused> {
        let FromGateway::Hello {
            protocols,
            version,
            machine,
            name,
            public_key,
            ciphers,
            candidates,
            draining,
            mut grants,
            features,
        } = hello
        else {
            return Err(not_hello());
        };
        let ciphers = self.look_at(visitor, &protocols, &machine, ciphers)?;
        let seen = seen(visitor, version);
        let enrolment = enrolment(GatewayId::new, machine, name, public_key, seen.clone())?;
        let gateway = self
            .store
            .enrol_gateway(self.account, &visitor.principal, enrolment, now())
            .await
            .map_err(|error| refusal(&error))?;
        grants.truncate(MAX_GRANTS_PER_GATEWAY);
        let join = GatewayJoin {
            gateway: gateway.id,
            token: visitor.principal.token,
            public_key,
            ciphers,
            candidates,
            draining,
            grants,
            features,
        };
        Ok((Join::Gateway(join), seen))
    }

    /// The checks that need no database.
    fn look_at(
        &self,
        visitor: &Visitor,
        protocols: &[u32],
        machine: &str,
        mut ciphers: Vec<Cipher>,
    ) -> Result<Vec<Cipher>, Refused> {
        if !protocols.contains(&PROTOCOL) {
            let text = format!("this portal speaks version {PROTOCOL} of the protocol; update");
            return Err(Refused::for_good(ReasonCode::Protocol, text));
        }
        if machine.is_empty() || machine.len() > MAX_MACHINE_LEN {
            let text = format!("`machine` has 1 to {MAX_MACHINE_LEN} bytes");
            return Err(Refused::for_good(ReasonCode::Protocol, text));
        }
        let key = (visitor.principal.token, machine);
        self.machine_pace
            .take(key, Instant::now())
            .map_err(|wait| {
                let wait_s = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
                Refused::later(wait_s.max(1), "the machine begins sessions too often")
            })?;
        ciphers.truncate(MAX_CIPHERS);
        Ok(ciphers)
    }
}

fn enrolment<I>(
    id: impl FnOnce(UnixTime, [u8; RANDOM_LEN]) -> I,
    machine: String,
    name: String,
    public_key: PublicKey,
    seen: Seen,
) -> Result<Enrolment<I>, Refused> {
    let mut random = [0; RANDOM_LEN];
    getrandom::fill(&mut random).map_err(|error| {
        tracing::error!(%error, "no random bytes");
        unavailable()
    })?;
    Ok(Enrolment {
        new_id: id(now().unix_time(), random),
        machine,
        name,
        public_key,
        seen,
    })
}

fn seen(visitor: &Visitor, software: String) -> Seen {
    Seen {
        at: now(),
        address: visitor.address,
        software,
    }
}

fn not_hello() -> Refused {
    Refused::for_good(ReasonCode::Protocol, "the first message is hello")
}

fn unavailable() -> Refused {
    Refused::later(COME_BACK_S, "the portal's database does not answer")
}

/// The refusal as the machine is told; the log has the rest.
fn refusal(error: &StoreError) -> Refused {
    match error {
        // Between the check of the token and this one.
        StoreError::Denied(Denial::ActorDisabled(_)) => Refused::owner_disabled(),
        StoreError::Denied(denial) => {
            tracing::warn!(cause = denial.cause(), "a machine was not enrolled");
            let code = match denial {
                Denial::MachineRevoked => ReasonCode::Revoked,
                _ => ReasonCode::BadToken,
            };
            Refused::for_good(code, denial.to_string())
        }
        StoreError::KeyTaken { .. } => {
            let text = "another machine has this public key; make a new one on this machine";
            Refused::for_good(ReasonCode::Protocol, text)
        }
        StoreError::Invalid { field, reason, .. } => {
            Refused::for_good(ReasonCode::Protocol, format!("{field}: {reason}"))
        }
        StoreError::NoAddress { .. } | StoreError::TooMany { .. } => {
            tracing::error!(%error, "a machine was not enrolled");
            Refused::later(
                NO_ADDRESS_S,
                "the portal has no address left for this machine",
            )
        }
        error => {
            tracing::error!(%error, "a machine was not enrolled");
            unavailable()
        }
    }
}
