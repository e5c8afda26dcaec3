//! Frames that do not come from the TUN: those that had no route, and what this end itself has to say.

use super::{Cursor, Outbound, Resumed, usable};
use crate::context::Context;
use crate::counters::Dropped;
use crate::frame::packets_in;
use crate::shell::Shell;
use crate::snapshot::Snapshot;
use culvert_packet::{Cut, VNET_HEADER_LEN, VnetHeader};
use culvert_session::PeerId;

/// Frames that wait for the snapshot that routes them: as many as one change resumes.
const MAX_RESUMED: usize = 1024;

impl Outbound {
    /// Keeps a frame that goes on under snapshot `generation`, ahead of what is read then.
    pub(crate) fn resume<S: Shell>(
        &mut self,
        frame: Box<[u8]>,
        generation: u64,
        context: &Context<S>,
    ) {
        if self.resumed.len() == MAX_RESUMED || frame.len() > self.frame.len() {
            context
                .counters
                .count_drop(Dropped::StageFull, packets_in(&frame));
            return;
        }
        self.resumed.push_back(Resumed {
            frame,
            generation,
            answer_to: None,
        });
    }

    /// Takes over the answers to packets that the gate has dropped.
    pub(crate) fn answer<S: Shell>(&mut self, context: &mut Context<S>) {
        while self.resumed.len() < MAX_RESUMED
            && let Some((peer, packet)) = context.refusals.pop()
        {
            self.resumed.push_back(Resumed {
                frame: [[0; VNET_HEADER_LEN].as_slice(), &packet].concat().into(),
                generation: context.generation,
                answer_to: Some(peer),
            });
        }
    }

    pub(super) fn take_resumed<S: Shell>(&mut self, context: &Context<S>) -> Option<Resumed> {
        if self.resumed.front()?.generation > context.generation {
            return None;
        }
        self.resumed.pop_front()
    }

    /// Points the cursor at an answer in the buffer. One whose peer has no key any more is dropped.
    pub(super) fn point_at_answer<S: Shell>(
        &mut self,
        snapshot: &Snapshot,
        context: &Context<S>,
        peer: PeerId,
        len: usize,
    ) {
        let cut = Cut::plan(&VnetHeader::default(), &self.frame[VNET_HEADER_LEN..len]);
        let peer = snapshot.peer(peer);
        let peer = peer.filter(|peer| usable(peer, context).is_some());
        let (Ok(cut), Some(peer)) = (cut, peer) else {
            context.counters.count_drop(Dropped::AnswerGone, 1);
            return;
        };
        self.cursor = Some(Cursor {
            len,
            cut,
            peer: peer.id,
            counted: None,
            public_key: peer.public_key,
            next: 0,
            is_marked: false,
            is_priority: true,
        });
    }
}
