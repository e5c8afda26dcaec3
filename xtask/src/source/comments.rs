//! The comments of Rust source.

use anyhow::{Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};
use std::ops::Range;

/// Lines of comments of one kind, one below the other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Comment {
    pub(crate) kind: Kind,
    /// Of its first line, from 1.
    pub(crate) line: usize,
    /// Without the slashes.
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `//!`
    Module,
    /// `///`
    Item,
    /// `//`
    Plain,
}

/// Every line comment. Block comments are left out: nobody writes them here.
pub(crate) fn comments(text: &str) -> Result<Vec<Comment>> {
    // It keeps a copy of all that it has parsed.
    proc_macro2::extra::invalidate_current_thread_spans();
    let tokens: TokenStream = text
        .parse()
        .map_err(|error| anyhow!("it is no Rust: {error}"))?;
    let mut literals = Vec::new();
    note_literals(tokens, text, &mut literals);
    let mut literals = literals.into_iter().peekable();
    let mut found: Vec<Comment> = Vec::new();
    let (mut at, mut line_at, mut line) = (0, 0, 1);
    while let Some(start) = text[at..].find("//").map(|start| at + start) {
        while literals.next_if(|literal| literal.end <= start).is_some() {}
        if let Some(literal) = literals.peek()
            && literal.start <= start
        {
            at = literal.end;
            continue;
        }
        let end = text[start..]
            .find('\n')
            .map_or(text.len(), |len| start + len);
        line += text[line_at..start].matches('\n').count();
        (at, line_at) = (end, start);
        let (kind, content) = split(&text[start..end]);
        let own = text[..start].rsplit('\n').next().unwrap_or_default();
        let is_alone = own.trim().is_empty();
        match found.last_mut() {
            Some(last)
                if is_alone
                    && last.kind == kind
                    && last.line + last.text.lines().count() == line =>
            {
                last.text.push_str(content);
                last.text.push('\n');
            }
            _ => found.push(Comment {
                kind,
                line,
                text: format!("{content}\n"),
            }),
        }
    }
    Ok(found)
}

fn split(comment: &str) -> (Kind, &str) {
    let (kind, content) = if let Some(content) = comment.strip_prefix("//!") {
        (Kind::Module, content)
    } else if let Some(content) = comment.strip_prefix("///") {
        (Kind::Item, content)
    } else {
        (Kind::Plain, comment.trim_start_matches('/'))
    };
    (kind, content.strip_prefix(' ').unwrap_or(content))
}

/// The places of literals, in order. To the parser, documentation comments are literals as well.
fn note_literals(tokens: TokenStream, text: &str, found: &mut Vec<Range<usize>>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => note_literals(group.stream(), text, found),
            TokenTree::Literal(literal) => {
                let range = literal.span().byte_range();
                let is_comment = text[range.clone()].starts_with('/');
                if !is_comment {
                    found.push(range);
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_kind_are_one_comment() {
        let text = "//! a\n//! b\n\n/// c\nfn f() {\n    // d\n    //   e\n    g(); // h\n}\n";
        let found = comments(text).expect("Rust");
        let shown: Vec<_> = found
            .iter()
            .map(|it| (it.kind, it.line, it.text.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                (Kind::Module, 1, "a\nb\n"),
                (Kind::Item, 4, "c\n"),
                (Kind::Plain, 6, "d\n  e\n"),
                (Kind::Plain, 8, "h\n"),
            ]
        );
    }

    #[test]
    fn slashes_in_literals_are_no_comment() {
        let text = "const A: &str = \"http://a\"; // é\nconst B: &[&str] = &[r#\"// \" //\"#, \"ü//\"];\n//b";
        let found = comments(text).expect("Rust");
        let shown: Vec<_> = found.iter().map(|it| (it.line, it.text.as_str())).collect();
        assert_eq!(shown, [(1, "é\n"), (3, "b\n")]);
    }
}
