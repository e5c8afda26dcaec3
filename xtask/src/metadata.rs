//! What `cargo metadata` says of the workspace, as far as the checks need it.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// What packages are made for.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The packages of the workspace and everything they depend on.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) members: Vec<Member>,
    /// By package name, what it depends on at run time, on any platform. Two versions of a package
    /// are one here.
    pub(crate) dependencies: BTreeMap<String, Vec<String>>,
}

/// A package of the workspace.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// The root files of its library and programs.
    pub(crate) roots: Vec<PathBuf>,
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn load() -> Result<Self> {
        Self::parse(&ask(&[])?).context("unexpected cargo metadata")
    }

    /// `None` where the JSON is not of the form that cargo documents.
    fn parse(metadata: &Value) -> Option<Self> {
        let packages = metadata["packages"].as_array()?;
        let names: BTreeMap<&str, &str> = packages
            .iter()
            .map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
            .collect::<Option<_>>()?;
        let labels = labels(packages);
        let mut workspace = Self::default();
        let member_ids = metadata["workspace_members"].as_array()?;
        for package in packages {
            if member_ids.contains(&package["id"]) {
                workspace.members.push(Member::parse(package)?);
            }
        }
        workspace.members.sort_by(|a, b| a.name.cmp(&b.name));
        for node in metadata["resolve"]["nodes"].as_array()? {
            let id = node["id"].as_str()?;
            let name = labels.get(id).map_or(*names.get(id)?, String::as_str);
            let entry = workspace.dependencies.entry(name.to_owned()).or_default();
            for dependency in node["deps"].as_array()? {
                if is_normal(dependency) {
                    let id = dependency["pkg"].as_str()?;
                    let name = labels.get(id).map_or(*names.get(id)?, String::as_str);
                    entry.push(name.to_owned());
                }
            }
        }
        Some(workspace)
    }

    /// What `name` depends on directly.
    pub(crate) fn dependencies_of(&self, name: &str) -> &[String] {
        self.dependencies.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_member(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.name == name)
    }
}

/// What older versions of crates are called, by their ids: `rand_core 0.6.4`. The newest has the name.
fn labels(packages: &[Value]) -> BTreeMap<&str, String> {
    let parts = |package: &Value| -> Vec<u64> {
        let version = package["version"].as_str().unwrap_or_default();
        version
            .split('.')
            .map_while(|part| part.parse().ok())
            .collect()
    };
    let is_older = |package: &&Value| {
        let mut others = packages.iter();
        others.any(|other| other["name"] == package["name"] && parts(other) > parts(package))
    };
    let label = |package: &Value| {
        let (name, version) = (package["name"].as_str()?, package["version"].as_str()?);
        Some(format!("{name} {version}"))
    };
    let older = packages.iter().filter(is_older);
    older
        .filter_map(|package| Some((package["id"].as_str()?, label(package)?)))
        .collect()
}

impl Member {
    fn parse(package: &Value) -> Option<Self> {
        let manifest = PathBuf::from(package["manifest_path"].as_str()?);
        let is_product = |target: &&Value| {
            let kinds = target["kind"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "lib" || kind == "bin"))
        };
        let targets = package["targets"].as_array()?.iter().filter(is_product);
        Some(Self {
            name: package["name"].as_str()?.to_owned(),
            folder: manifest.parent()?.to_owned(),
            roots: targets
                .map(|target| target["src_path"].as_str().map(PathBuf::from))
                .collect::<Option<_>>()?,
        })
    }
}

/// The packages that a program is linked with, itself included, in the order of their ids.
pub(crate) struct Linked<'a> {
    /// As cargo describes each.
    pub(crate) packages: BTreeMap<&'a str, &'a Value>,
    /// The ids of the packages that each depends on directly.
    pub(crate) dependencies: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Linked<'a> {
    /// `None` where the JSON is not of the form that cargo documents, or has no such program.
    pub(crate) fn of(metadata: &'a Value, program: &str) -> Option<Self> {
        let all = metadata["packages"].as_array()?;
        let all: BTreeMap<&str, &Value> = all
            .iter()
            .map(|package| Some((package["id"].as_str()?, package)))
            .collect::<Option<_>>()?;
        let nodes = metadata["resolve"]["nodes"].as_array()?;
        let nodes: BTreeMap<&str, &Vec<Value>> = nodes
            .iter()
            .map(|node| Some((node["id"].as_str()?, node["deps"].as_array()?)))
            .collect::<Option<_>>()?;
        let is_program = |package: &&&Value| package["name"] == program;
        let mut open = vec![all.values().find(is_program)?["id"].as_str()?];
        let mut linked = Self {
            packages: BTreeMap::new(),
            dependencies: BTreeMap::new(),
        };
        while let Some(id) = open.pop() {
            if linked.packages.insert(id, *all.get(id)?).is_some() {
                continue;
            }
            let direct = nodes.get(id)?.iter().filter(|one| is_normal(one));
            let mut direct: Vec<&str> = direct
                .map(|one| one["pkg"].as_str())
                .collect::<Option<_>>()?;
            direct.sort_unstable();
            direct.dedup();
            open.extend(&direct);
            linked.dependencies.insert(id, direct);
        }
        Some(linked)
    }
}

/// What cargo says of packages for the platform that the program is packaged for.
pub(crate) fn of_target() -> Result<Value> {
    ask(&["--filter-platform", TARGET])
}

fn ask(further: &[&str]) -> Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(further)
        .output()
        .context("cargo cannot be started")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Neither for tests nor for build scripts, which run elsewhere.
pub(crate) fn is_normal(dependency: &Value) -> bool {
    let kinds = dependency["dep_kinds"].as_array();
    kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dependencies_for_tests_and_build_scripts_do_not_count() {
        let dependency = |id: &str, kind: Value| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let package = |name: &str| {
            json!({
                "id": format!("{name}-id"),
                "name": name,
                "manifest_path": format!("/w/{name}/Cargo.toml"),
                "targets": [
                    {"kind": ["lib"], "src_path": format!("/w/{name}/src/lib.rs")},
                    {"kind": ["test"], "src_path": format!("/w/{name}/tests/a.rs")},
                ],
            })
        };
        let metadata = json!({
            "packages": [package("a"), package("b"), package("c"), package("d")],
            "workspace_members": ["a-id"],
            "resolve": {"nodes": [{
                "id": "a-id",
                "deps": [
                    dependency("b-id", Value::Null),
                    dependency("c-id", json!("dev")),
                    dependency("d-id", json!("build")),
                ],
            }]},
        });
        let workspace = Workspace::parse(&metadata).expect("well-formed metadata");
        assert_eq!(workspace.dependencies_of("a"), ["b"]);
        assert!(workspace.dependencies_of("z").is_empty());
        assert!(workspace.is_member("a") && !workspace.is_member("b"));
        assert_eq!(workspace.members[0].folder, PathBuf::from("/w/a"));
        assert_eq!(
            workspace.members[0].roots,
            [PathBuf::from("/w/a/src/lib.rs")]
        );
    }

    #[test]
    fn other_json_is_refused() {
        assert!(Workspace::parse(&json!({"packages": []})).is_none());
    }
}
