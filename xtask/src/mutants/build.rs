//! Builds the tests with all mutants in them, and finds out which cannot stand there.

use super::list::{Mutant, MutantId};
use super::weave::{Piece, weave};
use crate::tree;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Each attempt leaves out what the last one showed. The compiler shows the errors of one phase at a time, so
/// that there are some five.
const MAX_ATTEMPTS: u32 = 40;

/// Chooses a mutant when a test runs, and tells which are reached. In a constant none is.
const SWITCH: &str = r#"
#[doc(hidden)]
mod culvert_mutant {
    use std::io::Write;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

    const UNKNOWN: u32 = u32::MAX;
    const NONE: u32 = u32::MAX - 1;
    static CHOSEN: AtomicU32 = AtomicU32::new(UNKNOWN);
    static REACHED: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
    static REPORT: OnceLock<Option<std::fs::File>> = OnceLock::new();

    pub(crate) const fn is(mutant: u32) -> bool {
        core::intrinsics::const_eval_select((mutant,), never, now)
    }

    const fn never(_: u32) -> bool {
        false
    }

    fn now(mutant: u32) -> bool {
        let mut chosen = CHOSEN.load(Relaxed);
        if chosen == UNKNOWN {
            let named = std::env::var("CULVERT_MUTANT").ok();
            chosen = named.and_then(|it| it.parse().ok()).unwrap_or(NONE);
            CHOSEN.store(chosen, Relaxed);
        }
        if chosen == NONE {
            report(mutant);
        }
        chosen == mutant
    }

    fn report(mutant: u32) {
        let bit = 1 << (mutant % 64);
        if REACHED[mutant as usize / 64].fetch_or(bit, Relaxed) & bit != 0 {
            return;
        }
        let report = REPORT.get_or_init(|| {
            let path = std::env::var_os("CULVERT_MUTANTS_REACHED")?;
            std::fs::OpenOptions::new().create(true).append(true).open(path).ok()
        });
        if let Some(mut report) = report.as_ref() {
            let _ = report.write_all(format!("{mutant}\n").as_bytes());
        }
    }
}
"#;

/// Before everything else in a crate that has mutants.
/// The named lints are errors and no warnings: the compiler sees what a mutant would compute.
const ALLOWED: &str = "#![feature(const_eval_select, core_intrinsics)]\n\
                       #![allow(warnings, arithmetic_overflow, unconditional_panic)]\n";

/// A copy of the repository, and where it is built.
pub(super) struct Tree {
    source: PathBuf,
    pub(super) root: PathBuf,
    target: PathBuf,
    compiler: PathBuf,
}

/// A program that has tests.
#[derive(Clone, Debug)]
pub(super) struct Suite {
    pub(super) package: String,
    pub(super) program: PathBuf,
    /// The folder of its package, where cargo starts it.
    pub(super) folder: PathBuf,
}

/// Mutants that are not tried together with the others.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// They do not compile.
    pub(super) unviable: BTreeSet<MutantId>,
    /// They may, where they stand for it alone.
    pub(super) alone: BTreeSet<MutantId>,
    /// They stand there, and constants may reach them.
    pub(super) in_constants: BTreeSet<MutantId>,
}

impl Tree {
    pub(super) fn copy(root: &Path) -> Result<Self> {
        let folder = root.join("target/mutants");
        let copy = Self {
            source: root.to_owned(),
            root: folder.join("tree"),
            target: folder.join("build"),
            compiler: folder.join("rustc"),
        };
        copy.restore()?;
        // Only crates of the workspace are built with features that are not stable.
        let script = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec \"$@\"\n";
        tree::write_if_changed(&copy.compiler, script.as_bytes())?;
        fs::set_permissions(&copy.compiler, fs::Permissions::from_mode(0o755))?;
        Ok(copy)
    }

    /// Puts the sound code back.
    pub(super) fn restore(&self) -> Result<()> {
        tree::copy(&self.source, &self.root)?;
        // Tests look for their peers there.
        let link = self.root.join("target");
        symlink(self.source.join("target"), &link).with_context(|| link.display().to_string())
    }

    /// Writes all mutants into the code; those that cannot be there are left out.
    pub(super) fn weave(&self, mutants: &[Mutant]) -> Result<LeftOut> {
        let mut left_out = LeftOut::default();
        for attempt in 1..=MAX_ATTEMPTS {
            let pieces = self.write(mutants, &mut left_out)?;
            let errors = self.errors(mutants)?;
            if errors.is_empty() {
                return Ok(left_out);
            }
            let before = left_out.unviable.len() + left_out.alone.len();
            for error in &errors {
                error.leave_out(&pieces, &mut left_out)?;
            }
            let now = left_out.unviable.len() + left_out.alone.len();
            eprintln!(
                "attempt {attempt}: {} errors, {} mutants left out",
                errors.len(),
                now - before
            );
            ensure!(
                now > before,
                "the same errors again: {}",
                errors[0].rendered
            );
        }
        bail!("does not compile after {MAX_ATTEMPTS} attempts")
    }

    fn write(
        &self,
        mutants: &[Mutant],
        left_out: &mut LeftOut,
    ) -> Result<HashMap<String, Vec<Piece>>> {
        let mut by_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
        let mut roots = BTreeSet::new();
        for mutant in mutants {
            let place = mutant.file.split("/src/").next().unwrap_or_default();
            roots.insert(format!("{place}/src/lib.rs"));
            let of_file = by_file.entry(&mutant.file).or_default();
            if !left_out.unviable.contains(&mutant.id) && !left_out.alone.contains(&mutant.id) {
                of_file.push(mutant);
            }
        }
        for root in &roots {
            by_file.entry(root).or_default();
        }
        let mut all_pieces = HashMap::new();
        for (file, mutants) in by_file {
            let sound = fs::read_to_string(self.source.join(file))?;
            let mut woven = weave(&sound, &mutants).with_context(|| file.to_owned())?;
            left_out.alone.extend(woven.left_out);
            left_out.in_constants.extend(woven.in_constants);
            if roots.contains(file) {
                woven.text = format!("{ALLOWED}{}{SWITCH}", woven.text);
                for piece in &mut woven.pieces {
                    piece.range.start += ALLOWED.len();
                    piece.range.end += ALLOWED.len();
                }
            }
            tree::write_if_changed(&self.root.join(file), woven.text.as_bytes())?;
            all_pieces.insert(file.to_owned(), woven.pieces);
        }
        Ok(all_pieces)
    }

    fn errors(&self, mutants: &[Mutant]) -> Result<Vec<CompilerError>> {
        let mut arguments = vec!["check", "--lib"];
        arguments.extend(packages(mutants).flat_map(|package| ["--package", package]));
        let messages = self.cargo(&arguments)?;
        Ok(messages.iter().filter_map(CompilerError::parse).collect())
    }

    /// Builds the tests of the packages of `mutants`. If they do not compile, the compiler's first error.
    pub(super) fn tests(&self, mutants: &[Mutant]) -> Result<Result<Vec<Suite>, String>> {
        let mut arguments = vec!["test", "--no-run", "--lib", "--bins", "--tests"];
        arguments.extend(packages(mutants).flat_map(|package| ["--package", package]));
        let messages = self.cargo(&arguments)?;
        if let Some(error) = messages.iter().find_map(CompilerError::parse) {
            return Ok(Err(error.rendered));
        }
        let suite = |it: &Value| {
            it["profile"]["test"].as_bool().filter(|is_test| *is_test)?;
            let folder = Path::new(it["manifest_path"].as_str()?).parent()?;
            let package = format!("culvert-{}", folder.file_name()?.to_str()?);
            Some(Suite {
                package,
                program: it["executable"].as_str()?.into(),
                folder: folder.to_owned(),
            })
        };
        let suites: Vec<Suite> = messages.iter().filter_map(suite).collect();
        ensure!(!suites.is_empty(), "no tests were built");
        Ok(Ok(suites))
    }

    /// Runs cargo and returns its messages, a JSON value a line.
    fn cargo(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let said = Command::new("cargo")
            .args(arguments)
            .args(["--message-format", "json", "--quiet"])
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_PROFILE_DEV_DEBUG", "none")
            .env("CARGO_INCREMENTAL", "1")
            .env("RUSTC_WORKSPACE_WRAPPER", &self.compiler)
            .stdin(Stdio::null())
            .output()
            .context("cargo")?;
        let messages: Vec<Value> = String::from_utf8(said.stdout)?
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let is_explained = messages.iter().any(|it| CompilerError::parse(it).is_some());
        ensure!(
            said.status.success() || is_explained,
            "cargo: {}",
            String::from_utf8_lossy(&said.stderr)
        );
        Ok(messages)
    }
}

fn packages(mutants: &[Mutant]) -> impl Iterator<Item = &str> {
    let packages: BTreeSet<&str> = mutants.iter().map(|it| it.package.as_str()).collect();
    packages.into_iter()
}

#[derive(Debug)]
struct CompilerError {
    rendered: String,
    code: String,
    /// File and byte; those that the compiler calls primary first.
    places: Vec<(String, usize)>,
}

impl CompilerError {
    fn parse(message: &Value) -> Option<Self> {
        let error = &message["message"];
        if message["reason"] != "compiler-message" || error["level"] != "error" {
            return None;
        }
        let spans: Vec<&Value> = error["spans"].as_array().into_iter().flatten().collect();
        let (primary, other): (Vec<_>, Vec<_>) = spans
            .into_iter()
            .partition(|span| span["is_primary"] == true);
        let mut places = Vec::new();
        for mut span in primary.into_iter().chain(other) {
            // Code of a macro stands where the macro was called.
            while span.is_object() {
                let file = span["file_name"].as_str().unwrap_or_default().to_owned();
                let byte = span["byte_start"].as_u64().unwrap_or_default();
                places.push((file, usize::try_from(byte).ok()?));
                span = &span["expansion"]["span"];
            }
        }
        Some(Self {
            rendered: error["rendered"].as_str().unwrap_or_default().to_owned(),
            code: error["code"]["code"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            places,
        })
    }

    fn leave_out(
        &self,
        pieces: &HashMap<String, Vec<Piece>>,
        left_out: &mut LeftOut,
    ) -> Result<()> {
        // Types that do not fit, no matter what stands beside them; a call that a constant function may not make.
        const OF_THE_MUTANT: [&str; 8] = [
            "E0015", "E0277", "E0308", "E0369", "E0599", "E0600", "E0604", "E0614",
        ];
        // "aborting due to 3 previous errors"
        if self.places.is_empty() {
            return Ok(());
        }
        let around = |(file, byte): &(String, usize)| {
            let pieces = pieces.get(file).into_iter().flatten();
            let around = pieces.filter(|piece| piece.range.contains(byte));
            around.min_by_key(|piece| piece.range.len())
        };
        let Some(piece) = self.places.iter().find_map(around) else {
            bail!("no mutant explains this: {}", self.rendered)
        };
        if piece.is_mutant && OF_THE_MUTANT.contains(&self.code.as_str()) {
            left_out.unviable.extend(&piece.mutants);
        } else {
            left_out.alone.extend(&piece.mutants);
        }
        Ok(())
    }
}
