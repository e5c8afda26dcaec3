//! The packets that a worker carries of late: UDP, or others.

use culvert_base::BootTime;

/// Packets of UDP that make a stream: 50,000 a second, so that a pause of
/// [coalescing](crate::interrupt_moderation) collects two or more.
const STREAM_PACKETS_PER_MS: u128 = 50;

/// Packets since the mix was last judged.
pub struct Mix {
    began: BootTime,
    udp: u64,
    other: u64,
}

impl Mix {
    pub(crate) fn new(now: BootTime) -> Self {
        Self {
            began: now,
            udp: 0,
            other: 0,
        }
    }

    pub(crate) fn note(&mut self, is_udp: bool, packets: usize) {
        if is_udp {
            self.udp += packets as u64;
        } else {
            self.other += packets as u64;
        }
    }

    /// Since when it is noted.
    pub(crate) fn began(&self) -> BootTime {
        self.began
    }

    /// True if the packets since the last judgement are a stream of UDP, with little else beside it.
    pub fn judge(&mut self, now: BootTime) -> bool {
        let past_us = now.saturating_since(self.began).as_micros();
        let is_stream = u128::from(self.udp) * 1000 >= STREAM_PACKETS_PER_MS * past_us
            && self.udp > 0
            && self.other <= self.udp / 8;
        *self = Self::new(now);
        is_stream
    }
}

/// True if a well-formed IP packet carries UDP.
pub(crate) fn is_udp(packet: &[u8]) -> bool {
    const PROTOCOL_UDP: u8 = 17;
    let protocol_at = if packet[0] >> 4 == 4 { 9 } else { 6 };
    packet[protocol_at] == PROTOCOL_UDP
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at_ms(millis: u64) -> BootTime {
        BootTime::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn udp_packets_that_come_fast_are_a_stream_for_as_long_as_they_come() {
        let mut mix = Mix::new(at_ms(1000));
        mix.note(true, 5000);
        assert!(mix.judge(at_ms(1100)));
        assert!(!mix.judge(at_ms(1200)), "nothing came since");
        mix.note(true, 4999);
        assert!(!mix.judge(at_ms(1300)), "too slow");
    }

    #[test]
    fn with_much_else_beside_it_there_is_no_stream() {
        let mut mix = Mix::new(at_ms(1000));
        mix.note(true, 8000);
        mix.note(false, 1000);
        assert!(mix.judge(at_ms(1100)));
        mix.note(true, 8000);
        mix.note(false, 1001);
        assert!(!mix.judge(at_ms(1200)));
    }

    #[test]
    fn what_has_carried_nothing_is_no_stream_however_short_the_time() {
        let mut mix = Mix::new(at_ms(1000));
        assert!(!mix.judge(at_ms(1000)));
    }
}
