//! The modules of a crate, and the files they are in.

use crate::source::mentions::{Import, Imported, Mentions, Scope, attributes, is_for_tests};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Gives the text of a file, or nothing where there is none.
pub(super) type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// A place in [`Tree::modules`].
pub(super) type ModuleId = usize;

/// The modules of a library or program; the root is the first.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) modules: Vec<Module>,
}

#[derive(Debug)]
pub(super) struct Module {
    pub(super) file: PathBuf,
    parent: ModuleId,
    children: BTreeMap<String, ModuleId>,
    /// The names of what it defines.
    items: BTreeSet<String>,
    pub(super) mentions: Mentions,
}

/// The end of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Module(ModuleId),
    /// Something that a module defines.
    Item(ModuleId, String),
}

/// Imports that are being followed, so that two that name each other end.
type Followed = BTreeSet<(ModuleId, String)>;

impl Tree {
    /// Reads the crate whose root is the file `root`.
    pub(super) fn load(root: &Path, read: Read<'_>) -> Result<Self> {
        let mut tree = Self::default();
        let folder = root.parent().unwrap_or(Path::new(""));
        let file = parse(root, read)?;
        tree.add(0, root, folder, &file.items, read)?;
        Ok(tree)
    }

    /// Adds a module and those below it. `folder` has the files of its children.
    fn add(
        &mut self,
        parent: ModuleId,
        file: &Path,
        folder: &Path,
        items: &[syn::Item],
        read: Read<'_>,
    ) -> Result<ModuleId> {
        let id = self.modules.len();
        self.modules.push(Module {
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            items: items.iter().filter_map(name).collect(),
            mentions: Mentions::of(items, Scope::Module),
        });
        for item in items {
            let syn::Item::Mod(module) = item else {
                continue;
            };
            if is_for_tests(attributes(item)) {
                continue;
            }
            let name = module.ident.to_string();
            let child = if let Some((_, items)) = &module.content {
                self.add(id, file, &folder.join(&name), items, read)?
            } else {
                let (file, folder) = place(file, folder, module, read);
                let items = parse(&file, read)?.items;
                self.add(id, &file, &folder, &items, read)?
            };
            self.modules[id].children.insert(name, child);
        }
        Ok(id)
    }

    /// The end of `path` in the module `from`; nothing for variables and items of other crates.
    pub(super) fn resolve(&self, from: ModuleId, path: &[String]) -> Option<Found> {
        self.follow(from, path, &mut Followed::new())
    }

    fn follow(&self, from: ModuleId, path: &[String], followed: &mut Followed) -> Option<Found> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => Found::Module(0),
            "self" => Found::Module(from),
            "super" => Found::Module(self.modules[from].parent),
            name => self.look_up(from, name, followed)?,
        };
        let mut found = start;
        for name in rest {
            let Found::Module(module) = found else {
                // A variant, or an associated item.
                break;
            };
            found = match name.as_str() {
                "super" => Found::Module(self.modules[module].parent),
                // A macro of that module makes items that nobody declares.
                _ => self
                    .look_up(module, name, followed)
                    .unwrap_or_else(|| Found::Item(module, name.clone())),
            };
        }
        Some(found)
    }

    /// The meaning of `name` in a module.
    fn look_up(&self, module: ModuleId, name: &str, followed: &mut Followed) -> Option<Found> {
        let it = &self.modules[module];
        if let Some(&child) = it.children.get(name) {
            return Some(Found::Module(child));
        }
        if it.items.contains(name) {
            return Some(Found::Item(module, name.to_owned()));
        }
        if !followed.insert((module, name.to_owned())) {
            return None;
        }
        let imports = &it.mentions.imports;
        let is_named = |import: &&Import| matches!(&import.name, Imported::Name(it) if it == name);
        let mut named = imports.iter().filter(is_named);
        let mut globs = imports
            .iter()
            .filter(|import| import.name == Imported::Glob);
        let found = named
            .find_map(|import| self.follow(module, &import.path, followed))
            .or_else(|| {
                globs.find_map(
                    |import| match self.follow(module, &import.path, followed)? {
                        Found::Module(opened) => self.look_up(opened, name, followed),
                        Found::Item(..) => None,
                    },
                )
            });
        followed.remove(&(module, name.to_owned()));
        found
    }

    /// True if `module` is within `ancestor`.
    pub(super) fn is_below(&self, mut module: ModuleId, ancestor: ModuleId) -> bool {
        while module != 0 {
            module = self.modules[module].parent;
            if module == ancestor {
                return true;
            }
        }
        false
    }
}

fn parse(file: &Path, read: Read<'_>) -> Result<syn::File> {
    let text = read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    syn::parse_file(&text).with_context(|| file.display().to_string())
}

/// The file of a module that `file` declares, and the folder of its children.
fn place(file: &Path, folder: &Path, module: &syn::ItemMod, read: Read<'_>) -> (PathBuf, PathBuf) {
    let given = module.attrs.iter().find_map(|attribute| {
        let syn::Meta::NameValue(meta) = &attribute.meta else {
            return None;
        };
        match &meta.value {
            syn::Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(text),
                ..
            }) if meta.path.is_ident("path") => Some(text.value()),
            _ => None,
        }
    });
    if let Some(given) = given {
        let path = file.parent().unwrap_or(Path::new("")).join(given);
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        return (path, folder);
    }
    let name = module.ident.to_string();
    let beside = folder.join(format!("{name}.rs"));
    let below = folder.join(&name);
    if read(&beside).is_some() {
        (beside, below)
    } else {
        (below.join("mod.rs"), below)
    }
}

/// The name that an item defines, if it has one. Modules are apart.
fn name(item: &syn::Item) -> Option<String> {
    let ident = match item {
        syn::Item::Const(it) => &it.ident,
        syn::Item::Enum(it) => &it.ident,
        syn::Item::Fn(it) => &it.sig.ident,
        syn::Item::Macro(it) => it.ident.as_ref()?,
        syn::Item::Static(it) => &it.ident,
        syn::Item::Struct(it) => &it.ident,
        syn::Item::Trait(it) => &it.ident,
        syn::Item::Type(it) => &it.ident,
        syn::Item::Union(it) => &it.ident,
        _ => return None,
    };
    (!is_for_tests(attributes(item))).then(|| ident.to_string())
}
