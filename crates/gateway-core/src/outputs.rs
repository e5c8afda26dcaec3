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

    /// Puts an output ahead of the first acceptance and the first answer about names of a device: a grant and its names are in force
    /// before anybody hears of them.
    pub(super) fn push_before_acceptances(&mut self, output: Output) {
        let mut outputs = self.0.iter();
        let first = outputs.position(|output| {
            matches!(
                output,
                Output::ToPortal(
                    FromGateway::GrantAccepted { .. } | FromGateway::NameAnswered { .. }
                ) | Output::AnswerPlain { .. }
            )
        });
        let place = first.unwrap_or(self.0.len());
        self.0.insert(place, output);
    }

    /// Turns acceptances that are not yet sent into refusals, for grants that `by` has replaced. Two grants may wait
    /// for the same answer, and the later one may replace the earlier one at once. The portal must not believe that
    /// the earlier one is in force.
    pub(super) fn take_acceptances_back(&mut self, superseded: &[GrantId], by: GrantId) {
        if superseded.is_empty() {
            return;
        }
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
