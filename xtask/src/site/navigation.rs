//! The documents that are pages, and their order.

use super::pages::Pages;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Documents by their path in the repository, with their path in the site.
pub(super) type Documents = BTreeMap<String, String>;

/// A heading of the navigation.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) pages: Vec<Entry>,
}

/// A page of the navigation; without a title it has that of its first heading.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) title: Option<String>,
    pub(super) path: String,
}

/// Documents of the repository's root that are pages.
const ROOT: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "KNOWN-ISSUES.md",
    "SECURITY.md",
];

/// The order of those that a reader looks for in turn. A document that is not named here comes under "More".
const ORDER: [(&str, &[&str]); 5] = [
    (
        "Start",
        &[
            "index.md",
            "docs/README.md",
            "docs/concepts.md",
            "docs/install.md",
            "docs/glossary.md",
            "CHANGELOG.md",
        ],
    ),
    (
        "Use",
        &[
            "docs/console.md",
            "docs/sign-in.md",
            "docs/portal.md",
            "docs/behind-a-proxy.md",
            "docs/gateway.md",
            "docs/client.md",
            "docs/access-toml.md",
            "docs/applications.md",
            "docs/wg.md",
            "docs/exit-status.md",
        ],
    ),
    (
        "Operate",
        &[
            "docs/operations.md",
            "docs/logs.md",
            "docs/performance.md",
            "docs/crowd.md",
            "KNOWN-ISSUES.md",
        ],
    ),
    (
        "Trust",
        &[
            "docs/threat-model.md",
            "docs/assurance.md",
            "SECURITY.md",
            "docs/releasing.md",
        ],
    ),
    (
        "Inside",
        &[
            "ARCHITECTURE.md",
            "docs/access-road.md",
            "docs/access.md",
            "docs/packet-road.md",
            "docs/protocol-aes.md",
            "docs/porting.md",
            "CONTRIBUTING.md",
        ],
    ),
];

/// All documents that are pages: those of the root, and all below `docs/`.
pub(super) fn documents(root: &Path) -> Result<Documents> {
    let mut documents = Documents::new();
    for name in ROOT {
        documents.insert(name.to_owned(), name.replace("README.md", "index.md"));
    }
    for folder in ["docs", "docs/adr"] {
        for entry in fs::read_dir(root.join(folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                let path = format!("{folder}/{name}");
                documents.insert(path.clone(), path);
            }
        }
    }
    Ok(documents)
}

/// The navigation: every page stands in it once.
pub(super) fn sections(
    documents: &Documents,
    commands: &Pages,
    has_pictures: bool,
) -> Vec<Section> {
    let entry = |path: &str| Entry {
        title: (path == "index.md").then(|| "Culvert".to_owned()),
        path: path.to_owned(),
    };
    let mut sections = Vec::new();
    for (title, pages) in ORDER {
        let pages = pages.iter().map(|path| entry(path)).collect();
        sections.push(Section { title, pages });
    }
    if has_pictures {
        sections[1].pages.push(entry("pictures.md"));
    }
    let mut reference = vec![Entry {
        title: Some("REST API".to_owned()),
        path: "api.md".to_owned(),
    }];
    reference.extend(commands.keys().map(|path| entry(path)));
    sections.insert(
        3,
        Section {
            title: "Reference",
            pages: reference,
        },
    );

    let is_ordered = |page: &&String| {
        ORDER
            .iter()
            .any(|(_, pages)| pages.contains(&page.as_str()))
    };
    let is_decision = |page: &&String| page.starts_with("docs/adr/");
    let others = documents.values().filter(|page| !is_ordered(page));
    let (decisions, more): (Vec<_>, Vec<_>) = others.partition(is_decision);
    for (title, pages) in [("More", more), ("Decisions", decisions)] {
        if !pages.is_empty() {
            let pages = pages.into_iter().map(|path| entry(path)).collect();
            sections.push(Section { title, pages });
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_stands_in_the_navigation_once() {
        let root = crate::root().unwrap();
        let documents = documents(&root).unwrap();
        let commands = Pages::from([("commands/wg.md".to_owned(), String::new())]);
        let sections = sections(&documents, &commands, true);
        let mut offered: Vec<_> = sections
            .iter()
            .flat_map(|section| &section.pages)
            .map(|page| page.path.clone())
            .collect();
        let mut wanted: Vec<_> = documents.values().cloned().collect();
        wanted.extend(["api.md", "pictures.md", "commands/wg.md"].map(str::to_owned));
        offered.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(offered, wanted);
    }
}
