//! The natural order of names: "server 2" comes before "server 10".

use std::iter::Peekable;
use std::str::Chars;

/// The last count that is a character before the surrogates. Longer numbers than any name holds compare by digits.
const MAX_COUNT: u32 = 0xd7ff;

/// A key whose order by bytes is the natural order of texts in lower case. Each number in ASCII digits becomes the mark
/// `0`, the count of its digits, and its digits: a number with more digits is larger. Zeros in front do not count.
#[must_use]
pub(crate) fn key(lower: &str) -> String {
    let mut key = String::with_capacity(lower.len() + 8);
    let mut rest = lower.chars().peekable();
    while let Some(&next) = rest.peek() {
        match next {
            '0'..='9' => number(&mut rest, &mut key),
            _ => {
                key.push(next);
                rest.next();
            }
        }
    }
    key
}

/// Reads the digits at the front.
fn number(rest: &mut Peekable<Chars<'_>>, key: &mut String) {
    while rest.next_if_eq(&'0').is_some() {}
    let mut digits = String::new();
    while let Some(digit) = rest.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    let count = u32::try_from(digits.len()).unwrap_or(MAX_COUNT);
    key.push('0');
    key.push(char::from_u32(count.min(MAX_COUNT)).unwrap_or('0'));
    key.push_str(&digits);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_in_the_order_of_their_values() {
        let ordered = [
            "",
            "2 servers",
            "10 servers",
            "server",
            "server 0",
            "server 2",
            "server 2 b",
            "server 9",
            "server 10",
            "server 10.2",
            "server 10.10",
            "server 99999999999999999999",
            "server 100000000000000000000",
            "server a",
            "server-1",
            "serverb",
            "ärzte",
        ];
        for pair in ordered.windows(2) {
            assert!(key(pair[0]) < key(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn zeros_in_front_do_not_count() {
        assert_eq!(key("server 007"), key("server 7"));
        assert!(key("server 007") < key("server 8"));
        assert!(key("server 000") < key("server 1"));
    }

    #[test]
    fn a_number_of_any_length_has_a_key() {
        let long = "9".repeat(70_000);
        assert!(key("9") < key(&long));
        assert_eq!(key(&long), key(&long));
    }
}
