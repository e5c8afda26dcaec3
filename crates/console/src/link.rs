//! Links between pages.

/// A way to another page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) path: &'static str,
    pub(crate) name: &'static str,
}
