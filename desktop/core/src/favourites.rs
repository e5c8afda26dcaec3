//! The resources that a person marked: a file of their ids, one a line.

use std::collections::BTreeSet;

/// The most favourites.
pub const MAX_FAVOURITES: usize = 1_000;

/// The longest id, in bytes: a prefix and 26 characters, with room.
const MAX_ID_BYTES: usize = 64;

/// The longest file that is read, in bytes: [`MAX_FAVOURITES`] lines of [`MAX_ID_BYTES`].
pub const MAX_FILE_BYTES: u64 = (MAX_FAVOURITES * (MAX_ID_BYTES + 1)) as u64;

/// The ids of the favourites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Favourites {
    ids: BTreeSet<String>,
}

impl Favourites {
    /// Reads the file. Lines that are no id, and those beyond the bound, are left out.
    #[must_use]
    pub fn parse(file: &str) -> Self {
        let ids = file.lines().map(str::trim).filter(|line| is_id(line));
        Self {
            ids: ids.take(MAX_FAVOURITES).map(str::to_owned).collect(),
        }
    }

    /// The file.
    #[must_use]
    pub fn to_file(&self) -> String {
        self.ids
            .iter()
            .fold(String::new(), |file, id| file + id + "\n")
    }

    /// True if the resource is one.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Marks the resource, or takes the mark away. False if nothing changed: there are [`MAX_FAVOURITES`] already, or it
    /// is no id.
    pub fn set(&mut self, id: &str, is_favourite: bool) -> bool {
        match is_favourite {
            true if is_id(id) && self.ids.len() < MAX_FAVOURITES => self.ids.insert(id.to_owned()),
            true => false,
            false => self.ids.remove(id),
        }
    }
}

fn is_id(text: &str) -> bool {
    let is_of_id = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !text.is_empty() && text.len() <= MAX_ID_BYTES && text.bytes().all(is_of_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn favourites_survive_the_file() {
        let mut favourites = Favourites::default();
        assert!(favourites.set("res_2", true) && favourites.set("res_1", true));
        assert!(!favourites.set("res_1", true));
        assert_eq!(favourites.to_file(), "res_1\nres_2\n");
        assert_eq!(Favourites::parse(&favourites.to_file()), favourites);
        assert!(favourites.set("res_1", false) && !favourites.contains("res_1"));
    }

    #[test]
    fn a_broken_or_endless_file_is_bounded() {
        let file = format!("not an id\n\0\n{}\n", "x".repeat(MAX_ID_BYTES + 1));
        assert_eq!(Favourites::parse(&file), Favourites::default());
        let many: String = (0..=MAX_FAVOURITES)
            .map(|number| format!("res_{number}\n"))
            .collect();
        let mut favourites = Favourites::parse(&many);
        assert_eq!(favourites.ids.len(), MAX_FAVOURITES);
        assert!(!favourites.set("res_more", true));
        assert!(favourites.to_file().len() as u64 <= MAX_FILE_BYTES);
    }
}
