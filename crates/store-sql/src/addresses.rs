//! Addresses of machines inside the tunnel.

use super::writing::Writing;
use culvert_store::range::Range;
use culvert_store::{ADDRESS_REST_MS, Entity, StoreError};
use std::collections::HashSet;
use std::net::IpAddr;

/// Addresses that are looked at in one query.
const WINDOW: u128 = 1_024;

/// Windows that are looked at: 65,536 addresses. A range of that size is searched whole; a larger
/// one, from a random place, would have to be almost full for a search to find nothing in it.
const MAX_WINDOWS: u128 = 64;

/// Takes an address that no machine has, or had within [`ADDRESS_REST_MS`]. The search begins at
/// `hint`, a random number, so that an address says nothing of who came before.
///
/// # Errors
/// [`StoreError::NoAddress`] with `text`, as the administrator wrote the range.
pub(super) async fn allocate(
    writing: &mut Writing,
    range: Range,
    text: &str,
    hint: u64,
) -> Result<u128, StoreError> {
    for (from, until) in searched(range.hosts(), hint) {
        if let Some(address) = free_within(writing, range, from, until).await? {
            return Ok(address);
        }
    }
    Err(StoreError::NoAddress {
        range: text.to_owned(),
    })
}

/// The hosts that are looked at, of so many, one query after another: from each first one to before the last one.
fn searched(hosts: u128, hint: u64) -> impl Iterator<Item = (u128, u128)> {
    let windows = hosts.div_ceil(WINDOW).min(MAX_WINDOWS);
    (0..windows).flat_map(move |window| {
        let from = (u128::from(hint) + window * WINDOW) % hosts;
        let count = WINDOW.min(hosts);
        let until = (from + count).min(hosts);
        // Beyond the last address the search goes on at the first one.
        let beyond = count - (until - from);
        [(from, until), (0, beyond)]
            .into_iter()
            .filter(|(from, until)| from < until)
    })
}

async fn free_within(
    writing: &mut Writing,
    range: Range,
    from: u128,
    until: u128,
) -> Result<Option<u128>, StoreError> {
    let resting_since = writing.at().unix_ms().saturating_sub(ADDRESS_REST_MS);
    let sql = "SELECT address FROM machine_address WHERE account = ? AND address BETWEEN ? AND ? \
               AND (released_ms IS NULL OR released_ms > ?)";
    let values = vec![
        writing.account().as_bytes().into(),
        range.bytes(range.host(from)).as_slice().into(),
        range.bytes(range.host(until - 1)).as_slice().into(),
        resting_since.into(),
    ];
    let rows = writing.connection().await?.fetch(sql, values).await?;
    let mut taken = HashSet::with_capacity(rows.len());
    for row in rows.iter() {
        taken.insert(row.get::<Vec<u8>>("address")?);
    }
    let free = (from..until)
        .map(|index| range.host(index))
        .find(|address| !taken.contains(&range.bytes(*address)));
    let Some(address) = free else {
        return Ok(None);
    };
    let sql = "INSERT INTO machine_address (account, address, released_ms) VALUES (?, ?, NULL) \
               ON CONFLICT (account, address) DO UPDATE SET released_ms = NULL";
    let values = vec![
        writing.account().as_bytes().into(),
        range.bytes(address).as_slice().into(),
    ];
    writing.execute(sql, values).await?;
    Ok(Some(address))
}

/// Lets the addresses of a machine rest. Rows of other kinds have none.
pub(super) async fn release_of(writing: &mut Writing, row: &Entity) -> Result<(), StoreError> {
    let (ipv4, ipv6) = match row {
        Entity::Client(row) => (row.ipv4, row.ipv6),
        Entity::Gateway(row) => (row.ipv4, row.ipv6),
        _ => return Ok(()),
    };
    release(writing, ipv4.into()).await?;
    release(writing, ipv6.into()).await
}

/// Lets an address rest: its machine no longer has it.
pub(super) async fn release(writing: &mut Writing, address: IpAddr) -> Result<(), StoreError> {
    let bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let sql = "UPDATE machine_address SET released_ms = ? \
               WHERE account = ? AND address = ? AND released_ms IS NULL";
    let values = vec![
        writing.at().into(),
        writing.account().as_bytes().into(),
        bytes.as_slice().into(),
    ];
    writing.execute(sql, values).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_begins_at_the_hint_and_leaves_no_host_out() {
        let whole = MAX_WINDOWS * WINDOW;
        for hosts in [6, 254, 1_022, 1_024, 1_025, 2_046, 5_000, whole - 2, whole] {
            for hint in [0, 1, 5, 1_023, 1_024, 65_535, u64::MAX - 1, u64::MAX] {
                let parts: Vec<_> = searched(hosts, hint).collect();
                assert_eq!(parts[0].0, u128::from(hint) % hosts);
                let found: HashSet<u128> = parts.iter().flat_map(|part| part.0..part.1).collect();
                let all: HashSet<u128> = (0..hosts).collect();
                assert!(found == all, "{hosts} from {hint}: {parts:?}");
            }
        }
    }

    #[test]
    fn of_a_large_range_65_536_hosts_are_looked_at_in_queries_of_1_024() {
        for hosts in [65_537, 1 << 21, (1 << 127) - 2] {
            for hint in [0, 77, u64::MAX] {
                let parts: Vec<_> = searched(hosts, hint).collect();
                assert!(parts.iter().all(|(from, until)| until - from <= 1_024));
                assert!(parts.iter().all(|(_, until)| *until <= hosts));
                let found: HashSet<u128> = parts.iter().flat_map(|part| part.0..part.1).collect();
                assert_eq!(found.len(), 65_536, "{hosts} from {hint}");
            }
        }
    }
}
