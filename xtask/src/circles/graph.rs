//! Files and what each names of others; and the circles among them.

use super::modules::{Found, ModuleId, Read, Tree};
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// By the file that names and the file that is named.
#[derive(Debug, Default)]
pub(super) struct Graph {
    edges: BTreeMap<(PathBuf, PathBuf), Reason>,
}

/// The first thing of a file that another one names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reason {
    pub(super) line: usize,
    pub(super) item: String,
}

/// Files each of which depends on all others of them, if only through others, in order.
pub(super) type Circle = Vec<PathBuf>;

impl Graph {
    /// Adds the library or program whose root is the file `root`.
    pub(super) fn add(&mut self, root: &Path, read: Read<'_>) -> Result<()> {
        let tree = Tree::load(root, read)?;
        for (id, module) in tree.modules.iter().enumerate() {
            for import in &module.mentions.imports {
                // Of a module that is imported, paths that begin with it say what is used.
                let Some(Found::Item(of, item)) = tree.resolve(id, &import.path) else {
                    continue;
                };
                let is_facade = import.is_re_export && tree.is_below(of, id);
                if !is_facade {
                    self.note(&tree, id, of, import.line, item);
                }
            }
            for mention in &module.mentions.paths {
                if let [name] = &mention.path[..]
                    && module.mentions.bound.contains(name)
                {
                    continue;
                }
                if let Some(Found::Item(of, item)) = tree.resolve(id, &mention.path) {
                    self.note(&tree, id, of, mention.line, item);
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, tree: &Tree, from: ModuleId, to: ModuleId, line: usize, item: String) {
        let (from, to) = (&tree.modules[from].file, &tree.modules[to].file);
        if from != to {
            let reason = Reason { line, item };
            let edge = self.edges.entry((from.clone(), to.clone()));
            let first = edge.or_insert_with(|| reason.clone());
            if reason < *first {
                *first = reason;
            }
        }
    }

    /// The edges between the files of a circle.
    pub(super) fn within<'a>(
        &'a self,
        circle: &'a Circle,
    ) -> impl Iterator<Item = (&'a Path, &'a Path, &'a Reason)> {
        let edges = self.edges.iter();
        edges.filter_map(|((from, to), reason)| {
            let is_within = circle.contains(from) && circle.contains(to);
            is_within.then_some((from.as_path(), to.as_path(), reason))
        })
    }

    /// The strongly connected components of more than one file (Tarjan 1972), in order.
    pub(super) fn circles(&self) -> Vec<Circle> {
        let mut outgoing: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
        for (from, to) in self.edges.keys() {
            outgoing.entry(from).or_default().push(to);
        }
        let mut search = Search {
            outgoing: &outgoing,
            visited: BTreeMap::new(),
            stack: Vec::new(),
            circles: Vec::new(),
        };
        for file in outgoing.keys() {
            if !search.visited.contains_key(file) {
                search.visit(file);
            }
        }
        search.circles.sort();
        search.circles
    }
}

struct Search<'a> {
    outgoing: &'a BTreeMap<&'a Path, Vec<&'a Path>>,
    /// In which order files were visited, and of which component they are known to be.
    visited: BTreeMap<&'a Path, Visited>,
    stack: Vec<&'a Path>,
    circles: Vec<Circle>,
}

struct Visited {
    lowest: usize,
    is_on_stack: bool,
}

impl<'a> Search<'a> {
    /// Returns the number of the earliest file on the stack that this one leads to.
    fn visit(&mut self, file: &'a Path) -> usize {
        let number = self.visited.len();
        let mut lowest = number;
        let visited = Visited {
            lowest,
            is_on_stack: true,
        };
        self.visited.insert(file, visited);
        let bottom = self.stack.len();
        self.stack.push(file);
        for next in self.outgoing.get(file).into_iter().flatten() {
            lowest = match self.visited.get(next) {
                None => lowest.min(self.visit(next)),
                Some(it) if it.is_on_stack => lowest.min(it.lowest),
                Some(_) => lowest,
            };
        }
        if let Some(visited) = self.visited.get_mut(file) {
            visited.lowest = lowest;
        }
        if lowest == number {
            let mut circle: Circle = Vec::new();
            for member in self.stack.drain(bottom..) {
                circle.push(member.to_owned());
                if let Some(visited) = self.visited.get_mut(member) {
                    visited.is_on_stack = false;
                }
            }
            if circle.len() > 1 {
                circle.sort();
                self.circles.push(circle);
            }
        }
        lowest
    }
}
