//! Instants, as RFC 3339 writes them.

use culvert_base::UnixTime;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A [`UnixTime`] up to [`Self::MAX`]. In text and JSON, RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// 9999-12-30T22:00:00Z, the last instant that has a text: the last that `jiff` takes, whose local times must fit
    /// into the year 9999 in every zone.
    pub const MAX: Self = Self(253_402_207_200_000);

    /// From milliseconds of Unix time; what lies beyond [`Self::MAX`] becomes it.
    pub const fn from_unix_ms(millis: u64) -> Self {
        if millis > Self::MAX.0 {
            Self::MAX
        } else {
            Self(millis)
        }
    }

    /// Milliseconds of Unix time.
    pub const fn unix_ms(self) -> u64 {
        self.0
    }

    /// The instant, to calculate with.
    pub const fn unix_time(self) -> UnixTime {
        UnixTime::from_millis(self.0)
    }
}

impl From<UnixTime> for Timestamp {
    /// Instants beyond [`Self::MAX`] become it.
    fn from(time: UnixTime) -> Self {
        Self::from_unix_ms(time.as_millis())
    }
}

/// The text is not an instant after 1970, as RFC 3339 writes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an instant such as 2027-01-31T18:00:00Z")]
pub struct TimestampError;

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let instant: jiff::Timestamp = text.parse().map_err(|_| TimestampError)?;
        let unix_ms = u64::try_from(instant.as_millisecond()).map_err(|_| TimestampError)?;
        Ok(Self::from_unix_ms(unix_ms))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unix_ms = i64::try_from(self.0).map_err(|_| fmt::Error)?;
        let instant = jiff::Timestamp::from_millisecond(unix_ms).map_err(|_| fmt::Error)?;
        write!(out, "{instant}")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Timestamp {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(
                utoipa::openapi::KnownFormat::DateTime,
            )))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Timestamp {}
