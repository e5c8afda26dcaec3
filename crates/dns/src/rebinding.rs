//! Addresses in the answers of others that must not be believed, or told.

use domain::base::Message;
use domain::base::iana::Rtype;
use domain::base::wire::ParseError;
use domain::dep::octseq::Octets;
use domain::rdata::svcb::SvcParams;
use domain::rdata::svcb::value::{Ipv4Hint, Ipv6Hint};
use domain::rdata::{A, Aaaa, Https, Svcb};
use std::net::IpAddr;

/// True if a message has an address of a kind anywhere: as the address of a name, or as the hint of a service record, which
/// browsers follow as well.
pub(crate) fn hands_out(
    message: &Message<[u8]>,
    is_of_kind: impl Fn(IpAddr) -> bool,
) -> Result<bool, ParseError> {
    let mut found = false;
    for item in message {
        let (record, _) = item?;
        match record.rtype() {
            Rtype::A => {
                let record = record.to_record::<A>()?;
                found |= record.is_some_and(|it| is_of_kind(it.data().addr().into()));
            }
            Rtype::AAAA => {
                let record = record.to_record::<Aaaa>()?;
                found |= record.is_some_and(|it| is_of_kind(it.data().addr().into()));
            }
            Rtype::HTTPS => {
                if let Some(record) = record.to_record::<Https<_, _>>()? {
                    found |= has_hint(record.data().params(), &is_of_kind)?;
                }
            }
            Rtype::SVCB => {
                if let Some(record) = record.to_record::<Svcb<_, _>>()? {
                    found |= has_hint(record.data().params(), &is_of_kind)?;
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

fn has_hint<Octs: Octets>(
    params: &SvcParams<Octs>,
    is_of_kind: &impl Fn(IpAddr) -> bool,
) -> Result<bool, ParseError> {
    let mut found = false;
    for hint in params.iter::<Ipv4Hint<_>>() {
        found |= hint?.iter().any(|address| is_of_kind(address.into()));
    }
    for hint in params.iter::<Ipv6Hint<_>>() {
        found |= hint?.iter().any(|address| is_of_kind(address.into()));
    }
    Ok(found)
}
