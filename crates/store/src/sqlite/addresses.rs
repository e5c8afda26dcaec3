//! Addresses of machines inside the tunnel.

use super::read::fetch;
use super::value::{Columns, query};
use super::write::Writing;
use crate::range::Range;
use crate::{ADDRESS_REST_MS, StoreError};
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
    hint: u128,
) -> Result<u128, StoreError> {
    let hosts = range.hosts();
    let windows = hosts.div_ceil(WINDOW).min(MAX_WINDOWS);
    let start = hint % hosts;
    for window in 0..windows {
        let from = (start + window * WINDOW) % hosts;
        // What lies beyond the last address is looked at from the first one on.
        let count = WINDOW.min(hosts);
        let until = (from + count).min(hosts);
        let mut indices = vec![(from, until)];
        if until - from < count {
            indices.push((0, count - (until - from)));
        }
        for (from, until) in indices {
            if let Some(address) = free_within(writing, range, from, until).await? {
                return Ok(address);
            }
        }
    }
    Err(StoreError::NoAddress {
        range: text.to_owned(),
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
    let rows = fetch(writing.connection(), sql, values).await?;
    let mut taken = HashSet::with_capacity(rows.len());
    for row in &rows {
        taken.insert(Columns(row).get::<Vec<u8>>("address")?);
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
    query(sql, values)
        .execute(writing.connection())
        .await
        .map_err(super::fault::fault)?;
    Ok(())
}
