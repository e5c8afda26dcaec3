//! Addresses of names of resources in the answers of others: a program that used them would bypass the
//! tunnel.

use crate::name;
use culvert_policy::DomainName;
use domain::base::iana::Rtype;
use domain::base::message_builder::{MessageBuilder, RecordSectionBuilder};
use domain::base::name::ParsedName;
use domain::base::rdata::UnknownRecordData;
use domain::base::wire::ParseError;
use domain::base::{Message, Name, ParsedRecord, StaticCompressor};
use domain::rdata::AllRecordData;

type Target = StaticCompressor<Vec<u8>>;

/// Keys of parameters of a service (RFC 9460, section 14.3.2).
const MANDATORY: u16 = 0;
const HINTS: [u16; 2] = [4, 6];

/// The message without addresses of names of resources. A server adds them to be helpful, as those of the targets of
/// SRV records, or tells them as hints where a service is, which browsers follow. None where there are none of them.
pub(crate) fn taken_out(
    message: &Message<[u8]>,
    is_of_resource: impl Fn(&DomainName) -> bool,
) -> Result<Option<Vec<u8>>, ParseError> {
    let mut found = false;
    for item in message {
        found |= !matches!(fate(&item?.0, &is_of_resource)?, Fate::Unchanged);
    }
    if !found {
        return Ok(None);
    }
    let mut builder = match MessageBuilder::from_target(StaticCompressor::new(Vec::new())) {
        Ok(builder) => builder,
        Err(never) => match never {},
    };
    *builder.header_mut() = message.header();
    let mut builder = builder.question();
    for question in message.question() {
        builder.push(question?).map_err(|_| too_long())?;
    }
    let mut builder = builder.answer();
    for record in message.answer()? {
        copy(&record?, &mut builder, &is_of_resource)?;
    }
    let mut builder = builder.authority();
    for record in message.authority()? {
        copy(&record?, &mut builder, &is_of_resource)?;
    }
    let mut builder = builder.additional();
    for record in message.additional()? {
        copy(&record?, &mut builder, &is_of_resource)?;
    }
    Ok(Some(builder.finish().into_target()))
}

/// The decision about a record.
enum Fate {
    Unchanged,
    LeftOut,
    /// With these data in place of its own.
    Changed(Vec<u8>),
}

fn fate(
    record: &ParsedRecord<'_, [u8]>,
    is_of_resource: &impl Fn(&DomainName) -> bool,
) -> Result<Fate, ParseError> {
    let is_ours = name::read(&record.owner()).is_some_and(|name| is_of_resource(&name));
    Ok(match record.rtype() {
        Rtype::A | Rtype::AAAA if is_ours => Fate::LeftOut,
        Rtype::HTTPS | Rtype::SVCB => match record.to_record::<UnknownRecordData<_>>()? {
            Some(record) => service_fate(record.data().data(), is_ours, is_of_resource)?,
            None => Fate::Unchanged,
        },
        _ => Fate::Unchanged,
    })
}

/// The decision about an HTTPS or SVCB record. A target that is the root means the owner of the record (RFC 9460,
/// section 2.5).
fn service_fate(
    data: &[u8],
    is_owner_ours: bool,
    is_of_resource: &impl Fn(&DomainName) -> bool,
) -> Result<Fate, ParseError> {
    let (priority, rest) = data.split_at_checked(2).ok_or_else(cut_short)?;
    let target_len = target_len(rest)?;
    let (target, mut rest) = rest.split_at(target_len);
    let mut remaining = [priority, target].concat();
    let target = Name::from_octets(target).map_err(|_| cut_short())?;
    let is_ours = match target.is_root() {
        true => is_owner_ours,
        false => name::read(&target).is_some_and(|name| is_of_resource(&name)),
    };
    let (mut has_hints, mut needs_hints) = (false, false);
    while let Some((head, tail)) = rest.split_at_checked(4) {
        let (key, len) = head.split_at(2);
        let key = u16::from_be_bytes([key[0], key[1]]);
        let len = usize::from(u16::from_be_bytes([len[0], len[1]]));
        let (value, tail) = tail.split_at_checked(len).ok_or_else(cut_short)?;
        if HINTS.contains(&key) {
            has_hints = true;
        } else {
            let keys = value.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
            let mut keys = keys.map(u16::from_be_bytes);
            needs_hints |= key == MANDATORY && keys.any(|key| HINTS.contains(&key));
            remaining.extend_from_slice(head);
            remaining.extend_from_slice(value);
        }
        rest = tail;
    }
    Ok(match (is_ours && has_hints, needs_hints) {
        (false, _) => Fate::Unchanged,
        (true, false) => Fate::Changed(remaining),
        (true, true) => Fate::LeftOut,
    })
}

/// The length of the name at the front, which is never compressed.
fn target_len(data: &[u8]) -> Result<usize, ParseError> {
    let mut at = 0;
    loop {
        let len = usize::from(*data.get(at).ok_or_else(cut_short)?);
        at += 1 + len;
        if at > data.len() {
            return Err(cut_short());
        }
        if len == 0 {
            return Ok(at);
        }
    }
}

fn copy(
    record: &ParsedRecord<'_, [u8]>,
    target: &mut impl RecordSectionBuilder<Target>,
    is_of_resource: &impl Fn(&DomainName) -> bool,
) -> Result<(), ParseError> {
    let pushed = match fate(record, is_of_resource)? {
        Fate::LeftOut => return Ok(()),
        Fate::Unchanged => target.push(record.to_any_record::<AllRecordData<_, ParsedName<_>>>()?),
        Fate::Changed(data) => {
            let data = UnknownRecordData::from_octets(record.rtype(), data);
            let data = data.map_err(|_| too_long())?;
            target.push((record.owner(), record.class(), record.ttl(), data))
        }
    };
    pushed.map_err(|_| too_long())
}

fn cut_short() -> ParseError {
    ParseError::form_error("a service is cut short")
}

fn too_long() -> ParseError {
    ParseError::form_error("too long")
}
