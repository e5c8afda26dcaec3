//! The settings of the window, and the entry that starts it with the session.

use serde::{Deserialize, Serialize};

/// The longest file that is read, in bytes: some short fields.
pub const MAX_FILE_BYTES: u64 = 64 * 1024;

/// The settings, as their file has them in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Light, dark, or as the system.
    pub theme: Theme,
    /// True if notifications are shown.
    pub notifications: bool,
    /// The portal of the last sign-in by a browser.
    pub portal: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            theme: Theme::System,
            notifications: true,
            portal: String::new(),
        }
    }
}

/// Light, dark, or as the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Theme {
    /// Light.
    Light,
    /// Dark.
    Dark,
    /// As the system; also a value of a later version.
    #[default]
    #[serde(other)]
    System,
}

impl Settings {
    /// Reads the file; a broken one is as none.
    #[must_use]
    pub fn parse(file: &str) -> Self {
        serde_json::from_str(file).unwrap_or_default()
    }

    /// The file.
    #[must_use]
    pub fn to_file(&self) -> String {
        serde_json::to_string_pretty(self).map_or_else(|_| String::new(), |text| text + "\n")
    }
}

/// The name of the entry in `~/.config/autostart`.
pub const AUTOSTART_FILE: &str = "org.culvert.Desktop.desktop";

/// The entry that starts the program, without its window, with the session.
#[must_use]
pub fn autostart_entry() -> &'static str {
    "[Desktop Entry]\nType=Application\nName=Culvert\nExec=culvert-desktop --hidden\nIcon=org.culvert.Desktop\n\
     X-GNOME-Autostart-enabled=true\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_the_file() {
        let settings = Settings {
            theme: Theme::Dark,
            notifications: false,
            portal: "https://p.example".to_owned(),
        };
        assert_eq!(Settings::parse(&settings.to_file()), settings);
    }

    #[test]
    fn a_file_of_another_version_is_read_as_far_as_it_goes() {
        let settings = Settings::parse(r#"{"theme":"sepia","later":1,"notifications":false}"#);
        assert_eq!(
            settings,
            Settings {
                notifications: false,
                ..Settings::default()
            }
        );
        assert_eq!(Settings::parse("{"), Settings::default());
    }
}
