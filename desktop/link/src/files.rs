//! The person's files: settings, favourites, and the entry that starts the program with the session.

use culvert_desktop_core::favourites::{self, Favourites};
use culvert_desktop_core::settings::{self, AUTOSTART_FILE, Settings, autostart_entry};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The directory of the person's configuration, such as `~/.config`.
#[derive(Clone, Debug)]
pub struct Files {
    config: PathBuf,
}

impl Files {
    /// The files below `config`.
    #[must_use]
    pub const fn new(config: PathBuf) -> Self {
        Self { config }
    }

    /// The settings; the default ones if there are none.
    #[must_use]
    pub fn settings(&self) -> Settings {
        read(&self.own("settings.json"), settings::MAX_FILE_BYTES)
            .map_or_else(Settings::default, |file| Settings::parse(&file))
    }

    /// Saves the settings.
    ///
    /// # Errors
    /// The system's.
    pub fn save_settings(&self, settings: &Settings) -> io::Result<()> {
        write(&self.own("settings.json"), &settings.to_file())
    }

    /// The favourites; none if there is no file.
    #[must_use]
    pub fn favourites(&self) -> Favourites {
        read(&self.own("favourites"), favourites::MAX_FILE_BYTES)
            .map_or_else(Favourites::default, |file| Favourites::parse(&file))
    }

    /// Saves the favourites.
    ///
    /// # Errors
    /// The system's.
    pub fn save_favourites(&self, favourites: &Favourites) -> io::Result<()> {
        write(&self.own("favourites"), &favourites.to_file())
    }

    /// True if the program starts with the session.
    #[must_use]
    pub fn starts_with_session(&self) -> bool {
        self.autostart().exists()
    }

    /// Has the program start with the session, or not.
    ///
    /// # Errors
    /// The system's.
    pub fn set_start_with_session(&self, starts: bool) -> io::Result<()> {
        match starts {
            true => write(&self.autostart(), autostart_entry()),
            false => match fs::remove_file(self.autostart()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }

    fn own(&self, name: &str) -> PathBuf {
        self.config.join("culvert-desktop").join(name)
    }

    fn autostart(&self) -> PathBuf {
        self.config.join("autostart").join(AUTOSTART_FILE)
    }
}

fn read(path: &Path, most_bytes: u64) -> Option<String> {
    let mut text = String::new();
    File::open(path)
        .ok()?
        .take(most_bytes)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

/// Writes the whole file or nothing: a full disk leaves the former one.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_desktop_core::settings::Theme;

    #[test]
    fn files_are_read_as_they_were_written() {
        let directory =
            std::env::temp_dir().join(format!("culvert-desktop-files-{}", std::process::id()));
        let files = Files::new(directory.clone());
        assert_eq!(files.settings(), Settings::default());
        let settings = Settings {
            theme: Theme::Dark,
            ..Settings::default()
        };
        files.save_settings(&settings).unwrap();
        assert_eq!(files.settings(), settings);
        let mut favourites = Favourites::default();
        favourites.set("res_1", true);
        files.save_favourites(&favourites).unwrap();
        assert_eq!(files.favourites(), favourites);
        for starts in [true, true, false, false] {
            files.set_start_with_session(starts).unwrap();
            assert_eq!(files.starts_with_session(), starts);
        }
        fs::remove_dir_all(directory).unwrap();
    }
}
