//! As much of Rust's grammar as it takes to see which paths a file names, and a walk over files.

pub(crate) mod comments;
pub(crate) mod mentions;

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Every file below `folder` with this extension, in order. Folders that a build made are left out.
pub(crate) fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    const NOT_SOURCE: [&str; 4] = ["target", ".git", "corpus", "node_modules"];
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && !NOT_SOURCE.contains(&&*name) {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The text with comments and the contents of literals blanked out; lines stay where they were.
pub(crate) fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let hidden = hidden_len(rest);
        let (part, after) = rest.split_at(if hidden > 0 { hidden } else { first.len_utf8() });
        if hidden > 0 {
            code.push(' ');
            code.extend(part.chars().filter(|char| *char == '\n'));
        } else {
            code.push_str(part);
        }
        rest = after;
    }
    code
}

/// How many bytes of a comment or literal `text` begins with.
fn hidden_len(text: &str) -> usize {
    let up_to = |end: Option<usize>| end.unwrap_or(text.len());
    if text.starts_with("//") {
        return up_to(text.find('\n'));
    }
    if text.starts_with("/*") {
        return block_comment_len(text);
    }
    if let Some(raw) = text.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = hashes + 2;
            return up_to(text[start..].find(&end).map(|at| start + at + end.len()));
        }
    }
    match text.as_bytes() {
        [b'"', ..] => quoted_len(text, b'"'),
        // A character, not a lifetime: closed after one character or an escape.
        [b'\'', b'\\', ..] => quoted_len(text, b'\''),
        [b'\'', ..] => {
            let mut chars = text[1..].char_indices();
            match (chars.next(), chars.next()) {
                (Some(_), Some((at, '\''))) => 1 + at + 1,
                _ => 0,
            }
        }
        _ => 0,
    }
}

/// Block comments nest.
fn block_comment_len(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

fn quoted_len(text: &str, quote: u8) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            _ if byte == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Every path in a source file, with the line it stands on. The groups of `use` are taken apart:
/// `use std::{env, fs}` has the paths `std::env` and `std::fs`.
pub(crate) fn paths(text: &str) -> Vec<(usize, String)> {
    let tokens = tokens(&code(text));
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_use = tokens[at].text == "use";
        at += usize::from(is_use);
        let before = at;
        path(&tokens, &mut at, String::new(), is_use, &mut found);
        if at == before {
            at += 1;
        }
    }
    found
}

/// Reads the path at `at`, which continues `prefix`; in a `use`, with its groups.
fn path(
    tokens: &[Token],
    at: &mut usize,
    mut prefix: String,
    in_use: bool,
    found: &mut Vec<(usize, String)>,
) {
    let line = tokens.get(*at).map_or(0, |token| token.line);
    let given = prefix.len();
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    if text(*at) == "::" {
        *at += 1;
    }
    loop {
        if in_use && text(*at) == "{" {
            *at += 1;
            while !matches!(text(*at), "}" | "" | ";") {
                let before = *at;
                path(tokens, at, prefix.clone(), true, found);
                if *at == before {
                    *at += 1;
                }
            }
            *at += 1;
            return;
        }
        if !is_word(text(*at)) {
            break;
        }
        if !prefix.is_empty() {
            prefix.push_str("::");
        }
        prefix.push_str(text(*at));
        *at += 1;
        if text(*at) != "::" {
            break;
        }
        *at += 1;
    }
    if in_use && text(*at) == "as" {
        *at += 2;
    }
    if prefix.len() > given {
        found.push((line, prefix));
    }
}

/// A word, a double colon, or any other single character.
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// The words and signs of [`code`].
pub(crate) fn tokens(code: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let len = if is_word_char(first) {
                rest.find(|char| !is_word_char(char)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            tokens.push(Token {
                line: index + 1,
                text: rest[..len].to_owned(),
            });
            rest = rest[len..].trim_start();
        }
    }
    tokens
}

fn is_word(text: &str) -> bool {
    text.starts_with(is_word_char)
}

fn is_word_char(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        let text = "a // b\nc /* d /* e */ f */ g \"h \\\" i\" j r#\"k \" l\"# m '\"' n 'o p";
        let code = code(text);
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "c", "g", "j", "m", "n", "'o", "p"]);
        assert_eq!(code.lines().count(), text.lines().count());
    }

    #[test]
    fn groups_are_taken_apart() {
        let found = paths("use a::{b, c::{self, d as e}};\nf::g::<h::i>();");
        let found: Vec<(usize, &str)> = found
            .iter()
            .map(|(line, path)| (*line, path.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (1, "a::b"),
                (1, "a::c::self"),
                (1, "a::c::d"),
                (2, "f::g"),
                (2, "h::i"),
            ]
        );
    }
}
