//! Types that hold secrets compare them in constant time: a derived comparison stops at the first
//! difference, so that its duration tells how much of a guess is right.

use syn::visit::{self, Visit};

/// Words that mark a type as a secret's: it is wiped when dropped, or a field is.
const WIPED: [&str; 3] = ["Zeroize", "ZeroizeOnDrop", "Zeroizing"];

/// Types of secrets that nobody wipes: digests, which the database has as well.
const NAMED: [&str; 1] = ["SecretDigest"];

/// Comparisons that a type of secrets does not derive.
const COMPARISONS: [&str; 3] = ["Ord", "PartialEq", "PartialOrd"];

/// Lists the types of secrets in a file that derive a comparison.
pub(super) fn derived_comparisons(shown: &str, file: &syn::File) -> Vec<String> {
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
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let mut words = Words::default();
        words.visit_fields(&item.fields);
        self.judge(&item.ident, &item.attrs, &words.0);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        let mut words = Words::default();
        for variant in &item.variants {
            words.visit_variant(variant);
        }
        self.judge(&item.ident, &item.attrs, &words.0);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        let mut words = Words::default();
        words.visit_fields_named(&item.fields);
        self.judge(&item.ident, &item.attrs, &words.0);
    }
}

impl Finder<'_> {
    /// Judges a type whose fields name `words`.
    fn judge(&mut self, name: &syn::Ident, attributes: &[syn::Attribute], words: &[String]) {
        let mut derived = Words::default();
        for attribute in attributes.iter().filter(|it| it.path().is_ident("derive")) {
            // Anything but a list of paths does not compile.
            let _result = attribute.parse_nested_meta(|one| {
                derived.visit_path(&one.path);
                Ok(())
            });
        }
        let Words(derived) = derived;
        let is_wiped = |word: &String| WIPED.contains(&word.as_str());
        let is_secret = NAMED.iter().any(|named| name == named)
            || derived.iter().any(is_wiped)
            || words.iter().any(is_wiped);
        let comparison = derived
            .iter()
            .find(|word| COMPARISONS.contains(&word.as_str()));
        if let Some(comparison) = comparison
            && is_secret
        {
            self.problems.push(format!(
                "{}:{}: {name} holds a secret and derives {comparison}, which stops at the first difference: \
                 implement it by `subtle::ConstantTimeEq`",
                self.shown,
                name.span().start().line,
            ));
        }
    }
}

/// Every word of a part of the code.
#[derive(Default)]
struct Words(Vec<String>);

impl<'ast> Visit<'ast> for Words {
    fn visit_ident(&mut self, ident: &'ast syn::Ident) {
        self.0.push(ident.to_string());
        visit::visit_ident(self, ident);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(code: &str) -> Vec<String> {
        let problems = derived_comparisons("a.rs", &syn::parse_file(code).expect("Rust"));
        let name = |problem: String| problem.split(' ').nth(1).map(str::to_owned);
        problems.into_iter().filter_map(name).collect()
    }

    #[test]
    fn a_type_of_secrets_that_derives_its_comparison_is_found() {
        for code in [
            "#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]\npub struct Key([u8; 32]);",
            "#[derive(Clone, PartialEq)]\nstruct Key(Zeroizing<Vec<u8>>);",
            "#[derive(PartialOrd)]\n#[serde(x)]\nstruct Key { a: u8, b: Zeroizing<[u8; 2]> }",
            "#[derive(Clone)] #[derive(zeroize::Zeroize, PartialEq)] enum Key { A }",
            "struct A;\n#[derive(Ord)] struct Key { b: Option<Zeroizing<String>>, c: [u8; 3] }",
            "mod a { fn f() { #[derive(PartialEq)] enum Key { B(Zeroizing<u8>) } } }",
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
