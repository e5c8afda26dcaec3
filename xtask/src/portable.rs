//! The pure crates on other platforms: they must compile for each of [`TARGETS`], although the product runs on Linux
//! alone. Only a compiler tells that of everything they depend on. `layering` reads their own source.

use crate::layering::PURE;
use crate::metadata;
use anyhow::{Context, Result};
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Platforms that docs/porting.md is about.
const TARGETS: [&str; 2] = ["x86_64-pc-windows-gnu", "aarch64-apple-darwin"];

/// Packages with a library in C, and the condition with which their Rust part compiles without it. A check links nothing,
/// and no compiler of C for these platforms is needed. The bindings named so are those for any platform. Packages above ask for
/// the folder of its headers, and use none of them.
const IN_C: [(&str, &str); 1] = [("aws-lc-sys", "universal")];

/// Compiles the pure crates for each target whose standard library is installed, and says which are not.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let libraries = metadata::c_libraries()?;
    let mut problems = Vec::new();
    for target in TARGETS {
        if !is_installed(target)? {
            say(&format!(
                "portable: NOT checked for {target}: its standard library is missing (rustup target add {target})"
            ))?;
            continue;
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(arguments(target, &libraries))
            .current_dir(root)
            // Flags of this machine's platform mean nothing on another.
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .status()
            .context("cargo check")?;
        match status.success() {
            true => say(&format!("portable: {} pure crates compile for {target}", PURE.len()))?,
            false => problems.push(format!(
                "the pure crates do not compile for {target}, see above: move code for one system behind a trait \
                 (docs/porting.md)"
            )),
        }
    }
    Ok(problems)
}

fn say(line: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

/// Arguments of cargo. `libraries` has packages by name, with the names of the libraries in C that they link.
fn arguments(target: &str, libraries: &[(String, String)]) -> Vec<String> {
    let mut arguments: Vec<String> = ["check", "--quiet", "--locked", "--lib"]
        .map(str::to_owned)
        .into();
    arguments.extend(["--target".to_owned(), target.to_owned()]);
    // Beside the builds of the product, which have other flags.
    arguments.extend(["--target-dir".to_owned(), "target/portable".to_owned()]);
    for (package, library) in libraries {
        if let Some((_, condition)) = IN_C.iter().find(|(name, _)| name == package) {
            let library = format!("target.{target}.{library}");
            let settings = [
                format!("{library}.rustc-cfg=[\"{condition}\"]"),
                format!("{library}.include=\"none\""),
            ];
            arguments.extend(settings.map(|it| ["--config".to_owned(), it]).concat());
        }
    }
    for name in PURE {
        arguments.extend(["--package".to_owned(), name.to_owned()]);
    }
    arguments
}

fn is_installed(target: &str) -> Result<bool> {
    let asked = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .output()
        .context("rustc --print target-libdir")?;
    let folder = String::from_utf8(asked.stdout)?;
    Ok(asked.status.success() && Path::new(folder.trim()).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_in_c_is_replaced_by_its_condition_and_others_are_not() {
        let libraries = [("aws-lc-sys", "aws_lc_9"), ("ring", "ring_core")];
        let libraries = libraries.map(|(package, library)| (package.into(), library.into()));
        let arguments = arguments("x86_64-pc-windows-gnu", &libraries);
        let is_setting = |it: &&String| it.starts_with("target.");
        let settings: Vec<_> = arguments.iter().filter(is_setting).collect();
        let only = [
            "target.x86_64-pc-windows-gnu.aws_lc_9.rustc-cfg=[\"universal\"]",
            "target.x86_64-pc-windows-gnu.aws_lc_9.include=\"none\"",
        ];
        assert_eq!(settings, only);
        let packages = arguments.iter().filter(|it| *it == "--package").count();
        assert_eq!(packages, PURE.len());
    }

    #[test]
    fn a_platform_that_nobody_has_is_not_installed() {
        assert!(!is_installed("no-such-platform").expect("rustc runs"));
    }
}
