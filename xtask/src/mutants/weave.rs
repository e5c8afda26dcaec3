//! One source that has all mutants of a file, of which the environment chooses one when a test runs.
//!
//! `a < b` with two mutants becomes `(if mutant::is(1) { a == b } else if mutant::is(2) { a > b } else { a < b })`.

use super::list::{Genre, Mutant, MutantId};
use anyhow::{Context, Result};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A file with its mutants.
#[derive(Debug)]
pub(super) struct Woven {
    pub(super) text: String,
    /// The place of each mutant in `text`.
    pub(super) pieces: Vec<Piece>,
    /// Those that cannot stand beside what they replace.
    pub(super) left_out: Vec<MutantId>,
    /// Those that constants may reach, when the tests are built.
    pub(super) in_constants: Vec<MutantId>,
}

/// A part of a woven text that is there because of mutants.
#[derive(Debug)]
pub(super) struct Piece {
    /// Bytes of the woven text.
    pub(super) range: Range<usize>,
    pub(super) mutants: Vec<MutantId>,
    /// True if it is the mutant itself, and nothing of the sound code.
    pub(super) is_mutant: bool,
}

/// A place of the sound text that is wrapped. A place without length is one where something is inserted.
struct Edit {
    range: Range<usize>,
    /// Each with the mutant that it is, if it is one.
    before: Vec<(String, Option<MutantId>)>,
    after: &'static str,
    mutants: Vec<MutantId>,
}

pub(super) fn weave(text: &str, mutants: &[&Mutant]) -> Result<Woven> {
    let mut finder = Finder::new(text, mutants);
    finder.visit_file(&syn::parse_file(text).context("does not parse")?);
    let mut edits = finder.edits;
    let (bodies, constants) = (finder.bodies, finder.constants);
    edits.extend(early_returns(&bodies, mutants));
    // The outer before the inner; a guard before the comparison that it is.
    edits.sort_by_key(|edit| {
        let is_long = !edit.range.is_empty();
        (edit.range.start, is_long, Reverse(edit.range.end))
    });
    let placed: Vec<MutantId> = edits.iter().flat_map(|edit| edit.mutants.clone()).collect();
    let mut weaver = Weaver {
        source: text,
        edits: edits.into_iter().peekable(),
        at: 0,
        text: String::with_capacity(text.len() * 2),
        pieces: Vec::new(),
    };
    weaver.up_to(text.len());
    let ids = |is_meant: &dyn Fn(&Mutant) -> bool| -> Vec<MutantId> {
        let meant = mutants.iter().filter(|mutant| is_meant(mutant));
        meant.map(|mutant| mutant.id).collect()
    };
    Ok(Woven {
        text: weaver.text,
        pieces: weaver.pieces,
        left_out: ids(&|mutant| !placed.contains(&mutant.id)),
        in_constants: ids(&|mutant| {
            body(&bodies, mutant).is_none_or(|body| body.is_const)
                || mutant.genre != Genre::FnValue
                    && constants.iter().any(|it| it.contains(&mutant.at.start))
        }),
    })
}

/// The body of a function.
struct Body {
    /// With its braces.
    range: Range<usize>,
    returns_impl: bool,
    is_const: bool,
}

/// The body that `mutant` stands in.
fn body<'a>(bodies: &'a [Body], mutant: &Mutant) -> Option<&'a Body> {
    let around = bodies
        .iter()
        .filter(|body| body.range.contains(&mutant.at.start));
    around.min_by_key(|body| body.range.len())
}

/// Functions that return at once. Two types cannot be returned as one `impl Trait`.
fn early_returns(bodies: &[Body], mutants: &[&Mutant]) -> Vec<Edit> {
    let returns = mutants.iter().filter(|it| it.genre == Genre::FnValue);
    let edit = |mutant: &&Mutant| {
        let body = body(bodies, mutant)?;
        let begin = body.range.start + 1;
        let early = format!(
            "\nif {} {{ return {}; }}\n",
            is(mutant.id),
            mutant.replacement
        );
        (!body.returns_impl).then_some(Edit {
            range: begin..begin,
            before: vec![(early, Some(mutant.id))],
            after: "",
            mutants: vec![mutant.id],
        })
    };
    returns.filter_map(edit).collect()
}

fn is(mutant: MutantId) -> String {
    format!("crate::culvert_mutant::is({mutant})")
}

/// Finds the places of mutants.
struct Finder<'a> {
    text: &'a str,
    by_start: HashMap<(Genre, usize), Vec<&'a Mutant>>,
    edits: Vec<Edit>,
    bodies: Vec<Body>,
    /// The ranges of constants, which are computed when the tests are built.
    constants: Vec<Range<usize>>,
}

impl<'a> Finder<'a> {
    fn new(text: &'a str, mutants: &[&'a Mutant]) -> Self {
        let mut by_start: HashMap<_, Vec<&Mutant>> = HashMap::new();
        for mutant in mutants {
            let place = (mutant.genre, mutant.at.start);
            by_start.entry(place).or_default().push(mutant);
        }
        Self {
            text,
            by_start,
            edits: Vec::new(),
            bodies: Vec::new(),
            constants: Vec::new(),
        }
    }

    fn at(&self, genre: Genre, start: usize) -> Vec<&'a Mutant> {
        self.by_start
            .get(&(genre, start))
            .cloned()
            .unwrap_or_default()
    }

    /// Puts what each of `mutants` makes of the expression `whole` beside it.
    fn beside(&mut self, whole: &Range<usize>, mutants: &[&Mutant]) {
        if mutants.is_empty() {
            return;
        }
        let mut before = vec![("(".to_owned(), None)];
        for mutant in mutants {
            let changed = format!(
                "{}{}{}",
                &self.text[whole.start..mutant.at.start],
                mutant.replacement,
                &self.text[mutant.at.end..whole.end]
            );
            before.push((format!("if {} {{\n", is(mutant.id)), None));
            before.push((changed, Some(mutant.id)));
            before.push(("\n} else ".to_owned(), None));
        }
        before.push(("{".to_owned(), None));
        self.edits.push(Edit {
            range: whole.clone(),
            before,
            after: "})",
            mutants: mutants.iter().map(|mutant| mutant.id).collect(),
        });
    }

    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let returned = match &signature.output {
            syn::ReturnType::Default => "",
            syn::ReturnType::Type(_, returned) => &self.text[range(returned)],
        };
        self.bodies.push(Body {
            returns_impl: returned.contains("impl "),
            is_const: signature.constness.is_some(),
            range: range(block),
        });
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr_binary(&mut self, it: &'ast syn::ExprBinary) {
        let mutants = self.at(Genre::BinaryOperator, range(&it.op).start);
        // `let` stands in no other expression.
        if !has_let(&it.left) && !has_let(&it.right) {
            self.beside(&range(it), &mutants);
        }
        visit::visit_expr_binary(self, it);
    }

    fn visit_expr_unary(&mut self, it: &'ast syn::ExprUnary) {
        let mutants = self.at(Genre::UnaryOperator, range(&it.op).start);
        self.beside(&range(it), &mutants);
        visit::visit_expr_unary(self, it);
    }

    fn visit_expr_struct(&mut self, it: &'ast syn::ExprStruct) {
        let starts = it.fields.iter().map(|field| range(field).start);
        let mutants = starts.flat_map(|start| self.at(Genre::StructField, start));
        self.beside(&range(it), &mutants.collect::<Vec<_>>());
        visit::visit_expr_struct(self, it);
    }

    fn visit_arm(&mut self, it: &'ast syn::Arm) {
        let deleted = self.at(Genre::MatchArm, range(it).start);
        let deleted = deleted.first().map(|mutant| mutant.id);
        let not_deleted = deleted.map(|id| format!("!{}", is(id)));
        if let syn::Pat::Guard(syn::PatGuard { guard, .. }) = &it.pat {
            let of_guard = self.at(Genre::MatchArmGuard, range(guard).start);
            let mut condition = not_deleted.map(|it| it + " && ").unwrap_or_default();
            condition.push('(');
            for mutant in &of_guard {
                let (not, or) = match mutant.replacement.as_str() {
                    "true" => ("", "||"),
                    _ => ("!", "&&"),
                };
                write!(condition, "{not}{} {or} (", is(mutant.id)).expect("a String takes all");
            }
            let mutants: Vec<MutantId> = of_guard.iter().map(|it| it.id).chain(deleted).collect();
            if !mutants.is_empty() {
                self.edits.push(Edit {
                    range: range(guard),
                    before: vec![(condition, None)],
                    after: [")", "))", ")))"][of_guard.len().min(2)],
                    mutants,
                });
            }
        } else if let Some(condition) = not_deleted {
            let end = range(&it.pat).end;
            self.edits.push(Edit {
                range: end..end,
                before: vec![(format!(" if {condition}"), None)],
                after: "",
                mutants: deleted.into_iter().collect(),
            });
        }
        visit::visit_arm(self, it);
    }

    fn visit_item_const(&mut self, it: &'ast syn::ItemConst) {
        self.constants.push(range(it));
        visit::visit_item_const(self, it);
    }

    fn visit_item_static(&mut self, it: &'ast syn::ItemStatic) {
        self.constants.push(range(it));
        visit::visit_item_static(self, it);
    }

    fn visit_impl_item_const(&mut self, it: &'ast syn::ImplItemConst) {
        self.constants.push(range(it));
        visit::visit_impl_item_const(self, it);
    }

    fn visit_expr_const(&mut self, it: &'ast syn::ExprConst) {
        self.constants.push(range(it));
        visit::visit_expr_const(self, it);
    }

    fn visit_expr_repeat(&mut self, it: &'ast syn::ExprRepeat) {
        self.constants.push(range(&it.len));
        visit::visit_expr_repeat(self, it);
    }

    fn visit_type_array(&mut self, it: &'ast syn::TypeArray) {
        self.constants.push(range(&it.len));
        visit::visit_type_array(self, it);
    }

    fn visit_item_fn(&mut self, it: &'ast syn::ItemFn) {
        self.body(&it.sig, &it.block);
        visit::visit_item_fn(self, it);
    }

    fn visit_impl_item_fn(&mut self, it: &'ast syn::ImplItemFn) {
        self.body(&it.sig, &it.block);
        visit::visit_impl_item_fn(self, it);
    }

    fn visit_trait_item_fn(&mut self, it: &'ast syn::TraitItemFn) {
        if let Some(block) = &it.default {
            self.body(&it.sig, block);
        }
        visit::visit_trait_item_fn(self, it);
    }
}

fn has_let(it: &syn::Expr) -> bool {
    match it {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(it) => has_let(&it.left) || has_let(&it.right),
        _ => false,
    }
}

fn range(it: &impl Spanned) -> Range<usize> {
    it.span().byte_range()
}

/// Writes the woven text.
struct Weaver<'a> {
    source: &'a str,
    edits: std::iter::Peekable<std::vec::IntoIter<Edit>>,
    /// The bytes of `source` that are written.
    at: usize,
    text: String,
    pieces: Vec<Piece>,
}

impl Weaver<'_> {
    fn up_to(&mut self, end: usize) {
        while let Some(edit) = self.edits.next_if(|edit| edit.range.start < end) {
            self.text.push_str(&self.source[self.at..edit.range.start]);
            self.at = edit.range.start;
            let begin = self.text.len();
            for (text, mutant) in edit.before {
                let begin = self.text.len();
                self.text.push_str(&text);
                self.pieces.extend(mutant.map(|mutant| Piece {
                    range: begin..self.text.len(),
                    mutants: vec![mutant],
                    is_mutant: true,
                }));
            }
            self.up_to(edit.range.end);
            self.text.push_str(edit.after);
            self.pieces.push(Piece {
                range: begin..self.text.len(),
                mutants: edit.mutants,
                is_mutant: false,
            });
        }
        self.text.push_str(&self.source[self.at..end]);
        self.at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(id: MutantId, genre: Genre, text: &str, replaced: &str, replacement: &str) -> Mutant {
        let start = text.find(replaced).expect("it stands there");
        Mutant {
            id,
            name: String::new(),
            package: String::new(),
            file: String::new(),
            genre,
            at: start..start + replaced.len(),
            replacement: replacement.to_owned(),
        }
    }

    fn woven(text: &str, mutants: &[Mutant]) -> Woven {
        let mutants: Vec<&Mutant> = mutants.iter().collect();
        let woven = weave(text, &mutants).expect("it parses");
        syn::parse_file(&woven.text).expect("what is woven parses");
        woven
    }

    /// Without the path of the switch and the line breaks.
    fn short(woven: &Woven) -> String {
        let text = woven.text.replace("crate::culvert_mutant::", "");
        text.replace('\n', "")
    }

    #[test]
    fn mutants_of_a_comparison_stand_beside_it() {
        let text = "fn f() -> bool { a < b }";
        let mutants = [
            mutant(1, Genre::BinaryOperator, text, "<", "=="),
            mutant(2, Genre::BinaryOperator, text, "<", ">"),
        ];
        assert_eq!(
            short(&woven(text, &mutants)),
            "fn f() -> bool { (if is(1) {a == b} else if is(2) {a > b} else {a < b}) }"
        );
    }

    #[test]
    fn a_mutant_within_another_stands_in_the_sound_code_alone() {
        let text = "fn f() -> bool { !(a && b) }";
        let mutants = [
            mutant(1, Genre::UnaryOperator, text, "!", ""),
            mutant(2, Genre::BinaryOperator, text, "&&", "||"),
        ];
        assert_eq!(
            short(&woven(text, &mutants)),
            "fn f() -> bool { (if is(1) {(a && b)} else {!((if is(2) {a || b} else {a && b}))}) }"
        );
    }

    #[test]
    fn a_function_returns_what_its_mutant_says() {
        let text = "fn f() -> u8 { 3 }";
        let mutants = [mutant(1, Genre::FnValue, text, "3", "0")];
        let woven = woven(text, &mutants);
        assert_eq!(short(&woven), "fn f() -> u8 {if is(1) { return 0; } 3 }");
        let piece = &woven.pieces[0];
        assert!(piece.is_mutant);
        assert!(woven.text[piece.range.clone()].contains("return 0"));
    }

    #[test]
    fn an_arm_that_is_deleted_matches_nothing() {
        let text = "fn f() { match a { 0 => b, _ if c => d, _ => e } }";
        let mutants = [
            mutant(1, Genre::MatchArm, text, "0 => b,", ""),
            mutant(2, Genre::MatchArm, text, "_ if c => d,", ""),
            mutant(3, Genre::MatchArmGuard, text, "c =", "true"),
            mutant(4, Genre::MatchArmGuard, text, "c =", "false"),
        ];
        assert_eq!(
            short(&woven(text, &mutants)),
            "fn f() { match a { 0 if !is(1) => b, \
             _ if !is(2) && (is(3) || (!is(4) && (c))) => d, _ => e } }"
        );
    }

    #[test]
    fn a_field_that_is_deleted_comes_from_the_base() {
        let text = "fn f() -> S { S { a: 1, b: 2, ..c } }";
        let mutants = [mutant(1, Genre::StructField, text, "a: 1,", "")];
        assert_eq!(
            short(&woven(text, &mutants)),
            "fn f() -> S { (if is(1) {S {  b: 2, ..c }} else {S { a: 1, b: 2, ..c }}) }"
        );
    }

    #[test]
    fn what_cannot_stand_beside_the_sound_code_is_left_out() {
        let text = "fn f() -> impl T { if let a = b && c { d } else { e } }";
        let mutants = [
            mutant(1, Genre::FnValue, text, "if", "g()"),
            mutant(2, Genre::BinaryOperator, text, "&&", "||"),
        ];
        let woven = woven(text, &mutants);
        assert_eq!(woven.left_out, [1, 2]);
        assert_eq!(woven.text, text);
    }

    #[test]
    fn mutants_of_constants_are_told_apart() {
        let text = "const fn f() -> u8 { 1 + 2 } fn g() -> u8 { 3 - 4 }";
        let mutants = [
            mutant(1, Genre::BinaryOperator, text, "+", "*"),
            mutant(2, Genre::BinaryOperator, text, "- 4", "/ 4"),
        ];
        assert_eq!(woven(text, &mutants).in_constants, [1]);
        let text = "fn f() -> [u8; 7] { const N: u8 = 1 + 2; [N; 3 * 2 + 1] }";
        let mutants = [
            mutant(1, Genre::BinaryOperator, text, "+ 2", "- 2"),
            mutant(2, Genre::BinaryOperator, text, "* 2", "/ 2"),
            mutant(3, Genre::FnValue, text, "const", "[0; 7]"),
        ];
        assert_eq!(woven(text, &mutants).in_constants, [1, 2]);
    }
}
