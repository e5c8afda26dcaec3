//! Finds the patterns that hold a name, by its labels from the right.

use crate::name::PatternLabel;
use crate::{DomainName, NamePattern};
use culvert_ids::ResourceId;
use std::collections::{BTreeMap, BTreeSet};

/// A tree of labels. A look-up follows at most three branches at each label; below a `**` there
/// is none, so that it visits a node at most once for each label of the name.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameIndex {
    root: Node,
}

#[derive(Clone, Debug, Default)]
struct Node {
    literals: BTreeMap<Box<str>, Self>,
    one: Option<Box<Self>>,
    many: Option<Box<Self>>,
    /// Those whose pattern ends here, oldest first: all have the same pattern.
    resources: BTreeSet<ResourceId>,
}

impl NameIndex {
    pub(crate) fn insert(&mut self, pattern: &NamePattern, resource: ResourceId) {
        let mut node = &mut self.root;
        for label in pattern.labels_from_root() {
            node = match label {
                PatternLabel::Literal(label) => node.literals.entry(label.into()).or_default(),
                PatternLabel::One => node.one.get_or_insert_default(),
                PatternLabel::Many => node.many.get_or_insert_default(),
            };
        }
        node.resources.insert(resource);
    }

    pub(crate) fn remove(&mut self, pattern: &NamePattern, resource: ResourceId) {
        let labels: Vec<_> = pattern.labels_from_root().collect();
        self.root.remove(&labels, resource);
    }

    /// The oldest resource of each pattern that holds the name, in no order.
    pub(crate) fn matches(&self, name: &DomainName, mut found: impl FnMut(ResourceId)) {
        let labels: Vec<&str> = name.labels_from_root().collect();
        self.root.find(&labels, &mut found);
    }

    /// The resources of exactly this pattern, oldest first.
    pub(crate) fn of_pattern(&self, pattern: &NamePattern) -> impl Iterator<Item = ResourceId> {
        let mut labels = pattern.labels_from_root();
        let node = labels.try_fold(&self.root, |node, label| node.below(label));
        node.into_iter()
            .flat_map(|node| node.resources.iter().copied())
    }
}

impl Node {
    fn below(&self, label: PatternLabel<'_>) -> Option<&Self> {
        match label {
            PatternLabel::Literal(label) => self.literals.get(label),
            PatternLabel::One => self.one.as_deref(),
            PatternLabel::Many => self.many.as_deref(),
        }
    }

    fn find(&self, rest: &[&str], found: &mut impl FnMut(ResourceId)) {
        let Some((label, beyond)) = rest.split_first() else {
            self.resources.first().copied().into_iter().for_each(found);
            return;
        };
        if let Some(node) = self.literals.get(*label) {
            node.find(beyond, found);
        }
        if let Some(node) = &self.one {
            node.find(beyond, found);
        }
        if let Some(node) = &self.many {
            for taken in 1..=rest.len() {
                node.find(&rest[taken..], found);
            }
        }
    }

    /// Takes the resource out and drops the nodes that hold nothing any more.
    fn remove(&mut self, labels: &[PatternLabel<'_>], resource: ResourceId) {
        let Some((label, rest)) = labels.split_first() else {
            self.resources.remove(&resource);
            return;
        };
        match label {
            PatternLabel::Literal(label) => {
                if let Some(node) = self.literals.get_mut(*label) {
                    node.remove(rest, resource);
                    if node.is_empty() {
                        self.literals.remove(*label);
                    }
                }
            }
            PatternLabel::One => remove_below(&mut self.one, rest, resource),
            PatternLabel::Many => remove_below(&mut self.many, rest, resource),
        }
    }

    fn is_empty(&self) -> bool {
        let Self {
            literals,
            one,
            many,
            resources,
        } = self;
        literals.is_empty() && one.is_none() && many.is_none() && resources.is_empty()
    }
}

fn remove_below(slot: &mut Option<Box<Node>>, rest: &[PatternLabel<'_>], resource: ResourceId) {
    if let Some(node) = slot {
        node.remove(rest, resource);
        if node.is_empty() {
            *slot = None;
        }
    }
}
