//! The workspace and its dependencies, by `cargo metadata`.

use anyhow::{Context, Result};
use cargo_metadata::{
    DependencyKind, Metadata, MetadataCommand, NodeDep, Package, PackageId, TargetKind,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[cfg(test)]
pub(crate) mod example;

/// The platform of a release.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The packages of the workspace and everything they depend on.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) members: Vec<Member>,
    /// By package name, what it depends on at run time, on any platform. Older versions of a package have a name with
    /// the version: `rand_core 0.6.4`.
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
        Self::of(&ask(&[])?).context("cargo metadata resolved nothing")
    }

    fn of(metadata: &Metadata) -> Option<Self> {
        let names = names(&metadata.packages);
        let packages = metadata.workspace_packages().into_iter();
        let mut members: Vec<Member> = packages.map(Member::of).collect();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        let mut dependencies: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for node in &metadata.resolve.as_ref()?.nodes {
            let normal = node.deps.iter().filter(|it| is_normal(it));
            let entry = dependencies.entry(names.get(&node.id)?.clone());
            let on: Option<Vec<_>> = normal.map(|it| names.get(&it.pkg).cloned()).collect();
            entry.or_default().extend(on?);
        }
        Some(Self {
            members,
            dependencies,
        })
    }

    /// The direct dependencies of `name`.
    pub(crate) fn dependencies_of(&self, name: &str) -> &[String] {
        self.dependencies.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_member(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.name == name)
    }
}

/// The newest version of a package has the name alone, others with their version.
fn names(packages: &[Package]) -> BTreeMap<&PackageId, String> {
    let is_older = |package: &Package| {
        let mut others = packages.iter();
        others.any(|other| other.name == package.name && other.version > package.version)
    };
    let name = |package: &Package| match is_older(package) {
        true => format!("{} {}", package.name, package.version),
        false => package.name.to_string(),
    };
    packages.iter().map(|it| (&it.id, name(it))).collect()
}

impl Member {
    fn of(package: &Package) -> Self {
        let manifest = package.manifest_path.as_std_path();
        let is_product = |kind: &TargetKind| matches!(kind, TargetKind::Lib | TargetKind::Bin);
        let targets = package.targets.iter();
        let products = targets.filter(|target| target.kind.iter().any(is_product));
        Self {
            name: package.name.to_string(),
            folder: manifest.parent().unwrap_or(manifest).to_owned(),
            roots: products.map(|it| it.src_path.clone().into()).collect(),
        }
    }
}

/// The packages that a program is linked with, itself included, in the order of their ids.
pub(crate) struct Linked<'a> {
    pub(crate) packages: BTreeMap<&'a PackageId, &'a Package>,
    /// The direct dependencies of each.
    pub(crate) dependencies: BTreeMap<&'a PackageId, Vec<&'a PackageId>>,
}

impl<'a> Linked<'a> {
    /// `None` where there is no such program.
    pub(crate) fn of(metadata: &'a Metadata, program: &str) -> Option<Self> {
        let all = metadata.packages.iter();
        let all: BTreeMap<&PackageId, &Package> = all.map(|it| (&it.id, it)).collect();
        let nodes = metadata.resolve.as_ref()?.nodes.iter();
        let nodes: BTreeMap<&PackageId, &[NodeDep]> =
            nodes.map(|node| (&node.id, node.deps.as_slice())).collect();
        let mut open = vec![&all.values().find(|package| package.name == program)?.id];
        let mut linked = Self {
            packages: BTreeMap::new(),
            dependencies: BTreeMap::new(),
        };
        while let Some(id) = open.pop() {
            if linked.packages.insert(id, *all.get(id)?).is_some() {
                continue;
            }
            let direct = nodes.get(id)?.iter().filter(|one| is_normal(one));
            let mut direct: Vec<&PackageId> = direct.map(|one| &one.pkg).collect();
            direct.sort_unstable();
            direct.dedup();
            open.extend(&direct);
            linked.dependencies.insert(id, direct);
        }
        Some(linked)
    }
}

/// The packages of the workspace with this manifest, resolved for a platform that the program is packaged for.
pub(crate) fn of_target(target: &str, manifest: &Path) -> Result<Metadata> {
    let manifest = manifest.to_string_lossy();
    ask(&["--filter-platform", target, "--manifest-path", &manifest])
}

/// Packages that link a library in another language, with its name as cargo knows it.
pub(crate) fn c_libraries() -> Result<Vec<(String, String)>> {
    let packages = ask(&[])?.packages.into_iter();
    let linked = packages.filter_map(|it| Some((it.name.to_string(), it.links?)));
    Ok(linked.collect())
}

fn ask(further: &[&str]) -> Result<Metadata> {
    let options = ["--locked"].iter().chain(further);
    let options: Vec<String> = options.map(|it| (*it).to_owned()).collect();
    let metadata = MetadataCommand::new().other_options(options).exec();
    metadata.context("cargo metadata")
}

/// Neither for tests nor for build scripts, which run elsewhere.
fn is_normal(dependency: &NodeDep) -> bool {
    let mut kinds = dependency.dep_kinds.iter();
    kinds.any(|it| it.kind == DependencyKind::Normal)
}

#[cfg(test)]
mod tests {
    use super::example::{Example, metadata};
    use super::*;

    #[test]
    fn dependencies_for_tests_and_build_scripts_do_not_count() {
        let on = [("b", None), ("c", Some("dev")), ("d", Some("build"))];
        let metadata = metadata(&[
            Example::ours("a", &on),
            Example::ours("b", &[]),
            Example::foreign("c", "1.0.0", &[]),
            Example::foreign("d", "1.0.0", &[]),
        ]);
        let workspace = Workspace::of(&metadata).expect("a workspace");
        assert_eq!(workspace.dependencies_of("a"), ["b"]);
        assert!(workspace.dependencies_of("z").is_empty());
        assert!(workspace.is_member("a") && !workspace.is_member("c"));
        assert_eq!(workspace.members[0].folder, PathBuf::from("/w/a"));
        let root = PathBuf::from("/w/a/src/lib.rs");
        assert_eq!(workspace.members[0].roots, [root], "tests are no product");
    }

    #[test]
    fn an_older_version_is_a_package_of_its_own() {
        let metadata = metadata(&[
            Example::ours("a", &[("c", None), ("c@0.9.0", None)]),
            Example::foreign("c@0.9.0", "0.9.0", &[]),
            Example::foreign("c", "0.10.0", &[]),
        ]);
        let workspace = Workspace::of(&metadata).expect("a workspace");
        assert_eq!(workspace.dependencies_of("a"), ["c", "c 0.9.0"]);
    }
}
