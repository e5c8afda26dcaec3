//! Changes of policies while everybody is connected: how soon gateways and clients are told, and how much work that is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use culvert_ids::ResourceId;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::client::What;
use super::crowd::{Crowd, Happened};
use super::figures::{ChangeFigures, Spread};
use super::gateway::Heard;
use super::portals::Portals;
use super::world::{EVERYBODY, NOBODY, id_of};

/// The limit of one change. The target for a hundredth of 10,000 clients is 1 s.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The time after a change in which processor time still counts as its own.
const AFTER: Duration = Duration::from_millis(100);

/// The time over which the work of portals without changes is measured: two pings of each session.
const IDLE: Duration = Duration::from_secs(10);

/// Messages to a client that loses access: that its grant is revoked, and that the resource is gone.
const MESSAGES: usize = 2;

/// A change that concerns everybody takes as long as a hundred others.
const ROUNDS_OF_EVERYBODY: usize = 5;

/// The clients that a change concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Concern {
    Nobody,
    Group,
    Everybody,
}

/// One change.
#[derive(Default)]
struct Round {
    concerned: usize,
    messages: usize,
    to_gateways: usize,
    to_others: usize,
    answered: Duration,
    gateways_told: Duration,
    clients_told: Duration,
    portals_cpu_s: f64,
    database_cpu_s: f64,
    took: Duration,
}

/// Measures `rounds` changes that concern nobody, as many that concern a group, and some that concern everybody.
pub(super) async fn measure(
    crowd: &mut Crowd,
    portals: &Portals,
    rounds: usize,
) -> Result<Vec<ChangeFigures>> {
    let before = portals.spent()?;
    sleep(IDLE).await;
    let idle = portals.spent()?.since(&before);
    let idle = idle.portals_cpu_s() / IDLE.as_secs_f64();
    let firsts: Vec<ResourceId> = (0..crowd.size.groups)
        .map(|client| {
            let mut granted = crowd.granted.iter();
            let of_client = granted.find(|(_, clients)| clients.contains(&client));
            of_client.map(|(resource, _)| *resource)
        })
        .collect::<Option<_>>()
        .context("a client has no grant")?;
    let mut measured = Vec::new();
    for concern in [Concern::Nobody, Concern::Group, Concern::Everybody] {
        let rounds = match concern {
            Concern::Nobody | Concern::Group => rounds,
            Concern::Everybody => rounds.min(ROUNDS_OF_EVERYBODY),
        };
        let mut all = Vec::with_capacity(rounds);
        for number in 0..rounds {
            let resource = match concern {
                Concern::Nobody => named(portals, NOBODY).await?,
                Concern::Group => firsts[number % firsts.len()],
                Concern::Everybody => named(portals, EVERYBODY).await?,
            };
            all.push(round(crowd, portals, concern, resource).await?);
        }
        measured.push(of_rounds(concern, &all, idle));
    }
    Ok(measured)
}

async fn named(portals: &Portals, name: &str) -> Result<ResourceId> {
    let id = id_of(portals.first(), &format!("/resources?name={name}")).await?;
    Ok(serde_json::from_value(id)?)
}

/// Disables the one policy that gives a resource, and enables it again, or before where nobody may use it yet.
async fn round(
    crowd: &mut Crowd,
    portals: &Portals,
    concern: Concern,
    resource: ResourceId,
) -> Result<Round> {
    if concern == Concern::Everybody {
        set(portals, resource, false).await?;
        let everybody = (0..crowd.size.clients).collect();
        granted(crowd, resource, &everybody).await?;
    }
    let concerned = crowd.granted.remove(&resource).unwrap_or_default();
    let round = disable(crowd, portals, resource, &concerned).await?;
    if concern != Concern::Everybody {
        set(portals, resource, false).await?;
        granted(crowd, resource, &concerned).await?;
    }
    Ok(round)
}

/// Disables or enables the policy of a resource.
async fn set(portals: &Portals, resource: ResourceId, disabled: bool) -> Result<()> {
    let policy = policy_of(portals, resource).await?;
    patch(portals, &policy, disabled).await
}

/// The policy that gives a resource.
async fn policy_of(portals: &Portals, resource: ResourceId) -> Result<Value> {
    let path = format!("/policies?resource={resource}");
    let mut policies = portals.first().get(&path).await?;
    Ok(policies["items"][0].take())
}

async fn patch(portals: &Portals, policy: &Value, disabled: bool) -> Result<()> {
    let path = format!("/policies/{}", policy["id"].as_str().context("a policy")?);
    let change = json!({"disabled": disabled});
    let patched = portals.first().patch(&path, &policy["version"], &change);
    patched.await.map(drop)
}

/// Waits until all of them have a grant.
async fn granted(crowd: &mut Crowd, resource: ResourceId, clients: &BTreeSet<usize>) -> Result<()> {
    let has = |crowd: &Crowd| crowd.granted.get(&resource).map_or(0, BTreeSet::len);
    let granted = async {
        while has(crowd) < clients.len() {
            crowd.next().await?;
        }
        anyhow::Ok(())
    };
    match timeout(TIMEOUT, granted).await {
        Ok(granted) => granted,
        Err(_elapsed) => bail!(
            "{} of {} clients have access again after {} s; {:?}",
            has(crowd),
            clients.len(),
            TIMEOUT.as_secs(),
            crowd.take_failures()
        ),
    }
}

async fn disable(
    crowd: &mut Crowd,
    portals: &Portals,
    resource: ResourceId,
    concerned: &BTreeSet<usize>,
) -> Result<Round> {
    let mut round = Round {
        concerned: concerned.len(),
        ..Round::default()
    };
    let policy = policy_of(portals, resource).await?;
    let before = portals.spent()?;
    let start = Instant::now();
    patch(portals, &policy, true).await?;
    round.answered = start.elapsed();

    let mut told: BTreeMap<usize, usize> = BTreeMap::new();
    let mut revoked = 0;
    let hear = async {
        while revoked < concerned.len() || round.messages < MESSAGES * concerned.len() {
            match crowd.next().await? {
                Happened::Client(event) => match event.what {
                    What::Told(kind, about) => {
                        let is_concerned = concerned.contains(&event.client);
                        if !is_concerned || about != Some(resource) {
                            eprintln!(
                                "client {} heard {kind}, which is not its concern",
                                event.client
                            );
                            round.to_others += 1;
                            continue;
                        }
                        round.messages += 1;
                        *told.entry(event.client).or_default() += 1;
                        round.clients_told = event.at.saturating_duration_since(start);
                    }
                    What::Lost => bail!("client {} lost its session by a change", event.client),
                    What::Served(_) | What::Failed(_) | What::Ended(_) => {}
                },
                Happened::Gateway(event) => match event.what {
                    Heard::Revoke(_) => {
                        revoked += 1;
                        round.to_gateways += 1;
                        round.gateways_told = event.at.saturating_duration_since(start);
                    }
                    Heard::Lost => bail!("gateway {} lost its session by a change", event.gateway),
                    Heard::Welcome | Heard::Other => round.to_gateways += 1,
                },
            }
        }
        Ok(())
    };
    match timeout(TIMEOUT, hear).await {
        Ok(heard) => heard?,
        Err(_elapsed) => bail!(
            "of {} clients that a change concerns, {} were told, and gateways {} times, within {} s",
            concerned.len(),
            told.len(),
            revoked,
            TIMEOUT.as_secs()
        ),
    }
    sleep(AFTER).await;
    let spent = portals.spent()?.since(&before);
    round.took = start.elapsed();
    round.portals_cpu_s = spent.portals_cpu_s();
    round.database_cpu_s = spent.database_cpu_s.unwrap_or_default();
    Ok(round)
}

#[expect(clippy::cast_precision_loss, reason = "numbers are far below 2^53")]
fn of_rounds(concern: Concern, rounds: &[Round], idle: f64) -> ChangeFigures {
    let count = rounds.len().max(1) as f64;
    let sum = |of: fn(&Round) -> usize| rounds.iter().map(of).sum::<usize>() as f64 / count;
    let spread = |of: fn(&Round) -> Duration| Spread::of(rounds.iter().map(of));
    let seconds = |of: fn(&Round) -> f64| rounds.iter().map(of).sum::<f64>();
    let cpu_s = seconds(|round| round.portals_cpu_s);
    let cpu_s = cpu_s - idle * seconds(|round| round.took.as_secs_f64());
    ChangeFigures {
        concern: match concern {
            Concern::Nobody => NOBODY,
            Concern::Group => "a group",
            Concern::Everybody => EVERYBODY,
        },
        changes: rounds.len(),
        concerned: sum(|round| round.concerned),
        messages: sum(|round| round.messages),
        messages_to_gateways: sum(|round| round.to_gateways),
        messages_to_others: sum(|round| round.to_others),
        answered: spread(|round| round.answered),
        gateways_told: spread(|round| round.gateways_told),
        clients_told: spread(|round| round.clients_told),
        portals_cpu_ms: (cpu_s * 1_000.0 / count).max(0.0),
        database_cpu_ms: seconds(|round| round.database_cpu_s) * 1_000.0 / count,
    }
}
