//! Everything that leaves the core: outputs, lines for the log, and counters.

use super::counters::Counters;
use super::log::LogEvent;
use super::output::Output;
use super::packet::PacketRefusal;
use culvert_base::{BootTime, LogLine, LogQueue};
use culvert_control::RepeatedEvents;
use culvert_wire::messages::FromClient;
use std::collections::VecDeque;

/// Outputs that wait to be polled, and what is told of the client's work.
#[derive(Debug)]
pub(super) struct Outbox<P> {
    outputs: VecDeque<Output<P>>,
    log: LogQueue,
    repeated: RepeatedEvents<LogEvent>,
    pub(super) counters: Counters,
}

impl<P> Default for Outbox<P> {
    fn default() -> Self {
        Self {
            outputs: VecDeque::new(),
            log: LogQueue::default(),
            repeated: RepeatedEvents::default(),
            counters: Counters::default(),
        }
    }
}

impl<P> Outbox<P> {
    pub(super) fn push(&mut self, output: Output<P>) {
        self.outputs.push_back(output);
    }

    pub(super) fn tell_portal(&mut self, message: FromClient) {
        self.push(Output::ToPortal(message));
    }

    /// Packets go nowhere, and their senders hear so.
    pub(super) fn refuse(&mut self, packets: Vec<P>, refusal: PacketRefusal) {
        if packets.is_empty() {
            return;
        }
        self.counters.packets_refused += packets.len() as u64;
        self.push(Output::Refuse { packets, refusal });
    }

    pub(super) fn log(&mut self, line: LogLine) {
        self.log.push(line);
    }

    /// The queue of the log, for parts that log by themselves.
    pub(super) const fn log_queue(&mut self) -> &mut LogQueue {
        &mut self.log
    }

    /// Logs an event with the number of its repetitions, unless it was logged within the last minute.
    pub(super) fn log_event(
        &mut self,
        event: LogEvent,
        now: BootTime,
        line: impl FnOnce() -> LogLine,
    ) {
        if let Some(repeated) = self.repeated.count(event, now) {
            self.log.push(line().with("repeated", repeated));
        }
    }

    pub(super) fn poll_output(&mut self) -> Option<Output<P>> {
        self.outputs.pop_front()
    }

    pub(super) fn poll_log(&mut self) -> Option<LogLine> {
        self.log.pop()
    }
}
