use crate::input::Input;
use crate::pair::{Pair, Sent, Side};
use culvert_session::parse::{Message, MessageType, message_type};
use culvert_session::{REJECT_AFTER_TIME, REKEY_AFTER_TIME, Suite};
use std::time::Duration;

/// Handshake messages of which a script remembers to tamper with them.
const MAX_SENT: usize = 16;
/// Steps of one script.
const MAX_STEPS: usize = 40;

/// The state of a script so far.
#[derive(Default)]
struct Story {
    /// Every handshake message that an end sent, up to a bound.
    sent: Vec<Sent>,
    /// Initiations and responses that were accepted.
    accepted: Vec<Sent>,
}

/// Two ends with a live session get any datagrams. Some are arbitrary. Others are genuine handshake
/// messages, repeated, reflected, delayed and tampered with, with and without a right `mac1`, under
/// load or not. Nothing but a genuine message is accepted, and that once; a refused one changes
/// nothing; and data flows after every step.
///
/// # Panics
/// If a property does not hold.
pub fn handshake(data: &[u8]) {
    let mut input = Input::new(data);
    let suite = match input.u8() % 2 {
        0 => Suite::ChaCha20Poly1305,
        _ => Suite::Aes256Gcm,
    };
    let mut pair = Pair::established(suite);
    // Old enough to be renewed, and the first step may be the initiation that does it.
    let mut story = Story::default();
    story.sent.extend(pair.advance(REKEY_AFTER_TIME));
    story.sent.extend(pair.want(Side::Left));
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        let Some(new) = step(&mut pair, &mut story, &mut input) else {
            return;
        };
        story.sent.extend(new);
        story.sent.truncate(MAX_SENT);
        pair.assert_live();
    }
}

/// One thing happens; returns what the ends sent. `None` ends the script: someone in between
/// changed what no key protects, and the session that follows is not theirs to keep alive.
fn step(pair: &mut Pair, story: &mut Story, input: &mut Input<'_>) -> Option<Vec<Sent>> {
    let choice = input.u8();
    let side = Side::BOTH[usize::from(choice >> 7)];
    let under_load = choice & 0x40 != 0;
    Some(match choice % 8 {
        0 => {
            let len = usize::from(input.u8());
            let datagram = input.take(len);
            // A fuzzer that could make these bytes up could make up a genuine message.
            let (result, sent) = pair.deliver(side, datagram, under_load);
            assert!(result.is_err(), "accepted {datagram:?}");
            sent
        }
        1 => {
            let by = Duration::from_millis(u64::from(input.u8()) * 25);
            // The session of the beginning must not end by age.
            if pair.elapsed() + by >= REJECT_AFTER_TIME {
                return None;
            }
            pair.advance(by)
        }
        2 => pair.want(side),
        kind => {
            let count = story.sent.len().max(1);
            let (by, message) = story.sent.get(usize::from(input.u8()) % count)?.clone();
            // Mostly to whom it was sent; some come back to their sender.
            let to = if kind == 3 { by } else { by.other() };
            let mut datagram = message.clone();
            if kind >= 5 {
                input.damage(&mut datagram);
            }
            if kind >= 6 {
                pair.repair_mac1(to, &mut datagram);
            }
            let (result, sent) = pair.deliver(to, &datagram, under_load);
            if result.is_ok() {
                assert_ne!(to, by, "accepted by its own sender");
                if !is_genuine(&message, &datagram) {
                    return None;
                }
                story.accept((by, message));
            }
            sent
        }
    })
}

impl Story {
    /// A cookie may be learned twice, it changes nothing; a handshake message counts once.
    fn accept(&mut self, message: Sent) {
        if message_type(&message.1) != Some(MessageType::CookieReply) {
            assert!(!self.accepted.contains(&message), "accepted twice");
            self.accepted.push(message);
        }
    }
}

/// True if `accepted` is `message` untouched. Other differences must be in fields that no key
/// protects. These are the sender's and receiver's indices (which `mac1` covers, but its key is
/// public) and `mac2`.
fn is_genuine(message: &[u8], accepted: &[u8]) -> bool {
    let parsed = Message::parse(accepted);
    assert!(parsed.is_some(), "what is accepted is a message");
    assert_eq!(message.len(), accepted.len());
    let protected = match message_type(message) {
        Some(MessageType::Initiation) => 8..116,
        Some(MessageType::Response) => 12..60,
        Some(MessageType::CookieReply) => 4..64,
        Some(MessageType::Data) | None => panic!("the ends sent {message:?}"),
    };
    assert_eq!(message[..4], accepted[..4]);
    assert_eq!(message[protected.clone()], accepted[protected]);
    message == accepted
}
