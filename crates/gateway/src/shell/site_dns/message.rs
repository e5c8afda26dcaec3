//! Questions as they come in, and answers as they go out.

use culvert_policy::DomainName;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_resolver::proto::rr::{DNSClass, Name, Record, RecordType};

/// The most that is sent by UDP, and that is said to be taken: what fits a packet of the tunnel whatever its MTU.
const UDP_PAYLOAD: u16 = 1_232;

/// A message that came in.
#[derive(Debug)]
pub(super) struct Asked {
    message: Message,
    /// The longest answer that may be sent.
    len_max: usize,
}

/// A question.
#[derive(Debug)]
pub(super) struct Wanted {
    /// As a client's resources have it.
    pub(super) name: DomainName,
    /// As it is asked for, with its labels as they are.
    pub(super) whole: Name,
    pub(super) kind: RecordType,
}

impl Asked {
    /// None for a message that is no query: it gets no answer.
    pub(super) fn read(bytes: &[u8], is_datagram: bool) -> Option<Self> {
        let message = Message::from_vec(bytes).ok()?;
        if message.metadata.message_type != MessageType::Query {
            return None;
        }
        let len_max = match is_datagram {
            true => message.max_payload().min(UDP_PAYLOAD).into(),
            false => u16::MAX.into(),
        };
        Some(Self { message, len_max })
    }

    /// The question, if a client with Culvert may ask it.
    ///
    /// # Errors
    /// The code to answer with.
    pub(super) fn wanted(&self) -> Result<Wanted, ResponseCode> {
        let question = self.question()?;
        // Addresses of names are asked for with grants: those that a site has lead nowhere through the tunnel.
        match question.kind {
            RecordType::A | RecordType::AAAA => Err(ResponseCode::Refused),
            _ => Ok(question),
        }
    }

    /// The question, if it can be asked.
    ///
    /// # Errors
    /// The code to answer with.
    pub(super) fn question(&self) -> Result<Wanted, ResponseCode> {
        if self.message.metadata.op_code != OpCode::Query {
            return Err(ResponseCode::NotImp);
        }
        let [question] = &self.message.queries[..] else {
            return Err(ResponseCode::FormErr);
        };
        let kind = question.query_type();
        if question.query_class() != DNSClass::IN || is_meta(kind) {
            return Err(ResponseCode::Refused);
        }
        let whole = question.name().clone();
        let name = DomainName::from_labels(whole.iter()).map_err(|_| ResponseCode::Refused)?;
        Ok(Wanted { name, whole, kind })
    }

    /// An answer without records.
    pub(super) fn answer(&self, code: ResponseCode) -> Vec<u8> {
        self.write(code, &[], None)
    }

    /// An answer with the result of the site's DNS.
    pub(super) fn answer_with(&self, found: &Result<Vec<Record>, NetError>) -> Vec<u8> {
        match found {
            Ok(found) => self.write(ResponseCode::NoError, found, None),
            Err(NetError::Dns(DnsError::NoRecordsFound(none))) => {
                let soa = none.soa.as_deref();
                let soa = soa.map(|record| record.clone().into_record_of_rdata());
                self.write(none.response_code, &[], soa)
            }
            Err(_) => self.answer(ResponseCode::ServFail),
        }
    }

    fn write(&self, code: ResponseCode, answers: &[Record], soa: Option<Record>) -> Vec<u8> {
        let asked = &self.message;
        let mut answer = Message::error_msg(asked.metadata.id, asked.metadata.op_code, code);
        answer.metadata.recursion_desired = asked.metadata.recursion_desired;
        answer.metadata.recursion_available = true;
        answer.metadata.checking_disabled = asked.metadata.checking_disabled;
        answer.add_queries(asked.queries.iter().map(Query::clone));
        answer.add_answers(answers.iter().cloned());
        answer.add_authorities(soa);
        if asked.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(UDP_PAYLOAD);
            answer.set_edns(edns);
        }
        match answer.to_vec() {
            Ok(bytes) if bytes.len() <= self.len_max => bytes,
            Ok(_) => {
                answer.metadata.truncation = true;
                answer.answers.clear();
                answer.authorities.clear();
                answer.to_vec().unwrap_or_default()
            }
            Err(_) => Vec::new(),
        }
    }
}

/// Types that are no data (RFC 6895, section 3.1): transfers, keys of transactions, OPT, and ANY (RFC 8482).
fn is_meta(kind: RecordType) -> bool {
    kind == RecordType::OPT || (128..=255).contains(&u16::from(kind))
}
