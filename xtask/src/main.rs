//! Checks of the repository itself: `cargo xtask layering`, `cargo xtask circles` and `cargo xtask docs`; `cargo xtask
//! licences`, which packages need, `cargo xtask sbom`, which releases need, and `cargo xtask site`, which `make docs`
//! needs; and `cargo xtask promises`, which breaks what the threat model promises.
//!
//! Each check lists every problem it finds, a line each, and exits with 1 if there is one. The rules
//! they hold are data: `layering/rules.rs` and `circles.toml`.

#![forbid(unsafe_code)]

mod circles;
mod documents;
mod layering;
mod licences;
mod metadata;
mod mutants;
mod promises;
mod prose;
mod sbom;
mod site;
mod source;
mod tree;

use anyhow::{Context, Result, anyhow, bail};
use circles::Circles;
use metadata::Workspace;
use prose::Texts;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask circles [--lower]|layering|docs [--sentences [WORD …]|--lower]|promises [WORD …]|mutants WHAT|licences|sbom TIMESTAMP|site PROGRAM DIR
  circles   prints the circles between files of a crate, with what closes them;
            with --lower, takes those that are gone out of xtask/circles.toml
  layering  dependencies, unsafe code and what pure crates may name (invariants 1 to 3),
            that no type of secrets derives its comparison, and that no file joins a circle
  docs      relative links and anchors resolve, ARCHITECTURE.md names every crate,
            tests/promises.toml fits the code and docs/threat-model.md, and no file has more long sentences,
            clauses in the place of nouns and broken tables than xtask/prose.toml says; prints how long sentences
            of documents are. With --sentences, lists the longest; with words behind it, all findings in files
            that have one of them in their path. With --lower, lowers the numbers of xtask/prose.toml
  promises  breaks the code as tests/promises.toml says, and lists the tests that do not notice (as root, hours);
            with words, only where the file or a test has one of them in its name
  mutants   breaks the code by small changes, and lists those that no test notices and tests/mutants.txt does not
            know: `session` and `policy` whole, of the portal's service and the store `sample`, every sixth
            (from the Kth on: `sample K`, 0 to 5)
  licences  prints the licence texts of all crates that the program is linked with
  sbom      prints the bill of materials of the program (CycloneDX); TIMESTAMP as 2026-01-31T12:00:00Z
  site      writes the source of the documentation site into DIR; PROGRAM is culvert";

fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let problems = match (arguments.next().as_deref(), arguments.next()) {
        (Some("circles"), None) => {
            let root = root()?;
            let circles = Circles::find(&root, &Workspace::load()?)?;
            std::io::stdout().write_all(circles.text().as_bytes())?;
            circles.check(&root)?
        }
        (Some("circles"), Some(option)) if option == "--lower" => {
            let root = root()?;
            Circles::find(&root, &Workspace::load()?)?.lower(&root)?;
            Vec::new()
        }
        (Some("layering"), None) => {
            let (root, workspace) = (root()?, Workspace::load()?);
            let mut problems = layering::check(&root, &workspace)?;
            problems.extend(Circles::find(&root, &workspace)?.check(&root)?);
            problems
        }
        (Some("docs"), None) => {
            let (root, texts) = (root()?, Texts::read(&root()?)?);
            std::io::stdout().write_all(texts.means().as_bytes())?;
            let mut problems = documents::check(&root, &Workspace::load()?)?;
            problems.extend(promises::check(&root)?);
            problems.extend(texts.check(&root)?);
            problems
        }
        (Some("docs"), Some(option)) if option == "--sentences" => {
            let words: Vec<String> = arguments.collect();
            let text = Texts::read(&root()?)?.longest(&words);
            std::io::stdout().write_all(text.as_bytes())?;
            Vec::new()
        }
        (Some("docs"), Some(option)) if option == "--lower" => {
            let root = root()?;
            Texts::read(&root)?.lower(&root)?;
            Vec::new()
        }
        (Some("promises"), word) => {
            let words: Vec<String> = word.into_iter().chain(arguments).collect();
            promises::run(&root()?, &words)?
        }
        (Some("mutants"), Some(what)) => {
            let words: Vec<String> = std::iter::once(what).chain(arguments).collect();
            mutants::run(&root()?, &words)?
        }
        (Some("licences"), None) => {
            let texts = root()?.join("packaging/licences");
            let text = licences::write(&metadata::of_target()?, "culvert", &texts)?;
            std::io::stdout().write_all(text.as_bytes())?;
            Vec::new()
        }
        (Some("sbom"), Some(timestamp)) => {
            let lock = std::fs::read_to_string(root()?.join("Cargo.lock"))?;
            let text = sbom::write(&metadata::of_target()?, "culvert", &lock, &timestamp)?;
            std::io::stdout().write_all(text.as_bytes())?;
            Vec::new()
        }
        (Some("site"), Some(program)) => {
            let [out] = arguments
                .collect::<Vec<_>>()
                .try_into()
                .map_err(|_| anyhow!("{USAGE}"))?;
            site::stage(&root()?, Path::new(&program), Path::new(&out))?;
            Vec::new()
        }
        _ => bail!("{USAGE}"),
    };
    for problem in &problems {
        eprintln!("{problem}");
    }
    Ok(match problems.len() {
        0 => ExitCode::SUCCESS,
        count => {
            eprintln!("{count} problem(s)");
            ExitCode::FAILURE
        }
    })
}

/// The root folder of the repository in which cargo runs this. The one it was built in may be another, if two share
/// a target directory.
fn root() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").context("start it by cargo xtask")?;
    let root = Path::new(&manifest).parent();
    Ok(root.context("xtask lies in the root")?.to_owned())
}
