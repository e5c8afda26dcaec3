//! Instants in the interfaces of pure crates: `BootTime` and `UnixTime`, so that neither clock is given for the other.

use syn::visit::{self, Visit};
use syn::{FnArg, ImplItemFn, ItemFn, ItemTrait, Pat, Signature, TraitItemFn, Type, Visibility};

/// Ends of names of parameters that are an instant, or a span that a caller may take for one.
const ENDINGS: [&str; 4] = ["_ms", "_ns", "now", "unix"];

/// The beginning of names of functions that make a type of such a number.
const CONVERSION: &str = "from_";

const INTEGERS: [&str; 12] = [
    "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize",
];

/// Lists the parameters of public functions in a file that are an instant without a type.
pub(super) fn bare(shown: &str, file: &syn::File) -> Vec<String> {
    let mut finder = Finder {
        shown,
        problems: Vec::new(),
    };
    finder.visit_file(file);
    finder.problems
}

struct Finder<'a> {
    shown: &'a str,
    problems: Vec<String>,
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if is_public(&item.vis) {
            self.judge(&item.sig);
        }
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if is_public(&item.vis) {
            self.judge(&item.sig);
        }
        visit::visit_impl_item_fn(self, item);
    }

    /// The functions of a trait are as public as it is.
    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        if is_public(&item.vis) {
            visit::visit_item_trait(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.judge(&item.sig);
        visit::visit_trait_item_fn(self, item);
    }
}

impl Finder<'_> {
    fn judge(&mut self, function: &Signature) {
        let function_name = function.ident.to_string();
        if function_name.starts_with(CONVERSION) {
            return;
        }
        for parameter in &function.inputs {
            let FnArg::Typed(parameter) = parameter else {
                continue;
            };
            let Pat::Ident(name) = &*parameter.pat else {
                continue;
            };
            let name = &name.ident;
            let ends = |ending: &&str| name.to_string().ends_with(ending);
            if is_integer(&parameter.ty) && ENDINGS.iter().any(ends) {
                self.problems.push(format!(
                    "{}:{}: {function_name} takes {name} as a bare integer: an instant is a `BootTime` or a `UnixTime`, \
                     a span is a `Duration`",
                    self.shown,
                    name.span().start().line,
                ));
            }
        }
    }
}

const fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// A reference to an integer is one too.
fn is_integer(found: &Type) -> bool {
    match found {
        Type::Reference(reference) => is_integer(&reference.elem),
        Type::Path(found) => INTEGERS.iter().any(|name| found.path.is_ident(name)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Vec<String> {
        let problems = bare("a.rs", &syn::parse_file(code).expect("Rust"));
        let name = |problem: String| problem.split(' ').nth(3).map(str::to_owned);
        problems.into_iter().filter_map(name).collect()
    }

    #[test]
    fn an_instant_without_a_type_is_found_in_every_public_function() {
        for (code, names) in [
            ("pub fn f(now_ms: u64) {}", &["now_ms"][..]),
            (
                "impl A { pub fn f(&mut self, unix: u64, now: i128) {} }",
                &["unix", "now"],
            ),
            (
                "pub trait A { async fn f(&self, portal_unix: &u64); }",
                &["portal_unix"],
            ),
            ("mod a { pub const fn f(due_ns: u64) {} }", &["due_ns"]),
            ("pub fn f() { pub fn g(mut now: u32) {} }", &["now"]),
        ] {
            assert_eq!(found(code), names, "{code}");
        }
        let code = "pub struct A;\n\nimpl A {\n    pub fn f(\n        now_ms: u64,\n    ) {}\n}\n";
        let problems = bare("a.rs", &syn::parse_file(code).expect("Rust"));
        assert!(
            problems[0].starts_with("a.rs:5: f takes now_ms"),
            "{problems:?}"
        );
    }

    #[test]
    fn what_has_a_type_is_private_or_makes_one_is_none() {
        for code in [
            "pub fn f(now: BootTime, unix: UnixTime, step: Duration) {}",
            "pub fn f(known: u64, terms: u64, unix_mode: u32) {}",
            "fn f(now_ms: u64) {} pub(crate) fn g(now_ms: u64) {}",
            "trait A { fn f(now_ms: u64); }",
            "pub const fn from_unix_ms(unix_ms: u64) -> Timestamp { Timestamp(unix_ms) }",
        ] {
            assert_eq!(found(code), [""; 0], "{code}");
        }
    }
}
