//! Answers as they go out.

use crate::name;
use crate::query::{Asked, Asker, Question};
use crate::{NEGATIVE_TTL, TTL, Transport, UDP_PAYLOAD};
use culvert_policy::DomainName;
use domain::base::iana::{Class, ExtendedErrorCode, OptRcode};
use domain::base::message_builder::{AdditionalBuilder, PushError};
use domain::base::opt::ExtendedError;
use domain::base::{MessageBuilder, Name, Serial, StaticCompressor, Ttl};
use domain::rdata::{A, Aaaa, Cname, Ptr, Soa};
use std::net::{Ipv4Addr, Ipv6Addr};

type Target = StaticCompressor<Vec<u8>>;

/// An answer before it has a form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) code: OptRcode,
    pub(crate) records: Records<'a>,
    pub(crate) error: Option<(ExtendedErrorCode, &'a str)>,
}

/// The records of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Records<'a> {
    /// None.
    None,
    /// None, and that may be remembered for [`NEGATIVE_TTL`].
    Absent,
    /// Addresses of the name.
    Addresses(Option<Ipv4Addr>, Option<Ipv6Addr>),
    /// The name of an address.
    Pointer(&'a DomainName),
}

impl<'a> Reply<'a> {
    pub(crate) fn code(code: OptRcode) -> Self {
        let (records, error) = (Records::None, None);
        Self {
            code,
            records,
            error,
        }
    }

    pub(crate) fn records(records: Records<'a>) -> Self {
        Self {
            records,
            ..Self::code(OptRcode::NOERROR)
        }
    }

    pub(crate) fn absent(code: OptRcode) -> Self {
        Self {
            records: Records::Absent,
            ..Self::code(code)
        }
    }

    /// An extended error (RFC 8914), which only those see who know EDNS.
    pub(crate) fn error(code: OptRcode, error: ExtendedErrorCode, text: &'a str) -> Self {
        Self {
            error: Some((error, text)),
            ..Self::code(code)
        }
    }
}

/// Writes an answer; where it is too long for who asked, without records and marked as truncated.
pub(crate) fn write(asked: &Asked, asker: Asker, reply: &Reply<'_>) -> Vec<u8> {
    let len_max = match asker.transport {
        Transport::Udp => asked
            .answer_len_max(asker.transport)
            .min(usize::from(UDP_PAYLOAD)),
        Transport::Tcp => asked.answer_len_max(asker.transport),
    };
    compose(asked, reply, len_max)
        .or_else(|_| truncated(asked, reply.code))
        .unwrap_or_else(|_| header(asked, reply.code, false).finish().into_target())
}

/// An answer that says: ask again over TCP.
pub(crate) fn write_truncated(asked: &Asked) -> Vec<u8> {
    let code = OptRcode::NOERROR;
    truncated(asked, code).unwrap_or_else(|_| header(asked, code, true).finish().into_target())
}

fn compose(asked: &Asked, reply: &Reply<'_>, len_max: usize) -> Result<Vec<u8>, PushError> {
    let mut builder = header(asked, reply.code, false);
    builder.set_push_limit(len_max);
    let mut builder = builder.question();
    if let Some(question) = &asked.question {
        builder.push(question)?;
    }
    let mut builder = builder.answer();
    let ttl = seconds(TTL);
    let mut owner = asked.question.as_ref().map(Question::qname);
    if !matches!(reply.records, Records::None) {
        for alias in &asked.aliases {
            if let Some(owner) = owner.replace(alias) {
                builder.push((owner, Class::IN, ttl, Cname::new(alias)))?;
            }
        }
    }
    match (owner, reply.records) {
        (None, _) | (_, Records::None | Records::Absent) => {}
        (Some(owner), Records::Addresses(v4, v6)) => {
            if let Some(address) = v4 {
                builder.push((owner, Class::IN, ttl, A::new(address)))?;
            }
            if let Some(address) = v6 {
                builder.push((owner, Class::IN, ttl, Aaaa::new(address)))?;
            }
        }
        (Some(owner), Records::Pointer(name)) => {
            if let Some(name) = name::write(name) {
                builder.push((owner, Class::IN, ttl, Ptr::new(name)))?;
            }
        }
    }
    let mut builder = builder.authority();
    if let (Some(owner), Records::Absent) = (owner, reply.records) {
        let ttl = seconds(NEGATIVE_TTL);
        builder.push((owner, Class::IN, ttl, start_of_authority(owner)))?;
    }
    let mut builder = builder.additional();
    // A message of full length without its reason is better than a truncated one.
    push_edns(&mut builder, asked, reply.code, reply.error)
        .or_else(|_| push_edns(&mut builder, asked, reply.code, None))?;
    Ok(builder.finish().into_target())
}

fn truncated(asked: &Asked, code: OptRcode) -> Result<Vec<u8>, PushError> {
    let mut builder = header(asked, code, true).question();
    if let Some(question) = &asked.question {
        builder.push(question)?;
    }
    let mut builder = builder.additional();
    push_edns(&mut builder, asked, code, None)?;
    Ok(builder.finish().into_target())
}

fn header(asked: &Asked, code: OptRcode, is_truncated: bool) -> MessageBuilder<Target> {
    let mut builder = match MessageBuilder::from_target(StaticCompressor::new(Vec::new())) {
        Ok(builder) => builder,
        Err(never) => match never {},
    };
    let header = builder.header_mut();
    header.set_id(asked.id);
    header.set_qr(true);
    header.set_opcode(asked.opcode);
    header.set_tc(is_truncated);
    header.set_rd(asked.recursion_desired);
    header.set_ra(true);
    // RFC 4035, §3.2.2: "a security-aware recursive name server MUST copy the setting of the CD
    // bit from a query to the corresponding response".
    header.set_cd(asked.checking_disabled);
    header.set_rcode(code.rcode());
    builder
}

/// RFC 6891, §6.1.1: an answer has an OPT record if and only if its query has one.
fn push_edns(
    builder: &mut AdditionalBuilder<Target>,
    asked: &Asked,
    code: OptRcode,
    error: Option<(ExtendedErrorCode, &str)>,
) -> Result<(), PushError> {
    let Some(edns) = asked.edns else {
        return Ok(());
    };
    builder.opt(|opt| {
        opt.set_udp_payload_size(UDP_PAYLOAD);
        opt.set_dnssec_ok(edns.dnssec_ok);
        opt.set_rcode(code);
        let error =
            error.and_then(|(code, text)| ExtendedError::<Vec<u8>>::new_with_str(code, text).ok());
        error.map_or(Ok(()), |error| opt.push(&error))
    })
}

/// RFC 2308, §3: without this record nobody may remember that there is nothing. The name is its own
/// zone; the other values say "never", as there are no secondaries.
fn start_of_authority(name: &Name<Vec<u8>>) -> Soa<&Name<Vec<u8>>> {
    const NEVER: Ttl = Ttl::from_secs(86_400);
    let minimum = seconds(NEGATIVE_TTL);
    Soa::new(name, name, Serial::from(1), NEVER, NEVER, NEVER, minimum)
}

fn seconds(duration: std::time::Duration) -> Ttl {
    Ttl::from_secs(u32::try_from(duration.as_secs()).unwrap_or(u32::MAX))
}
