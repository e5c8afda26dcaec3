//! The layers of the workspace. The rules are about dependencies between crates, unsafe code and the
//! paths and platforms that pure crates may name. They are also about the types of instants, the traits that types
//! of secrets may derive, and the share of tests in a crate.

mod instants;
mod platforms;
mod rules;
mod secrets;
mod tested;

use crate::metadata::{Member, Workspace};
use crate::source;
use crate::source::mentions::{Mentions, Scope};
use anyhow::Result;
pub(crate) use rules::PURE;
use rules::{
    CONFINED, EDGES, HOLDERS, IMPURE, IMPURE_NAMES, IMPURE_PATHS, PERMITTED, PURE_PATHS, UNSAFE,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Lists what breaks the rules.
pub(crate) fn check(root: &Path, workspace: &Workspace) -> Result<Vec<String>> {
    let mut problems = edges(workspace);
    problems.extend(holders(workspace));
    problems.extend(purity(workspace));
    for member in &workspace.members {
        for path in &member.roots {
            let shown = shown(root, path);
            problems.extend(unsafe_code(&member.name, &shown, &source::parse(path)?));
        }
        problems.extend(lints(root, member)?);
        problems.extend(tested::shortage(member)?);
        let is_product = member.folder.starts_with(root.join("crates"));
        let is_pure = PURE.contains(&member.name.as_str());
        if !is_product && !is_pure {
            continue;
        }
        if is_pure {
            let manifest = member.folder.join("Cargo.toml");
            let text = fs::read_to_string(&manifest)?;
            problems.extend(platforms::dependencies(&shown(root, &manifest), &text)?);
        }
        for path in source::files(&member.folder.join("src"), "rs")? {
            let (shown, file) = (shown(root, &path), source::parse(&path)?);
            if is_product {
                problems.extend(secrets::derived_comparisons(&shown, &file));
            }
            if is_pure {
                problems.extend(impure_names(&shown, &file));
                problems.extend(platforms::conditions(&shown, &fs::read_to_string(&path)?)?);
                problems.extend(instants::bare(&shown, &file));
            }
        }
    }
    Ok(problems)
}

/// Edges between crates of the workspace that the table does not have.
fn edges(workspace: &Workspace) -> Vec<String> {
    let mut problems = Vec::new();
    for member in &workspace.members {
        let name = member.name.as_str();
        let Some((_, allowed)) = EDGES.iter().find(|(from, _)| *from == name) else {
            problems.push(format!(
                "{name} is not in the table of layers (xtask/src/layering/rules.rs)"
            ));
            continue;
        };
        for dependency in workspace.dependencies_of(name) {
            if workspace.is_member(dependency) && !allowed.contains(&dependency.as_str()) {
                problems.push(format!("{name} may not depend on {dependency}"));
            }
        }
    }
    problems
}

/// Direct dependencies on the operating system by crates that have no business with it.
fn holders(workspace: &Workspace) -> Vec<String> {
    let mut problems = Vec::new();
    for (confined, holders) in HOLDERS {
        for member in &workspace.members {
            let name = member.name.as_str();
            let depends = workspace
                .dependencies_of(name)
                .iter()
                .any(|it| it == confined);
            if depends && !holders.contains(&name) {
                problems.push(format!(
                    "{name} may not depend on {confined}, only {holders:?} may"
                ));
            }
        }
    }
    problems
}

/// Ways from a pure crate to an impure one, and permissions that nobody needs.
fn purity(workspace: &Workspace) -> Vec<String> {
    let mut problems = Vec::new();
    for pure in PURE {
        if workspace.is_member(pure) {
            let mut seen = BTreeSet::new();
            walk(workspace, &mut vec![pure], &mut seen, &mut problems);
        }
    }
    for (from, to, _) in PERMITTED {
        if !workspace.dependencies_of(from).iter().any(|it| it == to) {
            problems.push(format!(
                "{from} → {to} is permitted (rules.rs), but there is no such edge"
            ));
        }
    }
    problems
}

/// Follows every edge but the permitted ones from the end of `way`.
fn walk<'w>(
    workspace: &'w Workspace,
    way: &mut Vec<&'w str>,
    seen: &mut BTreeSet<&'w str>,
    problems: &mut Vec<String>,
) {
    let Some(&from) = way.last() else { return };
    for to in workspace.dependencies_of(from) {
        let is_permitted = PERMITTED
            .iter()
            .any(|(permitted, target, _)| (*permitted, *target) == (from, to));
        if is_permitted || !seen.insert(to) {
            continue;
        }
        way.push(to);
        // An older version of a crate is as impure as the newest.
        let bare = to.split(' ').next().unwrap_or(to);
        if IMPURE.contains(&bare) {
            problems.push(format!(
                "a pure crate reaches an impure one: {}",
                way.join(" → ")
            ));
        } else {
            walk(workspace, way, seen, problems);
        }
        way.pop();
    }
}

/// A root that neither forbids unsafe code nor may hold it.
fn unsafe_code(name: &str, shown: &str, file: &syn::File) -> Option<String> {
    let has = |lint_level: &str| {
        file.attrs.iter().any(|attribute| match &attribute.meta {
            syn::Meta::List(list) => {
                list.path.is_ident(lint_level) && list.tokens.to_string() == "unsafe_code"
            }
            _ => false,
        })
    };
    let forbids = has("forbid") || CONFINED.contains(&name) && has("deny");
    match (UNSAFE.contains(&name), forbids) {
        (true, true) => Some(format!(
            "{shown} forbids unsafe code: take {name} off the list in xtask/src/layering/rules.rs"
        )),
        (false, false) => Some(format!("{shown} must begin with #![forbid(unsafe_code)]")),
        _ => None,
    }
}

/// A crate that does not take part in the workspace's lints.
fn lints(root: &Path, member: &Member) -> Result<Option<String>> {
    let manifest = member.folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    let follows = text.contains("[lints]\nworkspace = true");
    Ok((!follows).then(|| {
        let shown = shown(root, &manifest);
        format!("{shown} must have [lints] workspace = true")
    }))
}

/// Paths in a source file of a pure crate that it may not name.
fn impure_names(shown: &str, file: &syn::File) -> Vec<String> {
    let mentions = Mentions::of(&file.items, Scope::File);
    let imports = mentions.imports.iter().map(|it| (it.line, &it.path));
    let paths = mentions.paths.iter().map(|it| (it.line, &it.path));
    let mut named: Vec<(usize, String)> = imports
        .chain(paths)
        .map(|(line, path)| (line, path.join("::").replace("core::", "std::")))
        .collect();
    named.sort_unstable();
    named.retain(|(_, path)| is_impure(path));
    let problem = |(line, path)| format!("{shown}:{line}: a pure crate may not use {path}");
    named.into_iter().map(problem).collect()
}

fn is_impure(path: &str) -> bool {
    let starts_impure = |impure: &&str| {
        let rest = path.strip_prefix(*impure);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let names_impure = path.split("::").any(|name| IMPURE_NAMES.contains(&name));
    let is_data = PURE_PATHS.contains(&path);
    names_impure || !is_data && IMPURE_PATHS.iter().any(starts_impure)
}

fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string()
}

#[cfg(test)]
mod tests;
