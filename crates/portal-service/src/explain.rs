//! Explains by names why a client may use a resource now, or may not.

use super::{Caller, Service, warnings};
use culvert_base::quoted;
use culvert_hub::limits::ENDPOINT_FRESH_MS;
use culvert_hub::{Explained, JudgedAddress, UnmetKind, UnmetView};
use culvert_ids::{ClientId, ResourceId};
use culvert_portal_base::Fault;
use culvert_store::{self as store, EntityId, MAX_BATCH};
use culvert_wire::api::{Explanation, GatewayChoice, OutsideName, PolicyExplanation, Verdict};
use culvert_wire::model::TargetKind;
use culvert_wire::words;

impl Service {
    /// The decision if the client asked now, and its reasons.
    pub async fn explain(
        &self,
        caller: &Caller,
        client: ClientId,
        resource: ResourceId,
    ) -> Result<Explanation, Fault> {
        let client: store::Client = self.read(caller, client).await?;
        let resource: store::Resource = self.read(caller, resource).await?;
        let (explanation, _) = self.explained(caller, &client, &resource).await?;
        Ok(explanation)
    }

    /// The same of rows that were read, and what the sessions say about it.
    pub(super) async fn explained(
        &self,
        caller: &Caller,
        client: &store::Client,
        resource: &store::Resource,
    ) -> Result<(Explanation, Explained), Fault> {
        if !self.serves(caller) {
            return Err(Fault::Unavailable(
                "another portal has the sessions of this account".to_owned(),
            ));
        }
        let explained = self.served.explain(client.id, resource.id).await?;
        let policies = self.policies_explained(caller, &explained).await?;
        let gateway = match explained.gateway {
            Ok(gateway) => {
                let row: store::Gateway = self.read(caller, gateway).await?;
                let name = row.name;
                Some(GatewayChoice { gateway, name })
            }
            Err(_) => None,
        };
        let judged = match &explained.judged {
            Some(judged) => Some(self.judged_in_words(caller, judged).await?),
            None => None,
        };
        let mut text = in_words(
            &explained,
            &client.name,
            &resource.name,
            &policies,
            gateway.as_ref(),
        );
        if let Some(line) = judged {
            text.push('\n');
            text.push_str(&line);
        }
        for line in names_in_words(&explained, resource.target.kind) {
            text.push('\n');
            text.push_str(&line);
        }
        if !resource.inbound.is_empty() {
            let services = words::filters(&resource.inbound);
            text.push_str("\nto the client: the resource may begin connections to ");
            text.push_str(&services);
        }
        let explanation = Explanation {
            client: client.id,
            resource: resource.id,
            verdict: verdict(explained.is_allow()),
            until: explained.policies.until.filter(|_| explained.is_allow()),
            text,
            policies,
            applications: explained.applications.clone(),
            inbound: resource.inbound.clone(),
            within: explained.within.clone(),
            outside: explained.outside.as_ref().map(|(at, text)| OutsideName {
                at: *at,
                text: text.clone(),
            }),
            judged_address: explained.judged.as_ref().and_then(|judged| judged.address),
            gateway,
        };
        Ok((explanation, explained))
    }

    /// The address that conditions judged, and its origin.
    async fn judged_in_words(
        &self,
        caller: &Caller,
        judged: &JudgedAddress,
    ) -> Result<String, Fault> {
        let Some(gateway) = judged.gateway else {
            return Ok(match judged.address {
                Some(address) => format!("address: {address}, as the portal saw the client"),
                None => "address: unknown, because the client has not connected".to_owned(),
            });
        };
        let row: store::Gateway = self.read(caller, gateway).await?;
        let name = quoted(&row.name);
        let minutes = ENDPOINT_FRESH_MS / 60_000;
        Ok(match (judged.address, judged.handshake) {
            (Some(address), Some(at)) => {
                format!("address: {address}, where {name} hears the device; last handshake {at}")
            }
            (Some(address), None) => {
                format!(
                    "address: {address}, as last recorded; {name} has not told where the device is yet"
                )
            }
            (None, _) if judged.is_untold => format!(
                "address: unknown, because {name} is of an earlier version and does not tell where devices are: update the \
                 gateway"
            ),
            (None, _) if judged.is_unsettled => format!(
                "address: unknown, because {name} hears the device at changing addresses: is its file on two devices?"
            ),
            (None, Some(at)) => format!(
                "address: unknown, because the last handshake with {name} was at {at}; it counts for {minutes} minutes"
            ),
            (None, None) => format!("address: unknown, because {name} has not heard the device"),
        })
    }

    /// The outcome of each policy. One question has the names of [`MAX_BATCH`] of them.
    async fn policies_explained(
        &self,
        caller: &Caller,
        explained: &Explained,
    ) -> Result<Vec<PolicyExplanation>, Fault> {
        let mut policies = Vec::new();
        // Each has a policy and a group.
        for outcomes in explained.policies.outcomes.chunks(MAX_BATCH / 2) {
            let ids = outcomes
                .iter()
                .flat_map(|outcome| [EntityId::from(outcome.policy), outcome.group.into()]);
            let names = self.names_of(caller, ids).await?;
            let name = |id: EntityId| names.get(&id).map_or_else(|| id.to_string(), String::clone);
            for outcome in outcomes {
                let (until, reasons) = match &outcome.outcome {
                    Ok(until) => (*until, Vec::new()),
                    Err(unmet) => (None, unmet.iter().map(|unmet| self.reason(unmet)).collect()),
                };
                policies.push(PolicyExplanation {
                    policy: outcome.policy,
                    name: name(outcome.policy.into()),
                    until,
                    group: outcome.group,
                    group_name: name(outcome.group.into()),
                    verdict: verdict(outcome.outcome.is_ok()),
                    reasons,
                });
            }
        }
        Ok(policies)
    }

    /// The reason why a condition does not hold. One about a country never does without a database, wherever the client is.
    pub(super) fn reason(&self, unmet: &UnmetView) -> String {
        let text = &unmet.text;
        match unmet.kind {
            UnmetKind::Country if !self.served.knows_countries() => {
                format!(
                    "{text}, and the policy never holds: {}",
                    warnings::NO_COUNTRIES
                )
            }
            _ => text.clone(),
        }
    }
}

const fn verdict(is_allow: bool) -> Verdict {
    match is_allow {
        true => Verdict::Allow,
        false => Verdict::Deny,
    }
}

/// Lines about the addresses to which names of the resource may lead.
fn names_in_words(explained: &Explained, kind: TargetKind) -> Vec<String> {
    let mut lines = Vec::new();
    match &explained.within {
        Some(within) => {
            let within = within.join(", ");
            lines.push(format!("at the gateway: names may lead only into {within}"));
        }
        None => {
            let warning = words::within_warning(kind, None);
            lines.extend(warning.map(|warning| format!("warning: {warning}")));
        }
    }
    if let Some((at, text)) = &explained.outside {
        lines.push(format!("a gateway refused a name at {at}: {text}"));
    }
    lines
}

/// A sentence, and a line for each policy.
fn in_words(
    explained: &Explained,
    client: &str,
    resource: &str,
    policies: &[PolicyExplanation],
    gateway: Option<&GatewayChoice>,
) -> String {
    let mut lines = Vec::new();
    lines.push(match (&explained.barred, explained.is_allow(), gateway) {
        (Some(barred), _, _) => format!("{client} may not use {resource}: {}", barred.text),
        (None, true, Some(gateway)) => {
            format!("{client} may use {resource}, through {}", gateway.name)
        }
        (None, true, None) => {
            let why = explained.gateway.as_ref().err().map_or("", String::as_str);
            format!("{client} may use {resource}, but cannot reach it: {why}")
        }
        (None, false, _) if policies.is_empty() => {
            format!("{client} may not use {resource}: no policy joins a group of its actor with it")
        }
        (None, false, _) => format!("{client} may not use {resource}: no policy allows it now"),
    });
    for policy in policies {
        let outcome = match (policy.verdict, policy.until) {
            (Verdict::Allow, Some(until)) => format!("allows until {until}"),
            (Verdict::Allow, None) => "allows".to_owned(),
            (Verdict::Deny, _) => policy.reasons.join("; "),
        };
        let (name, group) = (quoted(&policy.name), quoted(&policy.group_name));
        lines.push(format!("policy {name} for group {group}: {outcome}"));
    }
    if let Some((at, text)) = &explained.refused_at_host {
        lines.push(format!("a gateway refused it at {at}: {text}"));
    }
    if let Some(rule) = &explained.applications_in_words {
        lines.push(format!("on the client: {rule} may reach it"));
    }
    lines.join("\n")
}
