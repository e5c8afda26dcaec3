//! Reasons for which gateways refused something of a resource, such as names that lead out of its networks. They are
//! shown to an administrator who asks for an explanation.

use culvert_ids::ResourceId;
use culvert_wire::Timestamp;
use std::collections::BTreeMap;

/// Resources of which a reason is kept: as many as an administrator looks into after one mistake.
const MAX_RESOURCES: usize = 256;

/// Characters of a gateway's text that are kept: a name, an address and a sentence.
const MAX_CHARS: usize = 512;

/// The last reasons of each resource, by their kind.
#[derive(Debug, Default)]
pub(super) struct GatewayRefusals {
    /// Names that lead out of the resource's networks.
    pub(super) outside: GatewayNotes,
    /// Resources on the machine of a gateway that serves nobody there.
    pub(super) at_host: GatewayNotes,
}

/// The last reason of each resource.
#[derive(Debug, Default)]
pub(super) struct GatewayNotes(BTreeMap<ResourceId, (Timestamp, String)>);

impl GatewayNotes {
    /// A gateway refused something. The oldest note gives way where there are too many.
    pub(super) fn note(&mut self, resource: ResourceId, text: &str, now: Timestamp) {
        let text = text.chars().take(MAX_CHARS).collect();
        self.0.insert(resource, (now, text));
        if self.0.len() > MAX_RESOURCES {
            let oldest = self.0.iter().min_by_key(|(_, (at, _))| *at);
            if let Some(oldest) = oldest.map(|(resource, _)| *resource) {
                self.0.remove(&oldest);
            }
        }
    }

    /// The reason no longer holds.
    pub(super) fn forget(&mut self, resource: ResourceId) {
        self.0.remove(&resource);
    }

    pub(super) fn of(&self, resource: ResourceId) -> Option<(Timestamp, String)> {
        self.0.get(&resource).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_base::UnixTime;

    #[test]
    fn the_oldest_note_gives_way_and_a_text_is_cut() {
        let mut names = GatewayNotes::default();
        let resource =
            |number: usize| ResourceId::new(UnixTime::from_millis(number as u64), [0; 10]);
        for number in 0..=MAX_RESOURCES {
            let now = Timestamp::from_unix_ms(number as u64);
            names.note(resource(number), &"x".repeat(MAX_CHARS + 1), now);
        }
        assert_eq!(names.0.len(), MAX_RESOURCES);
        assert_eq!(names.of(resource(0)), None);
        let (_, text) = names.of(resource(MAX_RESOURCES)).unwrap();
        assert_eq!(text.len(), MAX_CHARS);
    }
}
