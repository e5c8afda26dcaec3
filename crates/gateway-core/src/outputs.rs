//! Outputs that wait to be polled.

use super::output::Output;
use super::verify::GrantFault;
use culvert_ids::GrantId;
use culvert_wire::messages::FromGateway;
use std::collections::VecDeque;

/// The queue of outputs.
#[derive(Default)]
pub(super) struct Outputs(VecDeque<Output>);

impl Outputs {
    pub(super) fn push(&mut self, output: Output) {
        self.0.push_back(output);
    }

    pub(super) fn pop(&mut self) -> Option<Output> {
        self.0.pop_front()
    }

    /// Puts an output ahead of the messages to the portal at the end: a grant is in force before its acceptance is
    /// sent.
    pub(super) fn push_before_acceptances(&mut self, output: Output) {
        let messages = self.0.iter().rev();
        let messages = messages.take_while(|output| matches!(output, Output::ToPortal(_)));
        let place = self.0.len() - messages.count();
        self.0.insert(place, output);
    }

    /// Turns acceptances that are not yet sent into refusals, for grants that `by` has replaced. Two grants may wait
    /// for the same answer, and the later one may replace the earlier one at once. The portal must not believe that
    /// the earlier one is in force.
    pub(super) fn take_acceptances_back(&mut self, superseded: &[GrantId], by: GrantId) {
        for output in &mut self.0 {
            if let Output::ToPortal(message) = output
                && let FromGateway::GrantAccepted { grant, .. } = *message
                && grant != by
                && superseded.contains(&grant)
            {
                let reason = GrantFault::Replaced.reason();
                *message = FromGateway::GrantRefused { grant, reason };
            }
        }
    }
}
