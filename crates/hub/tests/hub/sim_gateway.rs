//! Simulated gateways, which check and hold the grants that they are offered.

use crate::world::keys;
use culvert_hub::SessionId;
use culvert_ids::{ClientId, GatewayId, GrantId};
use culvert_wire::messages::{
    AdmittedDevice, Existence, FromGateway, GatewayFeature, Reason, ReasonCode, ResolvedName,
    ToGateway, WantedName,
};
use culvert_wire::{GrantClaims, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The reaction of a gateway to a grant that it is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Accept,
    Refuse(ReasonCode),
    Silent,
}

/// A grant that a gateway holds, as it understands it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) claims: GrantClaims,
    pub(crate) names: Vec<WantedName>,
}

#[derive(Debug)]
pub(crate) struct SimGateway {
    pub(crate) session: Option<SessionId>,
    pub(crate) manner: Manner,
    pub(crate) held: BTreeMap<GrantId, Held>,
    pub(crate) draining: bool,
    /// It was told that it waits to be verified.
    pub(crate) verification_awaited: bool,
    pub(crate) features: Vec<GatewayFeature>,
    /// Grants that it was offered and has not answered, in the order in which they came.
    pub(crate) unanswered: Vec<GrantId>,
    /// Grants that are still valid, while more of them are to be named.
    pub(crate) retained: Option<BTreeSet<GrantId>>,
    /// Plain devices that it admits without a grant, once it was told.
    pub(crate) admitted: Option<BTreeMap<ClientId, AdmittedDevice>>,
    /// Its last word in this session about each plain device: the address, and the handshake.
    pub(crate) told: BTreeMap<ClientId, (Option<IpAddr>, Timestamp)>,
    /// More of the list of admitted devices is to come.
    pub(crate) is_listing: bool,
}

impl SimGateway {
    fn hear_retained(&mut self, retained: BTreeSet<GrantId>, more: bool) {
        match more {
            true => self.retained = Some(retained),
            false => self.held.retain(|grant, _| retained.contains(grant)),
        }
    }

    /// Does as the message says, and returns its answer to a grant that it is offered.
    pub(crate) fn hear(&mut self, id: GatewayId, message: ToGateway) -> Option<FromGateway> {
        match message {
            ToGateway::Welcome {
                grants,
                more_grants,
                verification_awaited,
                ..
            } => {
                self.verification_awaited = verification_awaited;
                let grants = grants.into_iter().collect();
                self.hear_retained(grants, more_grants);
            }
            ToGateway::GrantsRetained { grants, more } => {
                let mut all = self.retained.take().expect("welcome said that more follow");
                all.extend(grants);
                self.hear_retained(all, more);
            }
            ToGateway::Grant {
                token,
                replaces,
                names,
                ..
            } => {
                let claims = verify(&token);
                assert_eq!(claims.gateway, id);
                let grant = claims.grant;
                let answer = match self.manner {
                    Manner::Silent => {
                        self.unanswered.push(grant);
                        None
                    }
                    Manner::Refuse(code) => Some(FromGateway::GrantRefused {
                        grant,
                        reason: Reason {
                            code,
                            text: "no".to_owned(),
                        },
                    }),
                    Manner::Accept => Some(FromGateway::GrantAccepted {
                        grant,
                        names: names.iter().map(|name| resolved(&name.name)).collect(),
                    }),
                };
                if !matches!(self.manner, Manner::Refuse(_)) {
                    let before = replaces.and_then(|old| self.held.remove(&old));
                    let mut all = before.map(|held| held.names).unwrap_or_default();
                    all.extend(names);
                    let held = Held { claims, names: all };
                    self.held.insert(grant, held);
                }
                return answer;
            }
            ToGateway::Revoke { grant } => {
                self.held.remove(&grant);
            }
            ToGateway::FiltersChanged {
                resource,
                filters,
                inbound,
            } => {
                for held in self.held.values_mut() {
                    if held.claims.resource == resource {
                        held.claims.filters.clone_from(&filters);
                        held.claims.inbound.clone_from(&inbound);
                    }
                }
            }
            ToGateway::DevicesAdmitted { devices, more, .. } => {
                let is_first = self.admitted.is_none() || !self.is_listing;
                let mut all = match is_first {
                    true => BTreeMap::new(),
                    false => self.admitted.take().unwrap_or_default(),
                };
                all.extend(devices.into_iter().map(|device| (device.client, device)));
                self.admitted = Some(all);
                self.is_listing = more;
            }
            ToGateway::DeviceAdmitted { device } => {
                let admitted = self.admitted.as_mut().expect("the list comes first");
                admitted.insert(device.client, device);
            }
            ToGateway::DeviceDismissed { client } => {
                let admitted = self.admitted.as_mut().expect("the list comes first");
                assert!(admitted.remove(&client).is_some());
            }
            ToGateway::Drain { on } => self.draining = on,
            ToGateway::Verification { awaited } => self.verification_awaited = awaited,
            // To `AnswerNow`: it has answered by then, or says nothing at all.
            ToGateway::AnswerNow { .. }
            | ToGateway::FlowLog { .. }
            | ToGateway::FlowsTaken { .. }
            | ToGateway::NamesElsewhere { .. }
            | ToGateway::ResolveName { .. }
            | ToGateway::NameAnswered { .. }
            | ToGateway::PortalsSet { .. }
            | ToGateway::RelaysSet { .. }
            | ToGateway::ClientCandidates { .. }
            | ToGateway::Refused { .. }
            | ToGateway::Unsupported { .. } => {}
        }
        None
    }
}

pub(crate) fn resolved(name: &str) -> ResolvedName {
    ResolvedName {
        name: name.to_owned(),
        ipv4: true,
        ipv6: false,
        existence: Existence::Exists,
    }
}

/// The claims of a grant, after a check of its signature, as a gateway does it first.
pub(crate) fn verify(token: &str) -> GrantClaims {
    use base64::Engine;
    use culvert_hub::Signer;
    use pasetors::keys::AsymmetricPublicKey;
    use pasetors::token::UntrustedToken;
    use pasetors::{Public, version4};
    let public = &keys().public_keys()[0];
    let public = base64::engine::general_purpose::STANDARD
        .decode(public)
        .unwrap();
    let public = AsymmetricPublicKey::<version4::V4>::from(&public).unwrap();
    let token = UntrustedToken::<Public, version4::V4>::try_from(token).unwrap();
    let token = version4::PublicToken::verify(&public, &token, None, None).unwrap();
    serde_json::from_str(token.payload()).unwrap()
}
