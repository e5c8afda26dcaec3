//! Stacks as `perf script` prints them.

use std::collections::BTreeMap;

/// The function of the standard library that calls what a thread is for.
const THREAD_BEGINS: &str = "__rust_begin_short_backtrace";

/// The functions on a stack, the innermost first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stack(Vec<String>);

/// All samples of a profile, equal ones counted together.
#[derive(Debug, Default)]
pub(crate) struct Stacks(BTreeMap<Stack, usize>);

impl Stack {
    pub(crate) fn leaf(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    pub(crate) fn any(&self, holds: impl Fn(&str) -> bool) -> bool {
        self.0.iter().any(|frame| holds(frame))
    }

    /// The outermost first, as a flame graph stands.
    pub(crate) fn outermost_first(&self) -> impl Iterator<Item = &str> {
        self.0.iter().rev().map(String::as_str)
    }
}

impl Stacks {
    /// Reads samples: lines of an address and a symbol, the innermost first, an empty line between two
    /// stacks.
    pub(crate) fn parse(script: &str) -> Self {
        let mut stacks = Self::default();
        let mut frames = Vec::new();
        for line in script.lines().chain([""]) {
            match line.trim().split_once(' ') {
                Some((_, symbol)) => frames.push(tidy(symbol)),
                None => stacks.take(&mut frames),
            }
        }
        stacks
    }

    fn take(&mut self, frames: &mut Vec<String>) {
        // The frames outside of a thread's work are the same in all stacks.
        let begin = frames
            .iter()
            .position(|frame| frame.contains(THREAD_BEGINS));
        frames.truncate(begin.unwrap_or(frames.len()).max(1));
        // If a stack ends, or could not be followed, the outermost frames have no name.
        while frames.len() > 1 && frames.last().is_some_and(|frame| frame == "[unknown]") {
            frames.pop();
        }
        if !frames.is_empty() {
            *self.0.entry(Stack(std::mem::take(frames))).or_default() += 1;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Stack, usize)> {
        self.0.iter().map(|(stack, count)| (stack, *count))
    }

    /// All samples.
    pub(crate) fn count(&self) -> usize {
        self.0.values().sum()
    }
}

/// A symbol without what differs from build to build.
fn tidy(symbol: &str) -> String {
    let symbol = symbol.trim();
    let cut = symbol.rfind("::h").filter(|at| {
        let hash = &symbol[at + 3..];
        hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    let symbol = cut.map_or(symbol, |at| &symbol[..at]);
    symbol
        .split(".constprop")
        .next()
        .unwrap_or(symbol)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_are_counted_together_without_hashes_of_a_build_and_the_way_of_a_thread() {
        let script = "\
\tff1 copy\n\tff2 tun_read\n\tff3 [unknown]\n\n\tff1 copy\n\tff2 tun_read\n\n\
\t55 culvert::run::h0123456789abcdef\n\t1 std::__rust_begin_short_backtrace\n\t2 start_thread\n";
        let stacks = Stacks::parse(script);
        assert_eq!(stacks.count(), 3);
        let found: Vec<_> = stacks
            .iter()
            .map(|(stack, count)| (stack.leaf().to_owned(), count))
            .collect();
        assert_eq!(
            found,
            [("copy".to_owned(), 2), ("culvert::run".to_owned(), 1)]
        );
        assert!(
            !stacks
                .iter()
                .any(|(stack, _)| stack.any(|frame| frame == "start_thread"))
        );
    }
}
