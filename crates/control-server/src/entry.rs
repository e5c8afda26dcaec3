//! A machine that has been let in, on its way to the hub.

use super::country::Countries;
use super::hello::Hello;
use super::hub_actor::Join;
use culvert_hub::limits::{MAX_GRANTS_PER_GATEWAY, MAX_RELAY_PORTS};
use culvert_hub::{ClientJoin, GatewayJoin, RelayJoin};
use culvert_ids::TokenId;
use culvert_policy::ClientFacts;
use culvert_policy::conditions::OperatingSystem;
use culvert_store::{MachineId, Seen};
use culvert_wire::Cipher;
use culvert_wire::messages::{FromClient, FromGateway, FromRelay};

/// Suites that a hello may name: there are two.
const MAX_CIPHERS: usize = 16;

/// A machine that said hello, showed a good token and is enrolled.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) machine: MachineId,
    pub(super) token: TokenId,
    pub(super) seen: Seen,
    pub(super) hello: Hello,
}

impl Entry {
    /// The form in which the hub takes it; none if the hello is none, or of a machine of the other side.
    pub(super) fn into_join(self, countries: &dyn Countries) -> Option<(Join, Seen)> {
        let Self {
            machine,
            token,
            seen,
            hello,
        } = self;
        let join = match (machine, hello) {
            (MachineId::Client(client), Hello::Client(hello)) => {
                let FromClient::Hello {
                    public_key,
                    ciphers,
                    features,
                    os,
                    ..
                } = hello
                else {
                    return None;
                };
                Join::Client(ClientJoin {
                    client,
                    token,
                    public_key,
                    ciphers: few(ciphers),
                    seen: ClientFacts {
                        os: os.and_then(OperatingSystem::checked),
                        ..ClientFacts::seen_at(seen.address, |address| countries.country(address))
                    },
                    features,
                })
            }
            (MachineId::Gateway(gateway), Hello::Gateway(hello)) => {
                let FromGateway::Hello {
                    public_key,
                    ciphers,
                    candidates,
                    draining,
                    mut grants,
                    more_grants,
                    features,
                    ..
                } = hello
                else {
                    return None;
                };
                grants.truncate(MAX_GRANTS_PER_GATEWAY);
                Join::Gateway(GatewayJoin {
                    gateway,
                    token,
                    public_key,
                    ciphers: few(ciphers),
                    candidates,
                    draining,
                    grants,
                    more_grants,
                    features,
                })
            }
            (MachineId::Relay(relay), Hello::Relay(hello)) => {
                let FromRelay::Hello {
                    addresses,
                    first_port,
                    ports,
                    tls,
                    draining,
                    mut assigned,
                    ..
                } = hello
                else {
                    return None;
                };
                assigned.truncate(MAX_RELAY_PORTS.into());
                Join::Relay(RelayJoin {
                    relay,
                    token,
                    addresses,
                    tls,
                    first_port,
                    ports,
                    draining,
                    assigned,
                })
            }
            _ => return None,
        };
        Some((join, seen))
    }
}

fn few(mut ciphers: Vec<Cipher>) -> Vec<Cipher> {
    ciphers.truncate(MAX_CIPHERS);
    ciphers
}
