//! The messages of a link.

use crate::hello::Hello;
use culvert_ids::{ClientId, GatewayId, ResourceId, TokenId};
use culvert_store::{MachineId, Seen};
use culvert_wire::messages::ReasonCode;
use culvert_wire::{Decoded, MAX_MESSAGE_LEN, Message, decode, encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest line before a text: a version of software is the longest in it.
const MAX_LINE_LEN: usize = 1_024;

/// The longest message of a link.
pub(super) const MAX_FRAME_LEN: usize = MAX_MESSAGE_LEN + MAX_LINE_LEN;

/// The part of an answer that one message carries, in bytes: the view of 10,000 clients takes several.
pub(super) const ANSWER_PART_LEN: usize = MAX_MESSAGE_LEN / 2;

/// A session, as the portal that follows numbers those of its machines.
pub(super) type Number = u64;

/// A message of the portal that follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToLeader {
    /// A machine joins. The text is its hello.
    Join {
        session: Number,
        machine: MachineId,
        token: TokenId,
        seen: Seen,
    },
    /// A machine said the text.
    Said { session: Number },
    /// A machine said something of a kind that is not known.
    Unknown { session: Number, kind: String },
    /// A session is over. An earlier version does not say whether its connection broke.
    Left {
        session: Number,
        #[serde(default)]
        is_broken: bool,
    },
    /// A question. The text is an [`Ask`].
    Ask { question: u64 },
    /// The configuration was changed.
    Changed,
    /// Another portal leads, with this epoch. The one that hears it may be cut off from the database.
    Superseded { epoch: u64 },
}

/// A message of the portal that leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromLeader {
    /// The first message: the leader's epoch.
    Leads { epoch: u64 },
    /// The text is for the machine.
    Say { session: Number },
    /// The session ends after what was said before.
    Close { session: Number, reason: ReasonCode },
    /// The session ends at once.
    Cut { session: Number },
    /// A part of the answer to a question.
    Answer { question: u64, is_last: bool },
    /// Something has happened that pages show.
    Beat,
}

/// Something that a page or the API of the portal that follows wants to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    Status,
    /// Asked by portals of before the next three, and where the leader does not know these.
    Clients,
    ClientsAmong(Vec<ClientId>),
    ClientsAfter {
        after: Option<ClientId>,
        limit: usize,
    },
    ClientIds,
    Gateways,
    Relays,
    IsDispensable(GatewayId),
    DrainNow(GatewayId),
    GrantsOf {
        machine: MachineId,
        limit: usize,
    },
    /// A leader of before it does not know it.
    DeviceEndpoints(ClientId),
    Explain {
        client: ClientId,
        resource: ResourceId,
    },
}

/// A line and the text behind it.
pub(super) fn frame(line: &impl Serialize, text: &str) -> String {
    // The types above have a JSON form.
    let line = serde_json::to_string(line).unwrap_or_default();
    match text {
        "" => line,
        text => format!("{line}\n{text}"),
    }
}

/// The line of a message, and the text behind it; none where the line is of a kind that this version does not know.
pub(super) fn parse<T: DeserializeOwned>(message: &str) -> Option<(T, &str)> {
    let (line, text) = message.split_once('\n').unwrap_or((message, ""));
    Some((serde_json::from_str(line).ok()?, text))
}

/// The session of a message of this kind whose other parts this version does not know.
pub(super) fn session_of(message: &str, kind: &str) -> Option<Number> {
    let (line, _) = parse::<serde_json::Value>(message)?;
    line.get(kind)?.get("session")?.as_u64()
}

/// The text of a hello.
pub(super) fn hello_text(hello: &Hello) -> String {
    match hello {
        Hello::Client(hello) => encode(hello),
        Hello::Gateway(hello) => encode(hello),
        Hello::Relay(hello) => encode(hello),
    }
}

/// The hello of a machine; none if it is none.
pub(super) fn hello_of(machine: MachineId, text: &str) -> Option<Hello> {
    match machine {
        MachineId::Client(_) => known(text).map(Hello::Client),
        MachineId::Gateway(_) => known(text).map(Hello::Gateway),
        MachineId::Relay(_) => known(text).map(Hello::Relay),
    }
}

/// A message of a kind that is known.
pub(super) fn known<M: Message>(text: &str) -> Option<M> {
    match decode(text).ok()? {
        Decoded::Known(message) => Some(message),
        Decoded::Unknown { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stands_behind_its_line_as_it_is() {
        let line = ToLeader::Said { session: 7 };
        for text in ["", "{}", "{\"a\":\"b\\nc\"}"] {
            let message = frame(&line, text);
            assert_eq!(parse::<ToLeader>(&message), Some((line.clone(), text)));
        }
        let unknown = "{\"of_a_later_version\":{}}\nx";
        assert_eq!(parse::<ToLeader>(unknown), None);
        assert_eq!(parse::<FromLeader>(""), None);
    }

    #[test]
    fn a_message_of_a_later_version_is_read_as_far_as_it_is_known() {
        // More is said than this version knows.
        let more = "{\"leads\":{\"epoch\":7,\"since\":1}}";
        assert_eq!(
            parse::<FromLeader>(more),
            Some((FromLeader::Leads { epoch: 7 }, ""))
        );
        let join = "{\"join\":{\"session\":7,\"machine\":{\"of_later\":\"x\"}}}\n{}";
        assert_eq!(parse::<ToLeader>(join), None);
        assert_eq!(session_of(join, "join"), Some(7));
        let reason = ReasonCode::Other;
        assert_eq!(
            parse::<FromLeader>("{\"close\":{\"session\":7,\"reason\":\"of_a_later_version\"}}"),
            Some((FromLeader::Close { session: 7, reason }, ""))
        );
        let close = "{\"close\":{\"session\":7,\"reason\":[\"of_a_later_version\"]}}";
        assert_eq!(parse::<FromLeader>(close), None);
        assert_eq!(session_of(close, "close"), Some(7));
        assert_eq!(session_of(close, "join"), None);
        assert_eq!(session_of("no JSON", "join"), None);
        assert_eq!(
            known::<culvert_wire::messages::FromClient>("{\"type\":\"of_later\"}"),
            None
        );
    }
}
