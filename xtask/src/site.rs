//! `cargo xtask site`: the source of the documentation site. The documents of the repository are its pages;
//! what every command and the REST API take is asked of the program itself (docs/adr/0021).

mod api;
mod commands;
mod links;
mod navigation;
mod pages;

use anyhow::{Context, Result, bail};
use navigation::Section;
use pages::{Pages, forget_others, write};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The folder in which browser tests keep pictures of the console.
const PICTURES: &str = "target/screenshots";

/// The folder in which `make study` leaves its charts. docs/performance.md shows them.
const CHARTS: &str = "docs/performance";

/// Pictures that documents show.
const SHOWN: &str = "docs/pictures";

/// Writes the source of the site into `out`. Files that are as wanted are not touched, so that a server that
/// watches them sees what changed.
pub(crate) fn stage(root: &Path, program: &Path, out: &Path) -> Result<()> {
    let documents = navigation::documents(root)?;
    let mut pages = Pages::new();
    for (source, page) in &documents {
        let text = fs::read_to_string(root.join(source)).with_context(|| source.clone())?;
        pages.insert(
            page.clone(),
            links::lead_to_pages(&text, source, &documents),
        );
    }
    let commands = commands::pages(|path| help(program, path))?;
    let document = run(program, &["portal", "openapi"])?;
    pages.insert(
        "api.md".to_owned(),
        api::page(&serde_json::from_str(&document)?)?,
    );
    // As an owner sees them on a desk, light.
    let pictures = files(&root.join(PICTURES), |name| {
        name.starts_with("owner-") && name.ends_with(".desk.light.png")
    })?;
    if !pictures.is_empty() {
        pages.insert("pictures.md".to_owned(), pictures_page(&pictures));
    }
    let sections = navigation::sections(&documents, &commands, !pictures.is_empty());
    pages.extend(commands);

    let source = out.join("pages");
    forget_others(&source, &pages)?;
    for (page, text) in &pages {
        write(&source.join(page), text.as_bytes())?;
    }
    for picture in &pictures {
        let bytes = fs::read(root.join(PICTURES).join(picture))?;
        write(&source.join("pictures").join(picture), &bytes)?;
    }
    for chart in files(&root.join(CHARTS), |name| name.ends_with(".svg"))? {
        let bytes = fs::read(root.join(CHARTS).join(&chart))?;
        write(&source.join("performance").join(&chart), &bytes)?;
    }
    for picture in files(&root.join(SHOWN), |_| true)? {
        let bytes = fs::read(root.join(SHOWN).join(&picture))?;
        write(&source.join("pictures").join(&picture), &bytes)?;
    }
    write(&out.join("zensical.toml"), settings(&sections).as_bytes())
}

/// The help of one command of the program.
fn help(program: &Path, path: &[String]) -> Result<String> {
    let words = path.iter().skip(1).map(String::as_str).chain(["--help"]);
    run(program, &words.collect::<Vec<_>>())
}

fn run(program: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .env("COLUMNS", "84")
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} {arguments:?}: {}", program.display(), said.trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The files of a folder and of those below it whose paths from there are wanted, sorted; none where there is no
/// folder.
fn files(dir: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = Vec::from([dir.to_owned()]);
    while let Some(folder) = folders.pop().filter(|folder| folder.is_dir()) {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(dir)?.to_string_lossy().into_owned();
            if is_wanted(&name) {
                found.push(name);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn pictures_page(pictures: &[String]) -> String {
    let mut text =
        "# What the console looks like\n\nPictures that the browser tests made of the pages as an \
                    owner sees them. Other roles see fewer of them.\n"
            .to_owned();
    for picture in pictures {
        let name = picture.trim_start_matches("owner-").split('.').next();
        let name = name.unwrap_or_default().replace('-', " ");
        text += &format!("\n## {name}\n\n![The page {name}](pictures/{picture})\n");
    }
    text
}

/// The settings of the generator.
fn settings(sections: &[Section]) -> String {
    let quoted = |text: &str| format!("{text:?}");
    let mut text = format!(
        "# Written by `cargo xtask site`.\n[project]\nsite_name = \"Culvert\"\nsite_description = {}\n\
         docs_dir = \"pages\"\nsite_dir = \"site\"\nuse_directory_urls = false\n\
         copyright = \"Apache-2.0\"\nnav = [\n",
        quoted("A self-hosted zero-trust access tunnel")
    );
    for section in sections {
        let pages = section.pages.iter().map(|page| match &page.title {
            Some(title) => format!("{{ {} = {} }}", quoted(title), quoted(&page.path)),
            None => quoted(&page.path),
        });
        let pages = pages.collect::<Vec<_>>().join(", ");
        text += &format!("  {{ {} = [{pages}] }},\n", quoted(section.title));
    }
    // Fonts of the reader's system: pages load nothing from elsewhere.
    text + "]\n[project.theme]\nfont = false\nlanguage = \"en\"\nfeatures = [\n  \
            \"navigation.sections\", \"navigation.top\", \"navigation.footer\", \"content.code.copy\",\n  \
            \"search.highlight\"\n]\n\
            [[project.theme.palette]]\nmedia = \"(prefers-color-scheme: light)\"\nscheme = \"default\"\n\
            toggle.icon = \"lucide/sun\"\ntoggle.name = \"Dark\"\n\
            [[project.theme.palette]]\nmedia = \"(prefers-color-scheme: dark)\"\nscheme = \"slate\"\n\
            toggle.icon = \"lucide/moon\"\ntoggle.name = \"Light\"\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_in_folders_below_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let found = files(&root.join(SHOWN), |name| name.ends_with(".png")).unwrap();
        for wanted in ["console.png", "console/before-overview.png"] {
            assert!(found.iter().any(|name| name == wanted), "{found:?}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_has_no_files() {
        assert!(files(Path::new("/nowhere"), |_| true).unwrap().is_empty());
    }
}
