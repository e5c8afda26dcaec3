//! The entry of an inner range: its peer, and where its bytes are counted.

use culvert_base::TrafficSlot;
use culvert_session::PeerId;

/// The meaning of a range. Its look-up tells the peer and the place to count at once, so that counting costs no look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The peer that the range leads to.
    pub peer: PeerId,
    /// The place where each worker counts the range's bytes; none where nobody asks for them.
    pub counted: Option<TrafficSlot>,
}

impl From<PeerId> for Route {
    fn from(peer: PeerId) -> Self {
        Self {
            peer,
            counted: None,
        }
    }
}
