//! Small workspaces for tests.

use cargo_metadata::Metadata;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A package, whose id is its name, or its name and version with an `@` between them.
pub(crate) struct Example {
    pub(crate) id: &'static str,
    pub(crate) version: &'static str,
    /// From a registry, and not of the workspace.
    pub(crate) is_foreign: bool,
    pub(crate) folder: PathBuf,
    /// Ids, and the kind of dependency where it is no normal one.
    pub(crate) on: Vec<(&'static str, Option<&'static str>)>,
}

impl Example {
    pub(crate) fn ours(id: &'static str, on: &[(&'static str, Option<&'static str>)]) -> Self {
        Self {
            is_foreign: false,
            ..Self::foreign(id, "0.1.0", on)
        }
    }

    pub(crate) fn foreign(
        id: &'static str,
        version: &'static str,
        on: &[(&'static str, Option<&'static str>)],
    ) -> Self {
        Self {
            id,
            version,
            is_foreign: true,
            folder: Path::new("/w").join(id),
            on: on.to_vec(),
        }
    }

    fn package(&self) -> Value {
        let name = self.id.split('@').next();
        let target = |kind: &str, path: &str| json!({"name": name, "kind": [kind], "src_path": self.folder.join(path)});
        json!({
            "id": self.id,
            "name": name,
            "version": self.version,
            "license": "MIT/Apache-2.0",
            "authors": ["Ada"],
            "source": self.is_foreign.then_some("registry"),
            "manifest_path": self.folder.join("Cargo.toml"),
            "dependencies": [],
            "features": {},
            "targets": [target("lib", "src/lib.rs"), target("test", "tests/a.rs")],
        })
    }

    fn node(&self) -> Value {
        let dependencies: Vec<_> = self
            .on
            .iter()
            .map(|(id, kind)| json!({"name": id, "pkg": id, "dep_kinds": [{"kind": kind}]}))
            .collect();
        json!({"id": self.id, "dependencies": [], "deps": dependencies})
    }
}

pub(crate) fn metadata(packages: &[Example]) -> Metadata {
    let members = packages.iter().filter(|it| !it.is_foreign).map(|it| it.id);
    let metadata = json!({
        "version": 1,
        "packages": packages.iter().map(Example::package).collect::<Vec<_>>(),
        "workspace_members": members.collect::<Vec<_>>(),
        "resolve": {"nodes": packages.iter().map(Example::node).collect::<Vec<_>>()},
        "workspace_root": "/w",
        "target_directory": "/w/target",
    });
    serde_json::from_value(metadata).expect("well-formed metadata")
}
