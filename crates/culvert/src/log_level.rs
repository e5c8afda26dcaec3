//! Levels of the log, as options name them.

use clap::ValueEnum;
use tracing_subscriber::filter::LevelFilter;

/// The amount that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// The level that `LOG_LEVEL` names in wireguard-go's words; it ignores others as well.
    pub(crate) fn of_wireguard_go(word: &str) -> Option<Self> {
        match word {
            "verbose" | "debug" => Some(Self::Debug),
            "error" => Some(Self::Error),
            "silent" => Some(Self::Off),
            _ => None,
        }
    }
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::OFF,
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_wireguard_go_name_levels() {
        assert_eq!(LogLevel::of_wireguard_go("verbose"), Some(LogLevel::Debug));
        assert_eq!(LogLevel::of_wireguard_go("silent"), Some(LogLevel::Off));
        assert_eq!(LogLevel::of_wireguard_go("loud"), None);
    }
}
