use super::*;
use std::collections::HashMap;

/// The circles of a crate with these files, each as its files and what it names of others.
fn circles(files: &[(&str, &str)]) -> Vec<(Vec<String>, Vec<String>)> {
    let texts: HashMap<PathBuf, String> = files
        .iter()
        .map(|(name, text)| (PathBuf::from(name), (*text).to_owned()))
        .collect();
    let read = |path: &Path| texts.get(path).cloned();
    let mut graph = Graph::default();
    graph.add(Path::new(files[0].0), &read).expect("a crate");
    let shown = |path: &Path| path.display().to_string();
    let circles = graph.circles();
    circles
        .iter()
        .map(|circle| {
            let edges = graph.within(circle).map(|(from, to, reason)| {
                format!(
                    "{}:{} {}: {}",
                    shown(from),
                    reason.line,
                    shown(to),
                    reason.item
                )
            });
            (circle.iter().map(|it| shown(it)).collect(), edges.collect())
        })
        .collect()
}

fn files(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    circles(files).into_iter().map(|(files, _)| files).collect()
}

#[test]
fn two_siblings_that_name_each_other_are_a_circle() {
    let found = circles(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        ("a.rs", "use super::b::B;\npub struct A(B);"),
        (
            "b.rs",
            "use crate::c;\npub struct B;\nfn f() -> crate::a::A { c::g() }",
        ),
        ("c.rs", "pub fn g() {}"),
    ]);
    assert_eq!(
        found,
        [(
            vec!["a.rs".to_owned(), "b.rs".to_owned()],
            vec!["a.rs:1 b.rs: B".to_owned(), "b.rs:3 a.rs: A".to_owned()],
        )]
    );
}

#[test]
fn a_longer_way_round_is_one_circle() {
    let found = files(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::B; pub struct A; pub struct A2;"),
        ("b.rs", "pub struct B; fn f() { assert!(crate::c::g(1)) }"),
        ("c.rs", "use super::a::{A, A2 as _}; pub fn g(_: u8) {}"),
        ("d.rs", "use super::a::A;"),
    ]);
    assert_eq!(found, [["a.rs", "b.rs", "c.rs"]]);
}

#[test]
fn a_parent_that_declares_and_re_exports_its_children_does_not_depend_on_them() {
    let parent = "mod b;\npub use b::B;\npub struct A;";
    let child = ("a/b.rs", "use super::A;\npub struct B(A);");
    let found = files(&[("lib.rs", "mod a;"), ("a/mod.rs", parent), child]);
    assert!(found.is_empty(), "{found:?}");
    let user = format!("{parent}\nfn f(_: B) {{}}");
    let found = files(&[("lib.rs", "mod a;"), ("a/mod.rs", &user), child]);
    assert_eq!(found, [["a/b.rs", "a/mod.rs"]]);
}

#[test]
fn a_path_leads_through_re_exports_to_the_file_that_defines() {
    let found = files(&[
        ("lib.rs", "mod a; mod b; pub use a::*; pub use b::B as C;"),
        ("a.rs", "use crate::C; pub struct A;"),
        ("b.rs", "use super::*; pub struct B(A);"),
    ]);
    assert_eq!(found, [["a.rs", "b.rs"]]);
}

#[test]
fn tests_variables_and_other_crates_make_no_circle() {
    let found = files(&[
        (
            "lib.rs",
            "mod a; mod b; pub use b::run; fn f(run: u8) { run; other::g() }",
        ),
        (
            "a.rs",
            "pub struct A; #[cfg(test)] mod tests { use crate::b::run; }",
        ),
        (
            "b.rs",
            "use crate::a::A; pub fn run(a: A) { a.f(); crate::f(1) }",
        ),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn names_that_macros_make_are_of_the_module_that_calls_them() {
    let found = files(&[
        ("lib.rs", "mod a { pub mod deep; } mod b;"),
        ("a/deep.rs", "make! { Id } fn f(_: crate::b::B) {}"),
        ("b.rs", "pub struct B(crate::a::deep::Id);"),
    ]);
    assert_eq!(found, [["a/deep.rs", "b.rs"]]);
}

fn found(package: &str, files: &[&str]) -> Found {
    Found {
        entry: entry(package, files),
        edges: "  a.rs:1 → b.rs: B\n".to_owned(),
    }
}

fn entry(package: &str, files: &[&str]) -> Entry {
    Entry {
        package: package.to_owned(),
        files: files.iter().map(|file| (*file).to_owned()).collect(),
    }
}

#[test]
fn a_known_circle_may_not_become_larger() {
    let known = [entry("p", &["a.rs", "b.rs"])];
    assert!(compare(&[found("p", &["a.rs", "b.rs"])], &known).is_empty());
    let joined = compare(&[found("p", &["a.rs", "b.rs", "c.rs"])], &known);
    assert_eq!(joined.len(), 1);
    assert!(joined[0].starts_with("p: new in a circle: c.rs; the circle is a.rs, b.rs, c.rs"));
    assert!(joined[0].contains("a.rs:1 → b.rs: B"));
    assert_eq!(compare(&[found("q", &["a.rs", "b.rs"])], &[]).len(), 1);
}

#[test]
fn an_entry_that_is_no_circle_any_more_must_go() {
    assert_eq!(
        compare(&[], &[entry("p", &["a.rs", "b.rs"])]),
        ["xtask/circles.toml: p: no longer in a circle: a.rs, b.rs: cargo xtask circles --lower"]
    );
}

#[test]
fn circles_that_join_or_come_apart_are_problems() {
    let all = ["a.rs", "b.rs", "c.rs", "d.rs"];
    let (one, other) = all.split_at(2);
    let joined = compare(&[found("p", &all)], &[entry("p", one), entry("p", other)]);
    assert_eq!(joined.len(), 1);
    assert!(joined[0].starts_with("p: 2 circles have become one"));
    let apart = compare(&[found("p", one), found("p", other)], &[entry("p", &all)]);
    assert_eq!(
        apart,
        [
            "xtask/circles.toml: p: the circle of a.rs, b.rs, c.rs, d.rs has come apart: cargo xtask circles --lower"
        ]
    );
}
