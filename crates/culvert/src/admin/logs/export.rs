//! A log as CSV or JSON lines: the portal's export, as it comes. Each line of JSON gets its `schema_version`.

use super::super::api::Query;
use super::super::shell::Shell;
use crate::exit::{Failure, print};
use crate::json;

/// Forms that the portal exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Csv,
    JsonLines,
}

/// Prints all that the query leaves of a log, or the first `limit` entries of it.
pub(super) async fn run(
    shell: &mut Shell,
    log: &str,
    query: &Query,
    form: Form,
    limit: Option<usize>,
) -> Result<(), Failure> {
    let (word, head) = match form {
        Form::Csv => ("csv", 1),
        Form::JsonLines => ("jsonl", 0),
    };
    let mut lines = Lines::new(limit.map(|limit| limit + head));
    let path = format!("{log}/export/{word}");
    let mut versions = Versions::default();
    let take = |part: &[u8]| {
        let wanted = lines.wanted(part);
        match form {
            Form::Csv => print(wanted)?,
            Form::JsonLines => print(&versions.added_to(wanted))?,
        }
        Ok(!lines.has_all())
    };
    Ok(shell.api.stream(&path, query, take).await?)
}

/// Adds the `schema_version` to objects that come one a line, in parts.
#[derive(Default)]
struct Versions {
    is_within_line: bool,
}

impl Versions {
    /// An object begins with `{`, and JSON has no line break within one.
    fn added_to(&mut self, part: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(part.len());
        for line in part.split_inclusive(|byte| *byte == b'\n') {
            match line {
                [b'{', rest @ ..] if !self.is_within_line => {
                    text.extend_from_slice(json::start().as_bytes());
                    text.extend_from_slice(rest);
                }
                line => text.extend_from_slice(line),
            }
            self.is_within_line = !line.ends_with(b"\n");
        }
        text
    }
}

/// Counts the lines of an answer that comes in parts. A line break between quotes ends none: CSV has them in
/// values, JSON has none at all.
struct Lines {
    left: Option<usize>,
    is_quoted: bool,
}

impl Lines {
    const fn new(most: Option<usize>) -> Self {
        Self {
            left: most,
            is_quoted: false,
        }
    }

    /// The portion of the part that belongs to the lines that are wanted.
    fn wanted<'part>(&mut self, part: &'part [u8]) -> &'part [u8] {
        let Some(left) = &mut self.left else {
            return part;
        };
        for (at, byte) in part.iter().enumerate() {
            if *left == 0 {
                return &part[..at];
            }
            match byte {
                b'"' => self.is_quoted = !self.is_quoted,
                b'\n' if !self.is_quoted => *left -= 1,
                _ => {}
            }
        }
        part
    }

    fn has_all(&self) -> bool {
        self.left == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first lines of a text that comes in parts of a length.
    fn first(text: &str, most: usize, part_len: usize) -> String {
        let mut lines = Lines::new(Some(most));
        let mut taken = Vec::new();
        for part in text.as_bytes().chunks(part_len) {
            taken.extend_from_slice(lines.wanted(part));
        }
        String::from_utf8(taken).unwrap()
    }

    #[test]
    fn a_line_break_in_a_value_ends_no_line() {
        let text = "a,b\r\n1,\"x\ny \"\"z\"\"\"\r\n2,c\r\n";
        for part_len in 1..text.len() {
            assert_eq!(first(text, 1, part_len), "a,b\r\n");
            assert_eq!(first(text, 2, part_len), text[..text.len() - 5]);
            assert_eq!(first(text, 9, part_len), text);
        }
    }

    proptest! {
        #[test]
        fn each_line_of_json_gets_its_version(count in 0_usize..20, len in 1_usize..30) {
            let lines = |start: &str| -> String {
                (0..count).map(|at| format!("{start}\"seq\":{at},\"of\":{{}}}}\n")).collect()
            };
            let mut versions = Versions::default();
            let text = lines("{");
            let parts = text.as_bytes().chunks(len);
            let got: Vec<u8> = parts.flat_map(|part| versions.added_to(part)).collect();
            prop_assert_eq!(String::from_utf8(got).unwrap(), lines("{\"schema_version\":1,"));
        }

        #[test]
        fn as_many_lines_come_as_are_wanted(count in 0_usize..20, most in 1_usize..20, len in 1_usize..9) {
            let text: String = (0..count).map(|at| format!("{{\"seq\":{at}}}\n")).collect();
            let got = first(&text, most, len);
            prop_assert_eq!(got.lines().count(), count.min(most));
            prop_assert!(text.starts_with(&got));
        }
    }
}
