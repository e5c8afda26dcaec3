//! Addresses of names of resources in the answers of others.

use crate::Ranges;
use domain::base::Message;
use domain::base::iana::Rtype;
use domain::base::wire::ParseError;
use domain::dep::octseq::Octets;
use domain::rdata::svcb::SvcParams;
use domain::rdata::svcb::value::{Ipv4Hint, Ipv6Hint};
use domain::rdata::{A, Aaaa, Https, Svcb};

/// True if a message has an address from the ranges for names anywhere: as the address of a name,
/// or as the hint of a service record, which browsers follow as well.
pub(crate) fn hands_out_ours(message: &Message<[u8]>, ranges: &Ranges) -> Result<bool, ParseError> {
    let mut found = false;
    for item in message {
        let (record, _) = item?;
        match record.rtype() {
            Rtype::A => {
                let record = record.to_record::<A>()?;
                found |= record.is_some_and(|it| ranges.contains(it.data().addr().into()));
            }
            Rtype::AAAA => {
                let record = record.to_record::<Aaaa>()?;
                found |= record.is_some_and(|it| ranges.contains(it.data().addr().into()));
            }
            Rtype::HTTPS => {
                if let Some(record) = record.to_record::<Https<_, _>>()? {
                    found |= has_hint(record.data().params(), ranges)?;
                }
            }
            Rtype::SVCB => {
                if let Some(record) = record.to_record::<Svcb<_, _>>()? {
                    found |= has_hint(record.data().params(), ranges)?;
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

fn has_hint<Octs: Octets>(params: &SvcParams<Octs>, ranges: &Ranges) -> Result<bool, ParseError> {
    let mut found = false;
    for hint in params.iter::<Ipv4Hint<_>>() {
        found |= hint?.iter().any(|address| ranges.contains(address.into()));
    }
    for hint in params.iter::<Ipv6Hint<_>>() {
        found |= hint?.iter().any(|address| ranges.contains(address.into()));
    }
    Ok(found)
}
