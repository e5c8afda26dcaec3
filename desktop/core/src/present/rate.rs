//! Rates for people.

use super::tenths;
use crate::rates::Rate;
use crate::words::{Message, Value, Words};

/// A rate in bits a second.
#[must_use]
pub fn rate(words: &Words, bytes_per_s: u64) -> String {
    let bits = bytes_per_s.saturating_mul(8);
    match bits {
        0..1_000 => format!("{bits} bit/s"),
        1_000..1_000_000 => format!("{} kbit/s", tenths(words, bits / 100)),
        1_000_000..1_000_000_000 => format!("{} Mbit/s", tenths(words, bits / 100_000)),
        _ => format!("{} Gbit/s", tenths(words, bits / 100_000_000)),
    }
}

/// A rate in both directions.
#[must_use]
pub fn traffic(words: &Words, of: Rate) -> String {
    let (into, out) = (rate(words, of.received), rate(words, of.sent));
    let values = [("in", Value::Text(&into)), ("out", Value::Text(&out))];
    words.with(Message::GatewayRate, &values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Language;

    #[test]
    fn a_rate_is_told_in_both_languages() {
        let of = Rate {
            received: 150_000,
            sent: 100,
        };
        let told = |language| {
            let text = traffic(&Words::new(language), of);
            text.replace(['\u{2068}', '\u{2069}'], "")
        };
        assert_eq!(told(Language::English), "1.2 Mbit/s in, 800 bit/s out");
        assert_eq!(told(Language::German), "1,2 Mbit/s ein, 800 bit/s aus");
    }
}
