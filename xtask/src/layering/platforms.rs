//! Conditions about the operating system in pure crates. Code for one system alone belongs into a shell, behind what a
//! pure crate asks of it, so that another system needs another shell and nothing else.

use anyhow::Result;
use proc_macro2::{TokenStream, TokenTree};

/// Attributes and macros that take a condition.
const TAKE_CONDITIONS: [&str; 3] = ["cfg", "cfg_attr", "cfg_select"];

/// The parts of a condition that tell the operating system. Those that tell the processor are allowed: `aead` and
/// `packet` have vector code for one kind, and portable code for the others.
const ABOUT_THE_SYSTEM: [&str; 7] = [
    "target_abi",
    "target_env",
    "target_family",
    "target_os",
    "target_vendor",
    "unix",
    "windows",
];

/// The conditions in a source file of a pure crate, with the lines that have them.
pub(super) fn conditions(shown: &str, text: &str) -> Result<Vec<String>> {
    let tokens: TokenStream = text
        .parse()
        .map_err(|error| anyhow::anyhow!("{shown}: {error}"))?;
    let mut found = Vec::new();
    find(tokens, &mut found);
    let problem = |(line, name)| {
        format!(
            "{shown}:{line}: a pure crate may not ask for the operating system ({name}): give it a trait or a value"
        )
    };
    Ok(found.into_iter().map(problem).collect())
}

fn find(tokens: TokenStream, found: &mut Vec<(usize, String)>) {
    let mut takes_condition = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) if takes_condition => {
                systems(group.stream(), found);
                takes_condition = false;
            }
            TokenTree::Group(group) => find(group.stream(), found),
            TokenTree::Ident(name) => {
                takes_condition = TAKE_CONDITIONS.iter().any(|it| name == it);
            }
            TokenTree::Punct(mark) => takes_condition &= mark.as_char() == '!',
            TokenTree::Literal(_) => takes_condition = false,
        }
    }
}

/// The parts of one condition, at any depth. Arms of `cfg_select!` are taken for one too.
fn systems(condition: TokenStream, found: &mut Vec<(usize, String)>) {
    for token in condition {
        match token {
            TokenTree::Group(group) => systems(group.stream(), found),
            TokenTree::Ident(name) if ABOUT_THE_SYSTEM.iter().any(|it| name == it) => {
                found.push((name.span().start().line, name.to_string()));
            }
            _ => {}
        }
    }
}

/// The tables of a pure crate's manifest that are for some platforms alone.
pub(super) fn dependencies(shown: &str, manifest: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse()?;
    let tables = manifest.get("target").and_then(toml::Value::as_table);
    let names = tables.into_iter().flat_map(toml::Table::keys);
    let problem = |name: &String| {
        format!("{shown}: a pure crate has the same dependencies everywhere, and none for {name}")
    };
    Ok(names.map(problem).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        conditions("lib.rs", text).expect("Rust").len()
    }

    #[test]
    fn a_condition_about_the_system_is_found_wherever_it_stands() {
        for bad in [
            "#![cfg(target_os = \"linux\")]",
            "#[cfg(unix)]\nfn f() {}",
            "#[cfg(all(test, not(any(windows, feature = \"x\"))))]\nmod m;",
            "#[cfg_attr(not(target_family = \"unix\"), path = \"absent.rs\")]\nmod m;",
            "fn f() -> bool { g(|| if cfg!(target_env = \"gnu\") { 1 } else { 2 }) }",
            "macro_rules! m { () => { #[cfg(target_vendor = \"apple\")] fn f() {} } }",
            "cfg_select! { windows => { fn f() {} } _ => {} }",
        ] {
            assert_eq!(found(bad), 1, "{bad}");
        }
        for good in [
            "#[cfg(test)]\nmod tests;",
            "#[cfg(target_arch = \"x86_64\")]\nmod vector;",
            "#[cfg(any(target_endian = \"little\", target_pointer_width = \"64\"))]\nfn f() {}",
            "#[cfg(feature = \"unix\")]\nfn f() {}",
            "/// `#[cfg(unix)]`\nfn windows(unix: &[u8]) { unix.windows(2); }",
            "fn f(cfg: Cfg, windows: u8) { g(cfg, (windows)) }",
        ] {
            assert_eq!(found(good), 0, "{good}");
        }
    }

    #[test]
    fn a_problem_names_its_line() {
        let text = "fn f() {}\n\n#[cfg(any(\n    test,\n    windows,\n))]\nfn g() {}\n";
        let problems = conditions("a.rs", text).expect("Rust");
        assert!(problems[0].starts_with("a.rs:5: "), "{problems:?}");
        assert!(problems[0].contains("(windows)"), "{problems:?}");
    }

    #[test]
    fn a_dependency_for_one_platform_is_found() {
        let bad = "[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n";
        let problems = dependencies("Cargo.toml", bad).expect("TOML");
        assert_eq!(problems.len(), 1);
        assert!(problems[0].ends_with("none for cfg(unix)"), "{problems:?}");
        let good = "[dependencies]\nlibc = \"0.2\"\n[features]\ntarget = []\n";
        assert!(dependencies("Cargo.toml", good).expect("TOML").is_empty());
    }
}
