//! From hello to a place in the hub.

use super::entry::Entry;
use super::hello::{Hello, Refused};
use super::hub_access::HubAccess;
use super::hub_actor::Joined;
use super::shared::Shared;
use super::visitor::Visitor;
use crate::recorder::Record;
use culvert_base::UnixTime;
use culvert_ids::{ClientId, GatewayId, RANDOM_LEN, RelayId};
use culvert_portal_base::now;
use culvert_store::{
    Denial, Enrolment, MAX_MACHINE_LEN, MachineId, RelayEnrolment, Seen, StoreError,
};
use culvert_wire::messages::{FromClient, FromGateway, FromRelay, MAX_RELAY_ADDRESSES, ReasonCode};
use culvert_wire::{PROTOCOL, PublicKey};
use std::time::Instant;

/// Seconds until a machine comes back if the database does not answer, or has no address left.
const COME_BACK_S: u32 = 5;
const NO_ADDRESS_S: u32 = 60;

/// Seconds until a machine comes back to a portal that finds no leader, and what it is told.
const NO_LEADER_S: u32 = 2;
const NO_LEADER: &str = "no portal of the database leads at the moment";

impl Shared {
    /// Enrols the machine and joins it, wherever the hub is.
    pub(super) async fn admit(
        &self,
        visitor: &Visitor,
        hello: Hello,
    ) -> Result<(Joined, HubAccess), Refused> {
        let (machine, seen) = match &hello {
            Hello::Client(said) => self.admit_client(visitor, said).await?,
            Hello::Gateway(said) => self.admit_gateway(visitor, said).await?,
            Hello::Relay(said) => self.admit_relay(visitor, said).await?,
        };
        let entry = Entry {
            machine,
            token: visitor.principal.token,
            seen,
            hello,
        };
        let touched = Record::Touch(visitor.principal.token, now());
        self.recorder.record(touched);
        let hub = self.access_soon().await;
        let hub = hub.ok_or_else(|| Refused::later(NO_LEADER_S, NO_LEADER))?;
        Ok((hub.join(entry).await?, hub))
    }

    async fn admit_client(
        &self,
        visitor: &Visitor,
        hello: &FromClient,
    ) -> Result<(MachineId, Seen), Refused> {
        let FromClient::Hello {
            protocols,
            version,
            machine,
            name,
            public_key,
            ..
        } = hello
        else {
            return Err(Refused::not_hello());
        };
        self.look_at(visitor, protocols, machine)?;
        let seen = seen(visitor, version.clone());
        let enrolment = enrolment(ClientId::new, machine, name, *public_key, seen.clone())?;
        let client = self
            .store
            .enrol_client(self.account, &visitor.principal, enrolment, now())
            .await
            .map_err(|error| refusal(&error))?;
        Ok((MachineId::Client(client.id), seen))
    }

    async fn admit_gateway(
        &self,
        visitor: &Visitor,
        hello: &FromGateway,
    ) -> Result<(MachineId, Seen), Refused> {
        let FromGateway::Hello {
            protocols,
            version,
            machine,
            name,
            public_key,
            ..
        } = hello
        else {
            return Err(Refused::not_hello());
        };
        self.look_at(visitor, protocols, machine)?;
        let seen = seen(visitor, version.clone());
        let enrolment = enrolment(GatewayId::new, machine, name, *public_key, seen.clone())?;
        let gateway = self
            .store
            .enrol_gateway(self.account, &visitor.principal, enrolment, now())
            .await
            .map_err(|error| refusal(&error))?;
        Ok((MachineId::Gateway(gateway.id), seen))
    }

    async fn admit_relay(
        &self,
        visitor: &Visitor,
        hello: &FromRelay,
    ) -> Result<(MachineId, Seen), Refused> {
        let FromRelay::Hello {
            protocols,
            version,
            machine,
            name,
            addresses,
            ..
        } = hello
        else {
            return Err(Refused::not_hello());
        };
        self.look_at(visitor, protocols, machine)?;
        if addresses.is_empty() || addresses.len() > MAX_RELAY_ADDRESSES {
            let text = format!(
                "a relay says 1 to {MAX_RELAY_ADDRESSES} addresses at which it is reached, not {}",
                addresses.len()
            );
            return Err(Refused::for_good(ReasonCode::Protocol, text));
        }
        let seen = seen(visitor, version.clone());
        let enrolment = RelayEnrolment {
            new_id: RelayId::new(now().unix_time(), random()?),
            machine: machine.clone(),
            name: name.clone(),
            addresses: addresses.clone(),
            seen: seen.clone(),
        };
        let relay = self
            .store
            .enrol_relay(self.account, &visitor.principal, enrolment, now())
            .await
            .map_err(|error| refusal(&error))?;
        Ok((MachineId::Relay(relay.id), seen))
    }

    /// The checks that need no database.
    fn look_at(&self, visitor: &Visitor, protocols: &[u32], machine: &str) -> Result<(), Refused> {
        if !protocols.contains(&PROTOCOL) {
            let text = format!("this portal speaks version {PROTOCOL} of the protocol; update");
            return Err(Refused::for_good(ReasonCode::Protocol, text));
        }
        if machine.is_empty() || machine.len() > MAX_MACHINE_LEN {
            let text = format!("`machine` has 1 to {MAX_MACHINE_LEN} bytes");
            return Err(Refused::for_good(ReasonCode::Protocol, text));
        }
        let key = (visitor.principal.token, machine);
        self.machine_pace.take(key, Instant::now()).map_err(|wait| {
            let wait_s = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
            Refused::later(wait_s.max(1), "the machine begins sessions too often")
        })
    }
}

fn enrolment<I>(
    id: impl FnOnce(UnixTime, [u8; RANDOM_LEN]) -> I,
    machine: &str,
    name: &str,
    public_key: PublicKey,
    seen: Seen,
) -> Result<Enrolment<I>, Refused> {
    Ok(Enrolment {
        new_id: id(now().unix_time(), random()?),
        machine: machine.to_owned(),
        name: name.to_owned(),
        public_key,
        seen,
    })
}

/// The random part of a new id.
fn random() -> Result<[u8; RANDOM_LEN], Refused> {
    let mut random = [0; RANDOM_LEN];
    getrandom::fill(&mut random).map_err(|error| {
        tracing::error!(%error, "no random bytes");
        unavailable()
    })?;
    Ok(random)
}

fn seen(visitor: &Visitor, software: String) -> Seen {
    Seen {
        at: now(),
        address: visitor.address,
        software,
    }
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
