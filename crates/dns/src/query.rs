//! Queries as they come in.

use crate::constants::PLAIN_UDP_PAYLOAD;
use crate::{DropReason, QUERY_LEN_MAX, Transport, UDP_PAYLOAD};
use domain::base::iana::{Class, Opcode, OptRcode, Rtype};
use domain::base::opt::{Opt, OptRecord};
use domain::base::wire::ParseError;
use domain::base::{Message, MessageBuilder, Name, ToName};
use std::net::SocketAddr;

/// Bytes of a header; the id is its first two, the question follows it.
pub(crate) const HEADER_LEN: usize = 12;

/// A question with a name of its own.
pub(crate) type Question = domain::base::Question<Name<Vec<u8>>>;

/// The origin of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) from: SocketAddr,
    pub(crate) transport: Transport,
}

/// The parts of a query that its answer depends on.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) id: u16,
    pub(crate) opcode: Opcode,
    pub(crate) recursion_desired: bool,
    pub(crate) checking_disabled: bool,
    /// With the name's letters as they came. None where it cannot be read.
    pub(crate) question: Option<Question>,
    /// The targets of the CNAME chain from the question's name, in order, as an upstream says. The answer is about the last.
    pub(crate) aliases: Vec<Name<Vec<u8>>>,
    pub(crate) edns: Option<Edns>,
}

/// The EDNS options of the asker (RFC 6891).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edns {
    /// The longest answer that it accepts over UDP, in bytes.
    pub(crate) payload: u16,
    pub(crate) dnssec_ok: bool,
}

/// A query that was read; with a fault, as far as it could be read.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) asked: Asked,
    pub(crate) fault: Option<OptRcode>,
}

impl Asked {
    /// A question of this resolver itself: for the IPv4 addresses of a name.
    pub(crate) fn of_own(name: Name<Vec<u8>>) -> Self {
        Self {
            id: 0,
            opcode: Opcode::QUERY,
            recursion_desired: true,
            checking_disabled: false,
            question: Some(Question::new(name, Rtype::A, Class::IN)),
            aliases: Vec::new(),
            edns: None,
        }
    }

    /// True if this is the other query, sent again. Names are compared letter by letter: a resolver
    /// that varies their case compares the answer with the query that it sent.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let bytes = |asked: &Self| {
            asked.question.as_ref().map(|question| {
                let name = question.qname().as_slice().to_vec();
                (name, question.qtype(), question.qclass())
            })
        };
        self.id == other.id && bytes(self) == bytes(other)
    }

    /// The longest answer that may be sent.
    pub(crate) fn answer_len_max(&self, transport: Transport) -> usize {
        match (transport, self.edns) {
            (Transport::Tcp, _) => usize::from(u16::MAX),
            (Transport::Udp, Some(edns)) => usize::from(edns.payload.max(PLAIN_UDP_PAYLOAD)),
            (Transport::Udp, None) => usize::from(PLAIN_UDP_PAYLOAD),
        }
    }
}

/// Reads a query.
///
/// # Errors
///
/// The reason, if an answer is not possible, or not safe.
pub(crate) fn read(bytes: &[u8]) -> Result<Reading, DropReason> {
    if bytes.len() > QUERY_LEN_MAX {
        return Err(DropReason::TooLong);
    }
    let message = Message::from_slice(bytes).map_err(|_| DropReason::TooShort)?;
    let header = message.header();
    if header.qr() {
        return Err(DropReason::NotAQuery);
    }
    let mut asked = Asked {
        id: header.id(),
        opcode: header.opcode(),
        recursion_desired: header.rd(),
        checking_disabled: header.cd(),
        question: question(message),
        aliases: Vec::new(),
        edns: None,
    };
    let edns = edns(message);
    if let Ok(Some((edns, _))) = &edns {
        asked.edns = Some(*edns);
    }
    let fault = match (asked.opcode, &asked.question, &edns) {
        (Opcode::QUERY, None, _) | (Opcode::QUERY, _, Err(_)) => Some(OptRcode::FORMERR),
        (Opcode::QUERY, _, Ok(Some((_, 1..)))) => Some(OptRcode::BADVERS),
        (Opcode::QUERY, _, Ok(Some((_, 0)) | None)) => None,
        _ => Some(OptRcode::NOTIMP),
    };
    Ok(Reading { asked, fault })
}

/// Writes the query that was read, without what is for the next resolver alone. Its id is another one when it goes out.
/// None where it has no question.
pub(crate) fn write(asked: &Asked) -> Option<Vec<u8>> {
    let mut builder = MessageBuilder::new_vec();
    let header = builder.header_mut();
    header.set_id(asked.id);
    header.set_rd(asked.recursion_desired);
    header.set_cd(asked.checking_disabled);
    let mut builder = builder.question();
    builder.push(asked.question.as_ref()?).ok()?;
    let mut builder = builder.additional();
    if let Some(edns) = asked.edns {
        let wrote = builder.opt(|opt| {
            opt.set_udp_payload_size(edns.payload.min(UDP_PAYLOAD));
            opt.set_dnssec_ok(edns.dnssec_ok);
            Ok(())
        });
        wrote.ok()?;
    }
    Some(builder.finish())
}

/// The one question of a message. A name that points elsewhere is none: nothing is in front of it
/// that it could point to but the header.
pub(crate) fn question(message: &Message<[u8]>) -> Option<Question> {
    let question = message.sole_question().ok()?;
    let name: Name<Vec<u8>> = question.qname().to_vec();
    let is_plain = message
        .as_slice()
        .get(HEADER_LEN..)
        .is_some_and(|rest| rest.starts_with(name.as_slice()));
    is_plain.then(|| Question::new(name, question.qtype(), question.qclass()))
}

/// True if a message may be the answer to a query, because it has its id and its question. It is for code that
/// waits at a socket; [`Stub::handle_upstream_answer`](crate::Stub::handle_upstream_answer) decides if the
/// answer is believed.
#[must_use]
pub fn may_answer(message: &[u8], query: &[u8]) -> bool {
    let (Ok(message), Ok(query)) = (Message::from_slice(message), Message::from_slice(query))
    else {
        return false;
    };
    let (answer, asked) = (message.header(), query.header());
    answer.qr()
        && (answer.id(), answer.opcode()) == (asked.id(), asked.opcode())
        && question(message) == question(query)
}

/// The EDNS record and its version. RFC 6891, §6.1.1: "If a query message with more than one OPT RR
/// is received, a FORMERR MUST be returned", as for an owner other than the root.
fn edns(message: &Message<[u8]>) -> Result<Option<(Edns, u8)>, ParseError> {
    let mut found = None;
    for record in message.additional()? {
        let record = record?;
        if record.rtype() != Rtype::OPT {
            continue;
        }
        let root = record.owner().is_root();
        let record = record.into_record::<Opt<_>>()?.map(OptRecord::from);
        let (Some(record), None, true) = (record, &found, root) else {
            return Err(ParseError::form_error("OPT twice, or of a name"));
        };
        let edns = Edns {
            payload: record.udp_payload_size(),
            dnssec_ok: record.dnssec_ok(),
        };
        found = Some((edns, record.version()));
    }
    Ok(found)
}
