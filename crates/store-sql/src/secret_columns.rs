//! Each column of the schema is classified here: a new one that may hold a secret can't be forgotten.

use super::{SqlStore, SqliteOptions};
use crate::sealing::SecretColumn;
use std::collections::BTreeSet;

/// Columns of text and bytes that are no secrets, by table. Ids, names, instants and numbers tell nothing that
/// lets anybody in.
const PUBLIC: [(&str, &str); 34] = [
    (
        "access_grant",
        "account id client_id gateway_id resource_id policy_id cipher",
    ),
    (
        "access_log",
        "account client_id resource_id gateway_id policy_id grant_id decision reason actor_id",
    ),
    ("account", "account id name name_key settings paths"),
    ("activity", "account"),
    ("actor", "account id kind name name_key sign_in_role"),
    ("actor_group", "account id name name_key"),
    ("attempt", "account"),
    // Rows without secrets, as `rules::without_secrets` leaves them.
    (
        "change_log",
        "account actor_id token_id operation kind row_id row_before row_after",
    ),
    (
        "client",
        "account id actor_id machine name name_key public_key ipv4 ipv6 gateways seen_address seen_software",
    ),
    (
        "flow_log",
        "account gateway_id client_id actor_id resource_id grant_id address application flow_end path relay_id",
    ),
    ("flow_source", "account gateway_id"),
    (
        "gateway",
        "account id site_id machine name name_key public_key ipv4 ipv6 seen_address seen_software token_id",
    ),
    (
        "identity",
        "account id provider_id subject actor_id memberships",
    ),
    ("invitation", "account actor_id"),
    ("machine_address", "account address"),
    ("membership", "account id group_id actor_id"),
    ("passkey", "account credential actor_id public_key name"),
    ("password", "account actor_id"),
    // The address that a sign-in under way comes from, or a hash of its person.
    ("pending", "account kind subscriber"),
    (
        "policy",
        "account id name name_key group_id resource_id conditions",
    ),
    (
        "provider",
        "account id name name_key issuer client_id settings",
    ),
    ("provider_secret", "account provider_id"),
    ("recovery_code", "account actor_id"),
    (
        "relay",
        "account id machine name name_key addresses seen_address seen_software",
    ),
    (
        "resource",
        "account id site_id name name_key target filters applications within inbound",
    ),
    ("secret", "account name"),
    ("secrets_key", "key_id"),
    ("sink_position", "account sink log"),
    ("sink_secret", "account sink"),
    ("site", "account id name name_key relays"),
    ("state_secret", "name"),
    (
        "token",
        "account id kind actor_id site_id role name name_key uses used_client used_gateway used_relay",
    ),
    ("token_digest", "id account"),
    ("totp", "account actor_id"),
];

/// Digests, from which nobody gets what they were made of: [`crate::sealing`] says why they are not encrypted.
const DIGESTS: [(&str, &str); 6] = [
    // Of names that people type, which are no secrets.
    ("attempt", "key"),
    ("invitation", "digest"),
    ("password", "verifier"),
    ("pending", "key"),
    ("recovery_code", "digest"),
    ("token_digest", "digest"),
];

#[tokio::test]
async fn every_column_of_the_schema_is_public_a_digest_or_encrypted() {
    let store = SqlStore::open(&SqliteOptions::memory()).await.unwrap();
    let sql = "SELECT t.name || '.' || c.name AS name FROM sqlite_schema AS t, \
               pragma_table_info(t.name) AS c WHERE t.type = 'table' AND c.type <> 'INTEGER'";
    let mut reading = store.reading().await.unwrap();
    let rows = reading.fetch(sql, Vec::new()).await.unwrap();
    let found = rows.iter().map(|row| row.text("name").unwrap());
    let found: BTreeSet<String> = found.collect();
    let mut known = BTreeSet::new();
    for (table, columns) in PUBLIC.into_iter().chain(DIGESTS) {
        known.extend(columns.split(' ').map(|column| format!("{table}.{column}")));
    }
    for column in SecretColumn::ALL {
        let [table, column, key] = column.names();
        let secret = format!("{table}.{column}");
        assert!(!known.contains(&secret), "{secret} is listed twice");
        assert!(known.contains(&format!("{table}.{key}")), "{table}.{key}");
        known.insert(secret);
    }
    let unknown: Vec<_> = found.difference(&known).collect();
    assert!(unknown.is_empty(), "classify in this file: {unknown:?}");
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(gone.is_empty(), "no longer in the schema: {gone:?}");
}
