//! Types that hold secrets compare them in constant time: a derived comparison stops at the first
//! difference, so that its duration tells how much of a guess is right.

use crate::source::{Token, tokens};

/// Words that mark a type as a secret's: it is wiped when dropped, or a field is.
const WIPED: [&str; 3] = ["Zeroize", "ZeroizeOnDrop", "Zeroizing"];

/// Types of secrets that nobody wipes: digests, which the database has as well.
const NAMED: [&str; 1] = ["SecretDigest"];

/// Comparisons that a type of secrets does not derive.
const COMPARISONS: [&str; 3] = ["Ord", "PartialEq", "PartialOrd"];

/// Lists the types of secrets in the code of a file that derive a comparison.
pub(super) fn derived_comparisons(shown: &str, code: &str) -> Vec<String> {
    let tokens = tokens(code);
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let mut problems = Vec::new();
    let mut derived = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match text(at) {
            "derive" if text(at + 1) == "(" => {
                let len = words_up_to(&tokens[at..], ")");
                derived.extend(tokens[at..at + len].iter().map(|token| &*token.text));
                at += len;
            }
            "struct" | "enum" | "union" => {
                let len = definition_len(&tokens[at..]);
                let is_secret = NAMED.contains(&text(at + 1))
                    || derived.iter().any(|word| WIPED.contains(word))
                    || tokens[at..at + len]
                        .iter()
                        .any(|token| WIPED.contains(&token.text.as_str()));
                if let Some(comparison) = derived.iter().find(|word| COMPARISONS.contains(word))
                    && is_secret
                {
                    problems.push(format!(
                        "{shown}:{}: {} holds a secret and derives {comparison}, which stops at the first \
                         difference: implement it by `subtle::ConstantTimeEq`",
                        tokens[at].line,
                        text(at + 1),
                    ));
                }
                derived.clear();
                at += len.max(1);
            }
            // What was derived was for something else, such as a type that a macro makes.
            ";" | "}" => {
                derived.clear();
                at += 1;
            }
            _ => at += 1,
        }
    }
    problems
}

/// How many tokens there are up to the first `end`.
fn words_up_to(tokens: &[Token], end: &str) -> usize {
    let found = tokens.iter().position(|token| token.text == end);
    found.unwrap_or(tokens.len())
}

/// How many tokens a type's definition has: up to its semicolon, or to the end of its braces.
fn definition_len(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" if depth <= 1 => return at + 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(code: &str) -> Vec<String> {
        let problems = derived_comparisons("a.rs", code);
        let name = |problem: String| problem.split(' ').nth(1).map(str::to_owned);
        problems.into_iter().filter_map(name).collect()
    }

    #[test]
    fn a_type_of_secrets_that_derives_its_comparison_is_found() {
        for code in [
            "#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]\npub struct Key([u8; 32]);",
            "#[derive(Clone, PartialEq)]\nstruct Key(Zeroizing<Vec<u8>>);",
            "#[derive(PartialOrd)]\n#[serde(x)]\nstruct Key { a: u8, b: Zeroizing<[u8; 2]> }",
            "#[derive(Clone)] #[derive(Zeroize, PartialEq)] enum Key { A }",
            "struct A;\n#[derive(Ord)] struct Key { b: Option<Zeroizing<String>>, c: [u8; 3] }",
        ] {
            assert_eq!(names(code), ["Key"], "{code}");
        }
        let digest = "#[derive(Debug, PartialEq)] pub struct SecretDigest([u8; 32]);";
        assert_eq!(names(digest), ["SecretDigest"]);
    }

    #[test]
    fn other_types_may_derive_theirs() {
        for code in [
            "#[derive(Clone, PartialEq)] struct Key([u8; 32]);",
            "#[derive(Clone, Zeroize)] struct Key([u8; 32]);",
            "#[derive(PartialEq)] struct A { a: u8 } #[derive(Clone)] struct Key(Zeroizing<u8>);",
            "#[derive(PartialEq)] struct A; fn f(key: Zeroizing<u8>) {}",
        ] {
            assert_eq!(names(code), [""; 0], "{code}");
        }
    }
}
