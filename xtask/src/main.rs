//! Checks of the repository itself: `cargo xtask layering`, `portable`, `circles` and `docs`. Packages
//! need `cargo xtask licences`, releases `cargo xtask sbom`, and `make docs` needs `cargo xtask site`.
//! `cargo xtask promises` breaks the promises of the threat model.
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
mod portable;
mod promises;
mod prose;
mod sbom;
mod site;
mod source;
mod tree;
mod vocabulary;

use anyhow::{Context, Result};
use circles::Circles;
use clap::{Args, Parser};
use metadata::Workspace;
use prose::Texts;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Checks and texts of the repository. Starts as `cargo xtask`.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", arg_required_else_help = true)]
enum Command {
    /// Print the circles between files of a crate, with the lines that close them.
    Circles {
        /// Take circles that are gone out of xtask/circles.toml instead.
        #[arg(long)]
        lower: bool,
    },
    /// Check dependencies, unsafe code and the names in pure crates (invariants 1 to 3), that no type of secrets derives
    /// its comparison, and that no file joins a circle.
    ///
    /// Instants in public functions of pure crates must have a type too, and no pure crate may ask for the operating
    /// system.
    Layering,
    /// Check that links and anchors resolve, that ARCHITECTURE.md names every crate, that tests/promises.toml fits the
    /// code and docs/threat-model.md, that no given-up name has come back, and that no file has more findings than
    /// xtask/prose.toml says.
    ///
    /// Findings are sentences above 35 words, sentences that begin with a clause in the place of a noun, and rows of
    /// tables below a blank line. It prints the mean length of sentences of the documents as well.
    Docs {
        /// Lower the numbers of xtask/prose.toml instead.
        #[arg(long)]
        lower: bool,
        /// List the longest sentences instead; with words, all findings in files that have one of them in their path.
        #[arg(long, value_name = "WORD", num_args = 0.., conflicts_with = "lower")]
        sentences: Option<Vec<String>>,
    },
    /// Compile the pure crates for Windows and macOS, where the standard libraries of these platforms are installed.
    Portable,
    /// Print the names of the pure crates, a line each.
    Pure,
    /// Break the code as tests/promises.toml says, and list the tests that do not notice (as root, hours).
    Promises {
        /// Only breakages whose file or test has one of these words in its name.
        words: Vec<String>,
    },
    /// Break the code by small changes, and list those that no test notices and tests/mutants.txt does not know.
    Mutants {
        /// `session` or `policy` whole; or `sample`, every sixth of the portal's service and the store, and which (0 to 5).
        #[arg(required = true)]
        what: Vec<String>,
    },
    /// Print the licence texts of all crates that the program is linked with.
    Licences {
        /// The platform that it is built for.
        #[arg(long, default_value = metadata::TARGET)]
        target: String,
        #[command(flatten)]
        of: Program,
    },
    /// Print the bill of materials of the program (CycloneDX).
    Sbom {
        /// Its date, such as 2026-01-31T12:00:00Z.
        timestamp: String,
        #[command(flatten)]
        of: Program,
    },
    /// Write the source of the documentation site.
    Site {
        /// The program `culvert`, which is asked for the reference of its commands.
        program: PathBuf,
        /// The directory to write into.
        out: PathBuf,
    },
}

fn main() -> Result<ExitCode> {
    let problems = run(Command::parse(), &root()?)?;
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

/// A program that is shipped.
#[derive(Debug, Args)]
struct Program {
    /// The program, by its package.
    #[arg(long, default_value = "culvert")]
    program: String,
    /// The manifest of its workspace.
    #[arg(long, default_value = "Cargo.toml")]
    manifest: PathBuf,
}

/// Returns the problems that a check has found.
fn run(command: Command, root: &Path) -> Result<Vec<String>> {
    match command {
        Command::Circles { lower } => {
            let circles = Circles::find(root, &Workspace::load()?)?;
            if lower {
                circles.lower(root)?;
                return Ok(Vec::new());
            }
            print(&circles.text())?;
            circles.check(root)
        }
        Command::Layering => {
            let workspace = Workspace::load()?;
            let mut problems = layering::check(root, &workspace)?;
            problems.extend(Circles::find(root, &workspace)?.check(root)?);
            Ok(problems)
        }
        Command::Docs { lower, sentences } => docs(root, lower, sentences.as_deref()),
        Command::Portable => portable::check(root),
        Command::Pure => print(&layering::PURE.map(|name| format!("{name}\n")).concat()),
        Command::Promises { words } => promises::run(root, &words),
        Command::Mutants { what } => mutants::run(root, &what),
        Command::Licences { target, of } => {
            let texts = root.join("packaging/licences");
            let metadata = metadata::of_target(&target, &root.join(of.manifest))?;
            print(&licences::write(&metadata, &of.program, &texts)?)
        }
        Command::Sbom { timestamp, of } => {
            let manifest = root.join(of.manifest);
            let lock = std::fs::read_to_string(manifest.with_file_name("Cargo.lock"))?;
            let metadata = metadata::of_target(metadata::TARGET, &manifest)?;
            print(&sbom::write(&metadata, &of.program, &lock, &timestamp)?)
        }
        Command::Site { program, out } => {
            site::stage(root, &program, &out)?;
            Ok(Vec::new())
        }
    }
}

fn docs(root: &Path, lower: bool, sentences: Option<&[String]>) -> Result<Vec<String>> {
    let texts = Texts::read(root)?;
    if lower {
        texts.lower(root)?;
        return Ok(Vec::new());
    }
    if let Some(words) = sentences {
        return print(&texts.longest(words));
    }
    print(&texts.means())?;
    let mut problems = documents::check(root, &Workspace::load()?)?;
    problems.extend(promises::check(root)?);
    problems.extend(vocabulary::check(root)?);
    problems.extend(texts.check(root)?);
    Ok(problems)
}

fn print(text: &str) -> Result<Vec<String>> {
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Vec::new())
}

/// The root folder of the repository in which cargo runs this. The one it was built in may be another, if two share
/// a target directory.
fn root() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").context("start it by cargo xtask")?;
    let root = Path::new(&manifest).parent();
    Ok(root.context("xtask lies in the root")?.to_owned())
}
