//! The log in which a gateway keeps its grants over a restart: records that are appended, and folded when it is read.
//!
//! A record is its length and its checksum (CRC-32C), four bytes each in little-endian order, and its content: a byte for
//! its kind, then that kind's body. The first record is the header. A later record about a grant takes the place of
//! earlier ones.
//!
//! **A crash never widens access.** The ids of grants that end are in a file of their own before anybody notices the end;
//! they leave it once the log says the same, and is on the disk that far ([`LogMark`]). So of an unfinished tail
//! nothing is needed, and it is left out. A log that is damaged before its mark may lack an end: nothing of it is believed.

use super::persisted::{GrantChanges, PersistedGrant, PersistedGrants, PersistedNetwork};
use crc::{CRC_32_ISCSI, Crc};
use culvert_ids::{GrantId, ID_LEN};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// The form of the log. A reader believes nothing of another one.
const FORM: u32 = 1;

/// The longest content of a record, in bytes. A grant with as many names as one may have takes 1 MB.
const MAX_CONTENT_LEN: usize = 1 << 24;

/// Bytes before the content of a record: its length and its checksum.
const HEAD_LEN: usize = 8;

/// Bytes of the header's content: its kind, the form, the generation and the length of what the log began with.
const HEADER_CONTENT_LEN: usize = 1 + 4 + 8 + 8;

const KIND_HEADER: u8 = 0;
const KIND_NETWORK: u8 = 1;
const KIND_GRANT: u8 = 2;
const KIND_ENDED: u8 = 3;

/// The reason for which nothing of a log is believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogFault {
    /// It has no header.
    #[error("it has no header")]
    NoHeader,
    /// It is of a later version of this program, or has a record of one.
    #[error("it is of a later version")]
    Later,
    /// It is not as long as it was once on the disk, or damaged.
    #[error("it is damaged at byte {at}, and was on the disk up to byte {needed}")]
    Damaged {
        /// The first record that is not whole begins there.
        at: usize,
        /// All before that byte must be whole.
        needed: u64,
    },
    /// A newer log has been there.
    #[error("it is older than the ends that are noted")]
    Outdated,
}

/// The part of a log that is on the disk: ends that it has there are noted nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogMark {
    /// The number of the log: each has a higher one than the one before.
    pub generation: u64,
    /// Bytes.
    pub len: u64,
}

/// A log as it was read.
#[derive(Debug)]
pub struct ReadLog {
    /// Its number.
    pub generation: u64,
    /// The identity of the gateway and its networks; none if the log has none.
    pub network: Option<PersistedNetwork>,
    /// Grants in force.
    pub grants: BTreeMap<GrantId, PersistedGrant>,
}

/// The bytes of a log that each grant takes, none if it has ended.
pub type GrantLens = Vec<(GrantId, usize)>;

/// The beginning of a log that holds this.
#[must_use]
pub fn begin_log(generation: u64, changes: &GrantChanges) -> (Vec<u8>, GrantLens) {
    let mut log = Vec::new();
    put_header(&mut log, generation, 0);
    let lens = append_to_log(&mut log, changes);
    set_base(&mut log, generation);
    (log, lens)
}

/// Appends changes.
pub fn append_to_log(log: &mut Vec<u8>, changes: &GrantChanges) -> GrantLens {
    if let Some(network) = &changes.network {
        // These types have a JSON form.
        let json = serde_json::to_vec(network).unwrap_or_default();
        put_record(log, KIND_NETWORK, &[&json]);
    }
    let mut lens = Vec::with_capacity(changes.grants.len());
    let mut ended = Vec::new();
    for (id, grant) in &changes.grants {
        let before = log.len();
        match grant {
            Some(grant) => {
                let json = serde_json::to_vec(grant).unwrap_or_default();
                put_record(log, KIND_GRANT, &[id.as_bytes(), &json]);
            }
            None => ended.extend_from_slice(id.as_bytes()),
        }
        lens.push((*id, log.len() - before));
    }
    for some in ended.chunks(MAX_CONTENT_LEN / 2 / ID_LEN * ID_LEN) {
        put_record(log, KIND_ENDED, &[some]);
    }
    lens
}

/// The same log without what later records have replaced, as the next generation.
///
/// # Errors
/// [`LogFault`]: it is damaged.
pub fn compact_log(log: &[u8]) -> Result<(Vec<u8>, GrantLens), LogFault> {
    let whole = LogMark {
        generation: scan(log)?.generation,
        len: log.len() as u64,
    };
    let found = check(log, Some(whole))?;
    let generation = found.generation.saturating_add(1);
    let mut compacted = Vec::new();
    put_header(&mut compacted, generation, 0);
    if let Some(network) = found.network {
        put_record(&mut compacted, KIND_NETWORK, &[&log[network]]);
    }
    let mut lens = Vec::with_capacity(found.grants.len());
    for (id, json) in found.grants {
        let before = compacted.len();
        put_record(&mut compacted, KIND_GRANT, &[id.as_bytes(), &log[json]]);
        lens.push((id, compacted.len() - before));
    }
    set_base(&mut compacted, generation);
    Ok((compacted, lens))
}

/// Reads a log. `mark` is how far it was on the disk when ends were last noted in it alone.
///
/// # Errors
/// [`LogFault`]: an end may be missing, so that nothing is believed.
pub fn read_log(log: &[u8], mark: Option<LogMark>) -> Result<ReadLog, LogFault> {
    let found = check(log, mark)?;
    let network = found
        .network
        .map(|json| serde_json::from_slice(&log[json]).map_err(|_| LogFault::Later));
    let grants = found.grants.into_iter().map(|(id, json)| {
        let grant = serde_json::from_slice(&log[json]).map_err(|_| LogFault::Later)?;
        Ok((id, grant))
    });
    Ok(ReadLog {
        generation: found.generation,
        network: network.transpose()?,
        grants: grants.collect::<Result<_, LogFault>>()?,
    })
}

/// The number of a log; none if it has no header.
#[must_use]
pub fn log_generation(log: &[u8]) -> Option<u64> {
    header(record(log, 0)?)
        .ok()
        .map(|(generation, _)| generation)
}

impl ReadLog {
    /// The state that a gateway goes on with; none if the log does not say who it is. `void` are grants that have ended since.
    #[must_use]
    pub fn into_persisted(self, void: BTreeSet<GrantId>) -> Option<PersistedGrants> {
        let network = self.network?;
        Some(PersistedGrants {
            gateway: network.gateway,
            interface: network.interface,
            ranges: network.ranges,
            grant_keys: network.grant_keys,
            grants: self.grants.into_values().collect(),
            void,
        })
    }
}

impl fmt::Display for LogMark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "log {} {}", self.generation, self.len)
    }
}

impl FromStr for LogMark {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (generation, len) = text
            .strip_prefix("log ")
            .and_then(|rest| rest.split_once(' '))
            .ok_or(())?;
        let number = |text: &str| text.parse().map_err(|_| ());
        Ok(Self {
            generation: number(generation)?,
            len: number(len)?,
        })
    }
}

/// The places of what counts in a log.
struct Found {
    generation: u64,
    /// Bytes that the log had when it began, all of them on the disk.
    base: u64,
    /// The first record that is not whole begins there, or the log ends.
    end: usize,
    network: Option<Range<usize>>,
    grants: BTreeMap<GrantId, Range<usize>>,
}

/// Goes through a log, if it is whole as far as it was on the disk.
fn check(log: &[u8], mark: Option<LogMark>) -> Result<Found, LogFault> {
    let found = scan(log)?;
    let marked = match mark {
        Some(mark) if mark.generation > found.generation => return Err(LogFault::Outdated),
        Some(mark) if mark.generation == found.generation => mark.len,
        // The log began after the mark was made.
        Some(_) | None => 0,
    };
    let needed = marked.max(found.base);
    match (found.end as u64) < needed {
        true => Err(LogFault::Damaged {
            at: found.end,
            needed,
        }),
        false => Ok(found),
    }
}

/// Goes through a log up to the first record that is not whole.
fn scan(log: &[u8]) -> Result<Found, LogFault> {
    let first = record(log, 0).ok_or(LogFault::NoHeader)?;
    let (generation, base) = header(first)?;
    let mut found = Found {
        generation,
        base,
        end: HEAD_LEN + first.len(),
        network: None,
        grants: BTreeMap::new(),
    };
    while let Some(content) = record(log, found.end) {
        let start = found.end + HEAD_LEN;
        let end = start + content.len();
        match content.split_first() {
            Some((&KIND_NETWORK, _)) => found.network = Some(start + 1..end),
            Some((&KIND_GRANT, body)) => {
                let (id, _) = body.split_first_chunk().ok_or(LogFault::Later)?;
                let json = start + 1 + ID_LEN..end;
                found.grants.insert(GrantId::from_bytes(*id), json);
            }
            Some((&KIND_ENDED, body)) => {
                let (ids, rest) = body.as_chunks::<ID_LEN>();
                if !rest.is_empty() {
                    return Err(LogFault::Later);
                }
                for id in ids {
                    found.grants.remove(&GrantId::from_bytes(*id));
                }
            }
            Some(_) | None => return Err(LogFault::Later),
        }
        found.end = end;
    }
    Ok(found)
}

/// The content of the record that begins there, if it is whole.
fn record(log: &[u8], at: usize) -> Option<&[u8]> {
    let rest = log.get(at..)?;
    let (len, rest) = rest.split_first_chunk()?;
    let (checksum, rest) = rest.split_first_chunk()?;
    let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
    let content = rest.get(..len.min(MAX_CONTENT_LEN + 1))?;
    let is_whole = len > 0 && len <= MAX_CONTENT_LEN;
    (is_whole && CHECKSUM.checksum(content) == u32::from_le_bytes(*checksum)).then_some(content)
}

fn put_record(log: &mut Vec<u8>, kind: u8, body: &[&[u8]]) {
    let start = log.len();
    log.extend_from_slice(&[0; HEAD_LEN]);
    log.push(kind);
    body.iter().for_each(|part| log.extend_from_slice(part));
    let content = &log[start + HEAD_LEN..];
    // No content is as long as 4 GiB: a grant comes in a message of 1 MiB.
    let len = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let checksum = CHECKSUM.checksum(content);
    log[start..start + 4].copy_from_slice(&len.to_le_bytes());
    log[start + 4..start + HEAD_LEN].copy_from_slice(&checksum.to_le_bytes());
}

fn put_header(log: &mut Vec<u8>, generation: u64, base: u64) {
    let body: [&[u8]; 3] = [
        &FORM.to_le_bytes(),
        &generation.to_le_bytes(),
        &base.to_le_bytes(),
    ];
    put_record(log, KIND_HEADER, &body);
}

/// Says in the header how long the log is.
fn set_base(log: &mut [u8], generation: u64) {
    let mut header = Vec::new();
    put_header(&mut header, generation, log.len() as u64);
    log[..header.len()].copy_from_slice(&header);
}

/// The generation and the length at the beginning.
fn header(content: &[u8]) -> Result<(u64, u64), LogFault> {
    let Some((&KIND_HEADER, body)) = content.split_first() else {
        return Err(LogFault::NoHeader);
    };
    let (form, body) = body.split_first_chunk().ok_or(LogFault::Later)?;
    if u32::from_le_bytes(*form) != FORM || content.len() != HEADER_CONTENT_LEN {
        return Err(LogFault::Later);
    }
    let (generation, body) = body.split_first_chunk().ok_or(LogFault::Later)?;
    let (base, _) = body.split_first_chunk().ok_or(LogFault::Later)?;
    Ok((u64::from_le_bytes(*generation), u64::from_le_bytes(*base)))
}

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4), which finds each error of up to three bits in a record of this length.
const CHECKSUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_rfc() {
        // RFC 3720, appendix B.4.
        assert_eq!(CHECKSUM.checksum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(CHECKSUM.checksum(&[0xff; 32]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(CHECKSUM.checksum(&rising), 0x46dd_794e);
    }
}
