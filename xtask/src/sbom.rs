//! The software bill of materials of the program, in the JSON form of CycloneDX 1.6. It lists every crate that the
//! program is linked with, and the C libraries that some of them hold.

use crate::metadata::Linked;
use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, Package, PackageId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A C library whose source a crate holds. Crates are named after it, and scanners know it by its own name alone.
struct Bundled {
    in_crate: &'static str,
    name: &'static str,
    /// The file with its version, below the crate's folder, and the words before it.
    header: &'static str,
    define: &'static str,
    licence: &'static str,
    purl: &'static str,
    /// The name in the vulnerability database of NIST, where it has one.
    cpe: Option<&'static str>,
}

const BUNDLED: [Bundled; 2] = [
    Bundled {
        in_crate: "aws-lc-sys",
        name: "AWS-LC",
        header: "aws-lc/include/openssl/base.h",
        define: "#define AWSLC_VERSION_NUMBER_STRING ",
        licence: "ISC AND (Apache-2.0 OR ISC) AND OpenSSL",
        purl: "pkg:github/aws/aws-lc@v",
        cpe: None,
    },
    Bundled {
        in_crate: "libsqlite3-sys",
        name: "SQLite",
        header: "sqlite3/sqlite3.h",
        define: "#define SQLITE_VERSION ",
        licence: "blessing",
        purl: "pkg:generic/sqlite@",
        cpe: Some("cpe:2.3:a:sqlite:sqlite:"),
    },
];

/// Writes it. `metadata` is the output of `cargo metadata`, `program` the package that is shipped, `lock` the text of
/// Cargo.lock, `timestamp` the time of the commit in the form of RFC 3339.
///
/// # Errors
/// If a crate of a registry has no checksum in `lock`, or the version of a C library is not found.
pub(crate) fn write(
    metadata: &Metadata,
    program: &str,
    lock: &str,
    timestamp: &str,
) -> Result<String> {
    let linked = Linked::of(metadata, program);
    let linked = linked.with_context(|| format!("no package {program}"))?;
    let checksums = checksums(lock)?;
    let mut components = Vec::new();
    let mut root = None;
    for package in linked.packages.values() {
        let mut component = component(package, &checksums)?;
        if package.name == program {
            component["type"] = json!("application");
            root = Some(component);
        } else {
            components.push(component);
        }
    }
    let references = |ids: &[&PackageId]| -> Vec<String> {
        ids.iter()
            .map(|id| reference(linked.packages[id]))
            .collect()
    };
    let dependencies: Vec<_> = linked
        .dependencies
        .iter()
        .map(|(id, on)| json!({"ref": reference(linked.packages[id]), "dependsOn": references(on)}))
        .collect();
    let bill = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": timestamp, "component": root.context("the program is missing")?},
        "components": components,
        "dependencies": dependencies,
    });
    Ok(format!("{bill:#}\n"))
}

/// By name and version, the SHA-256 of the file that the registry gave.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = lock.parse().context("Cargo.lock is not TOML")?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let entries = packages.context("Cargo.lock names no package")?.iter();
    Ok(entries
        .filter_map(|one| {
            let key = (text(one, "name")?, text(one, "version")?);
            Some((key, text(one, "checksum")?))
        })
        .collect())
}

/// The name of a package within the bill.
fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

fn component(package: &Package, checksums: &BTreeMap<(String, String), String>) -> Result<Value> {
    let (name, version) = (package.name.to_string(), package.version.to_string());
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": name,
        "version": version,
    });
    if let Some(licence) = &package.license {
        // Older crates write a slash for OR, which SPDX does not know.
        let expression = licence.replace('/', " OR ");
        component["licenses"] = json!([{"expression": expression}]);
    }
    // A package without a source is ours, and in no registry.
    if package.source.is_some() {
        let checksum = checksums.get(&(name.clone(), version));
        let checksum = checksum.with_context(|| format!("Cargo.lock has no checksum of {name}"))?;
        component["purl"] = json!(reference(package));
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(bundled) = BUNDLED.iter().find(|one| one.in_crate == name) {
        component["components"] = json!([bundled.component(package.manifest_path.as_std_path())?]);
    }
    Ok(component)
}

impl Bundled {
    fn component(&self, manifest: &Path) -> Result<Value> {
        let folder = manifest.parent().unwrap_or(Path::new(""));
        let header = folder.join(self.header);
        let text = fs::read_to_string(&header)
            .with_context(|| format!("{}: run cargo fetch", header.display()))?;
        let version = text.lines().find_map(|line| line.strip_prefix(self.define));
        let version = version.unwrap_or_default().trim().trim_matches('"');
        ensure!(
            version.starts_with(|c: char| c.is_ascii_digit()),
            "{} does not say the version of {}: see {:?}",
            header.display(),
            self.name,
            self.define
        );
        let mut component = json!({
            "type": "library",
            "bom-ref": format!("{}{version}", self.purl),
            "name": self.name,
            "version": version,
            "licenses": [{"expression": self.licence}],
            "purl": format!("{}{version}", self.purl),
        });
        if let Some(cpe) = self.cpe {
            component["cpe"] = json!(format!("{cpe}{version}:*:*:*:*:*:*:*"));
        }
        Ok(component)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::example::{Example, metadata};

    const LOCK: &str = r#"
        [[package]]
        name = "a"
        version = "1.0.0"
        checksum = "00ff"
        [[package]]
        name = "libsqlite3-sys"
        version = "0.1.0"
        checksum = "11ff"
    "#;

    /// A program that is linked with `ours`, by it with `a`, and with SQLite, and that is built with `c`.
    fn program(folder: &Path) -> Metadata {
        let on = [
            ("ours", None),
            ("libsqlite3-sys", None),
            ("c", Some("build")),
        ];
        let sqlite = Example {
            folder: folder.to_owned(),
            ..Example::foreign("libsqlite3-sys", "0.1.0", &[])
        };
        metadata(&[
            Example::ours("program", &on),
            Example::ours("ours", &[("a", None)]),
            Example::foreign("a", "1.0.0", &[]),
            Example::foreign("c", "1.0.0", &[]),
            sqlite,
        ])
    }

    fn scratch(name: &str, header: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("culvert-sbom-{}-{name}", std::process::id()));
        fs::create_dir_all(dir.join("sqlite3")).expect("a directory");
        fs::write(dir.join("sqlite3/sqlite3.h"), header).expect("a header");
        dir
    }

    fn bill(name: &str, header: &str, lock: &str) -> Result<Value> {
        let dir = scratch(name, header);
        let text = write(&program(&dir), "program", lock, "2026-01-31T12:00:00Z");
        fs::remove_dir_all(dir).expect("gone");
        Ok(serde_json::from_str(&text?)?)
    }

    const HEADER: &str = "#define SQLITE_VERSION        \"3.51.3\"\n";

    #[test]
    fn every_linked_crate_is_named_with_its_checksum_and_what_it_depends_on() {
        let bill = bill("all", HEADER, LOCK).expect("a bill");
        assert_eq!(bill["metadata"]["component"]["name"], "program");
        let components = bill["components"].as_array().expect("components");
        let names: Vec<_> = components.iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["a", "libsqlite3-sys", "ours"]);
        assert_eq!(components[0]["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(
            components[0]["hashes"],
            json!([{"alg": "SHA-256", "content": "00ff"}])
        );
        assert_eq!(
            components[0]["licenses"],
            json!([{"expression": "MIT OR Apache-2.0"}])
        );
        assert_eq!(components[2]["purl"], Value::Null, "ours is in no registry");
        let edges = bill["dependencies"].as_array().expect("edges");
        let edge = json!({"ref": "pkg:cargo/ours@0.1.0", "dependsOn": ["pkg:cargo/a@1.0.0"]});
        assert!(edges.contains(&edge), "{edges:?}");
    }

    #[test]
    fn a_c_library_within_a_crate_is_named_with_its_own_version() {
        let bill = bill("c", HEADER, LOCK).expect("a bill");
        let sqlite = &bill["components"][1]["components"][0];
        assert_eq!(sqlite["version"], "3.51.3");
        assert_eq!(
            sqlite["cpe"],
            "cpe:2.3:a:sqlite:sqlite:3.51.3:*:*:*:*:*:*:*"
        );
    }

    #[test]
    fn a_crate_without_a_checksum_and_a_library_without_a_version_are_errors() {
        let error = bill("lock", HEADER, "[[package]]\nname = \"b\"\nversion = \"1\"");
        let error = error.expect_err("a has no checksum").to_string();
        assert_eq!(error, "Cargo.lock has no checksum of a");
        let error = bill("header", "#define SQLITE_VERSION_NUMBER 3", LOCK);
        let error = error.expect_err("no version").to_string();
        assert!(
            error.contains("does not say the version of SQLite"),
            "{error}"
        );
    }
}
