//! The hub as the database has it.

use super::{Countries, StartError};
use culvert_hub::limits::{ENDPOINT_FRESH_MS, RELAY_TOKEN_MS};
use culvert_hub::{Directory, Facts, Hub, PORTAL_SECRET_LEN, PortalKeys};
use culvert_ids::AccountId;
use culvert_policy::ClientFacts;
use culvert_portal_base::now;
use culvert_store::{Grant, PageLimit, SecretBytes, SecretName, Snapshot, Store, StoreError};
use culvert_wire::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The hub, with what lived when the portal last ran.
pub(super) async fn hub(
    store: &dyn Store,
    snapshot: Snapshot,
    countries: &Arc<dyn Countries>,
) -> Result<Hub, StartError> {
    let account = snapshot.account.id;
    let now = now();
    // With those that ended a while ago: their clients may have tokens for relays, which nobody has withdrawn.
    let since = match snapshot.relays.is_empty() {
        true => now,
        false => Timestamp::from_unix_ms(now.unix_ms().saturating_sub(RELAY_TOKEN_MS)),
    };
    let grants = live_grants(store, account, since).await?;
    let clients = snapshot.clients.iter();
    let facts: BTreeMap<_, _> = clients
        .map(|client| {
            let seen = client.seen.as_ref();
            // A plain device is where it was for as long as its handshake counts.
            let end = |at: Timestamp| at.unix_ms().saturating_add(ENDPOINT_FRESH_MS);
            let seen = seen.filter(|seen| !client.is_plain() || now.unix_ms() < end(seen.at));
            let address = seen.and_then(|seen| seen.address);
            let facts = Facts {
                token: None,
                seen: ClientFacts::seen_at(address, |address| countries.country(address)),
                keeps_applications: None,
            };
            (client.id, facts)
        })
        .collect();
    let signing = secret(store, account, SecretName::GrantSigning).await?;
    let pairs = secret(store, account, SecretName::Pairs).await?;
    let keys = PortalKeys::new(&signing, &pairs).map_err(|_| damaged(SecretName::GrantSigning))?;
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut_slice())?;
    let directory = Directory::new(snapshot);
    for (row, fault) in directory.faults() {
        tracing::error!(%row, fault, "a row can't be understood, and allows nothing");
    }
    let mut hub = Hub::new(directory, Box::new(keys), &seed, grants, facts, now);
    let countries = Arc::clone(countries);
    hub.set_countries(Box::new(move |address| countries.country(address)));
    Ok(hub)
}

/// The grants that held at `since` or later.
async fn live_grants(
    store: &dyn Store,
    account: AccountId,
    since: Timestamp,
) -> Result<Vec<Grant>, StoreError> {
    let mut grants = Vec::new();
    let mut after = None;
    loop {
        let page = store
            .live_grants(account, since, after, PageLimit::MAX)
            .await?;
        grants.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok(grants);
        }
    }
}

/// The portal's secret of that name, made now if there is none.
async fn secret(
    store: &dyn Store,
    account: AccountId,
    name: SecretName,
) -> Result<Zeroizing<[u8; PORTAL_SECRET_LEN]>, StartError> {
    let mut random = Zeroizing::new([0; PORTAL_SECRET_LEN]);
    getrandom::fill(random.as_mut_slice())?;
    let candidate = SecretBytes::new(random.to_vec());
    let stored = store.secret(account, name, candidate).await?;
    let mut secret = Zeroizing::new([0; PORTAL_SECRET_LEN]);
    if stored.expose().len() != PORTAL_SECRET_LEN {
        return Err(damaged(name));
    }
    secret.copy_from_slice(stored.expose());
    Ok(secret)
}

fn damaged(name: SecretName) -> StartError {
    let detail = format!("the portal's secret `{}` is none", name.as_str());
    StartError::Store(StoreError::Corrupt { detail })
}
