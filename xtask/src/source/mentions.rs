//! The paths that Rust code names, as `syn` parses it.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Everything that code names by a path.
#[derive(Debug, Default)]
pub(crate) struct Mentions {
    pub(crate) paths: Vec<Mention>,
    pub(crate) imports: Vec<Import>,
    /// Names that patterns bind: variables, which hide items of the same name.
    pub(crate) bound: BTreeSet<String>,
}

/// A path outside of a `use`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
}

/// One leaf of a `use`: `use a::{b, c as d, e::*}` has three.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) line: usize,
    /// Without the star of a glob.
    pub(crate) path: Vec<String>,
    pub(crate) name: Imported,
    /// Others may import it from here.
    pub(crate) is_re_export: bool,
}

/// The name that an import gives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Imported {
    Name(String),
    /// `use x as _`: a trait, for its methods.
    Nothing,
    /// `use x::*`.
    Glob,
}

/// The code to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything, tests and the modules within included.
    File,
    /// One module, without those within it and without what is compiled for tests alone.
    Module,
}

impl Mentions {
    pub(crate) fn of(items: &[syn::Item], scope: Scope) -> Self {
        let mut finder = Finder {
            found: Self::default(),
            scope,
        };
        for item in items {
            finder.visit_item(item);
        }
        finder.found
    }
}

/// True for `#[cfg(test)]` and `#[test]`.
pub(crate) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        syn::Meta::NameValue(_) => false,
    })
}

/// The attributes of an item.
pub(crate) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(it) => &it.attrs,
        syn::Item::Enum(it) => &it.attrs,
        syn::Item::ExternCrate(it) => &it.attrs,
        syn::Item::Fn(it) => &it.attrs,
        syn::Item::Impl(it) => &it.attrs,
        syn::Item::Macro(it) => &it.attrs,
        syn::Item::Mod(it) => &it.attrs,
        syn::Item::Static(it) => &it.attrs,
        syn::Item::Struct(it) => &it.attrs,
        syn::Item::Trait(it) => &it.attrs,
        syn::Item::Type(it) => &it.attrs,
        syn::Item::Union(it) => &it.attrs,
        syn::Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

struct Finder {
    found: Mentions,
    scope: Scope,
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let is_left_out = self.scope == Scope::Module
            && (matches!(item, syn::Item::Mod(_)) || is_for_tests(attributes(item)));
        if !is_left_out {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if self.scope == Scope::File || !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_re_export = !matches!(item.vis, syn::Visibility::Inherited);
        flatten(
            &item.tree,
            &mut Vec::new(),
            is_re_export,
            &mut self.found.imports,
        );
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|part| part.ident.to_string());
        self.found.paths.push(Mention {
            line: path.span().start().line,
            path: names.collect(),
        });
        visit::visit_path(self, path);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.found.bound.insert(pattern.ident.to_string());
        visit::visit_pat_ident(self, pattern);
    }

    /// The arguments of a macro need not be Rust: whatever looks like a path is one.
    fn visit_macro(&mut self, it: &'ast syn::Macro) {
        self.visit_path(&it.path);
        in_tokens(it.tokens.clone(), &mut self.found.paths);
    }

    // Attributes name macros and lints.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

fn flatten(
    tree: &syn::UseTree,
    prefix: &mut Vec<String>,
    is_re_export: bool,
    found: &mut Vec<Import>,
) {
    let mut push = |ident: &syn::Ident, path: Vec<String>, name| {
        found.push(Import {
            line: ident.span().start().line,
            path,
            name,
            is_re_export,
        });
    };
    match tree {
        syn::UseTree::Path(part) => {
            prefix.push(part.ident.to_string());
            flatten(&part.tree, prefix, is_re_export, found);
            prefix.pop();
        }
        syn::UseTree::Name(leaf) => {
            let path = joined(prefix, &leaf.ident);
            let name = path.last().cloned().unwrap_or_default();
            push(&leaf.ident, path, Imported::Name(name));
        }
        syn::UseTree::Rename(leaf) => {
            let name = match leaf.rename.to_string() {
                nothing if nothing == "_" => Imported::Nothing,
                name => Imported::Name(name),
            };
            push(&leaf.ident, joined(prefix, &leaf.ident), name);
        }
        syn::UseTree::Glob(star) => found.push(Import {
            line: star.star_token.span.start().line,
            path: prefix.clone(),
            name: Imported::Glob,
            is_re_export,
        }),
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, is_re_export, found);
            }
        }
    }
}

/// `self` at the end of a path is what it stands behind.
fn joined(prefix: &[String], last: &syn::Ident) -> Vec<String> {
    let mut path = prefix.to_vec();
    if last != "self" || prefix.is_empty() {
        path.push(last.to_string());
    }
    path
}

fn in_tokens(tokens: TokenStream, found: &mut Vec<Mention>) {
    let mut open: Option<Mention> = None;
    // Colons since the last word, and whether a dot stands before: then it is a field or a method.
    let (mut colons, mut is_member) = (0, false);
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                match &mut open {
                    Some(path) if colons == 2 => path.path.push(ident.to_string()),
                    _ => {
                        found.extend(open.take());
                        open = (!is_member).then(|| Mention {
                            line: ident.span().start().line,
                            path: vec![ident.to_string()],
                        });
                    }
                }
                (colons, is_member) = (0, false);
            }
            TokenTree::Punct(sign) if sign.as_char() == ':' => colons += 1,
            other => {
                found.extend(open.take());
                colons = 0;
                is_member = matches!(&other, TokenTree::Punct(sign) if sign.as_char() == '.');
                if let TokenTree::Group(group) = other {
                    in_tokens(group.stream(), found);
                }
            }
        }
    }
    found.extend(open);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mentions(text: &str, scope: Scope) -> Mentions {
        let file = syn::parse_file(text).expect("Rust");
        Mentions::of(&file.items, scope)
    }

    fn paths(text: &str) -> Vec<(usize, String)> {
        let found = mentions(text, Scope::Module).paths;
        let shown = found.iter().map(|it| (it.line, it.path.join("::")));
        shown.collect()
    }

    #[test]
    fn the_groups_of_a_use_are_taken_apart() {
        let text = "use a::{b, c::{self, d as e}};\npub use f::*; use g as _;";
        let found = mentions(text, Scope::Module).imports;
        let shown: Vec<_> = found
            .iter()
            .map(|it| (it.line, it.path.join("::"), &it.name, it.is_re_export))
            .collect();
        let name = |name: &str| Imported::Name(name.to_owned());
        assert_eq!(
            shown,
            [
                (1, "a::b".to_owned(), &name("b"), false),
                (1, "a::c".to_owned(), &name("c"), false),
                (1, "a::c::d".to_owned(), &name("e"), false),
                (2, "f".to_owned(), &Imported::Glob, true),
                (2, "g".to_owned(), &Imported::Nothing, false),
            ]
        );
    }

    #[test]
    fn types_calls_and_arguments_of_macros_name_paths() {
        let text = "fn f(x: a::B<c::D>) {\n  e::f(x.g());\n  h!(x.i, j::k(L), $crate::m);\n}";
        let expected = [
            (1, "a::B"),
            (1, "c::D"),
            (2, "e::f"),
            (2, "x"),
            (3, "h"),
            (3, "x"),
            (3, "j::k"),
            (3, "L"),
            (3, "crate::m"),
        ];
        assert_eq!(
            paths(text),
            expected.map(|(at, path)| (at, path.to_owned()))
        );
    }

    #[test]
    fn tests_and_modules_within_are_not_of_a_module() {
        let text = "mod a { fn f() { b() } }\n#[cfg(test)] use c::d;\n#[test] fn g() { e() }";
        let found = mentions(text, Scope::Module);
        assert!(
            found.paths.is_empty() && found.imports.is_empty(),
            "{found:?}"
        );
        let found = mentions(text, Scope::File);
        assert_eq!((found.paths.len(), found.imports.len()), (2, 1));
    }
}
