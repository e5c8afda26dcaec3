//! From bytes to messages: whatever is not exactly a message is none.

use super::{
    ASK_LEN, Ask, Challenge, HEAD_LEN, KIND_ASK, KIND_CHALLENGE, KIND_PROBE, KIND_PROBE_ANSWER,
    KIND_REFRESH, KIND_REFRESHED, KIND_REFUSED, KIND_REGISTER, KIND_REGISTERED, KIND_UNKNOWN,
    MAGIC, Message, PROBE_LEN, Probe, REFRESH_LEN, REFUSED_LEN, REGISTER_HEAD_LEN,
    REGISTER_MAX_LEN, REGISTERED_LEN, Refresh, RefusalReason, Refused, Register, Registered, Tag,
    Transaction, UNKNOWN_LEN, Unknown, address, is_token,
};
use crate::mac::Mac;

/// Takes fields off the front of a message whose length was checked.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The message's fields, if it has `len` bytes in all.
    fn of(datagram: &'a [u8], len: usize) -> Option<Self> {
        (datagram.len() == len).then(|| Self(&datagram[HEAD_LEN..]))
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn transaction(&mut self) -> Option<Transaction> {
        self.take().map(Transaction)
    }

    fn mac(&mut self) -> Option<Mac> {
        self.take().map(Mac::from_bytes)
    }

    /// The rest is zeros.
    fn zeros(&self) -> Option<()> {
        self.0.iter().all(|&byte| byte == 0).then_some(())
    }
}

impl<'a> Message<'a> {
    /// The message in a datagram; `None` where there is none.
    #[must_use]
    pub fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (&[c, v, r, kind], _) = datagram.split_first_chunk::<HEAD_LEN>()?;
        if [c, v, r] != MAGIC {
            return None;
        }
        Some(match kind {
            KIND_ASK => Self::Ask(ask(datagram)?),
            KIND_CHALLENGE => Self::Challenge(challenge(datagram)?),
            KIND_REGISTER => Self::Register(register(datagram)?),
            KIND_REGISTERED => Self::Registered(registered(datagram)?),
            KIND_REFUSED => Self::Refused(refused(datagram)?),
            KIND_UNKNOWN => Self::Unknown(unknown(datagram)?),
            KIND_REFRESH => Self::Refresh(refresh(datagram)?),
            KIND_REFRESHED => Self::Refreshed(refresh(datagram)?),
            KIND_PROBE => Self::Probe(probe(datagram)?),
            KIND_PROBE_ANSWER => Self::ProbeAnswer(probe(datagram)?),
            _ => return None,
        })
    }
}

fn ask(datagram: &[u8]) -> Option<Ask> {
    let mut fields = Fields::of(datagram, ASK_LEN)?;
    let transaction = fields.transaction()?;
    fields.zeros()?;
    Some(Ask { transaction })
}

fn challenge(datagram: &[u8]) -> Option<Challenge> {
    let mut fields = Fields::of(datagram, ASK_LEN)?;
    let challenge = Challenge {
        transaction: fields.transaction()?,
        cookie: fields.mac()?,
        mapped: address::parse(&fields.take::<{ address::LEN }>()?)?,
    };
    fields.zeros()?;
    Some(challenge)
}

fn register(datagram: &[u8]) -> Option<Register<'_>> {
    if !(REGISTER_HEAD_LEN + 1..=REGISTER_MAX_LEN).contains(&datagram.len()) {
        return None;
    }
    let mut fields = Fields(&datagram[HEAD_LEN..]);
    let (transaction, cookie) = (fields.transaction()?, fields.mac()?);
    let mac = fields.mac()?;
    if !is_token(fields.0) {
        return None;
    }
    let token = std::str::from_utf8(fields.0).ok()?;
    Some(Register {
        transaction,
        cookie,
        token,
        mac,
    })
}

fn registered(datagram: &[u8]) -> Option<Registered> {
    let mut fields = Fields::of(datagram, REGISTERED_LEN)?;
    Some(Registered {
        transaction: fields.transaction()?,
        lifetime_s: u16::from_be_bytes(fields.take()?),
        mac: fields.mac()?,
    })
}

fn refused(datagram: &[u8]) -> Option<Refused> {
    let mut fields = Fields::of(datagram, REFUSED_LEN)?;
    let transaction = fields.transaction()?;
    let [reason] = fields.take()?;
    let reason = RefusalReason::from_wire(reason);
    Some(Refused {
        transaction,
        reason,
    })
}

fn unknown(datagram: &[u8]) -> Option<Unknown> {
    let mut fields = Fields::of(datagram, UNKNOWN_LEN)?;
    let beginning = fields.take()?;
    Some(Unknown { beginning })
}

fn refresh(datagram: &[u8]) -> Option<Refresh> {
    let mut fields = Fields::of(datagram, REFRESH_LEN)?;
    let counter = u64::from_be_bytes(fields.take()?);
    let mac = fields.mac()?;
    Some(Refresh { counter, mac })
}

fn probe(datagram: &[u8]) -> Option<Probe> {
    let mut fields = Fields::of(datagram, PROBE_LEN)?;
    Some(Probe {
        receiver: Tag(fields.take()?),
        sender: Tag(fields.take()?),
        nonce: fields.take()?,
        mac: fields.mac()?,
    })
}
