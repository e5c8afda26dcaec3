//! Looks up the country of an address.

use crate::CountriesError;
use culvert_policy::Country;
use std::fmt::Debug;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// Knows countries of addresses. It is asked about the address that the portal sees, never about
/// one that a client names.
pub trait Countries: Debug + Send + Sync {
    /// The country, if it is known.
    fn country(&self, address: IpAddr) -> Option<Country>;

    /// True if there is a database: otherwise no condition about a country ever holds.
    fn has_database(&self) -> bool {
        true
    }
}

/// Nobody supplied a database: no country is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCountries;

impl Countries for NoCountries {
    fn country(&self, _address: IpAddr) -> Option<Country> {
        None
    }

    fn has_database(&self) -> bool {
        false
    }
}

/// A database in the format of MaxMind that names countries.
pub struct CountryFile {
    path: PathBuf,
    reader: RwLock<Reader>,
}

type Reader = maxminddb::Reader<Vec<u8>>;

impl CountryFile {
    /// Reads the whole file, some megabytes, into memory.
    ///
    /// # Errors
    /// [`CountriesError`] where it can't be read or is none.
    pub fn open(path: &Path) -> Result<Self, CountriesError> {
        Ok(Self {
            path: path.to_owned(),
            reader: RwLock::new(read(path)?),
        })
    }

    /// Reads the file again, for addresses that are asked about from now on.
    ///
    /// # Errors
    /// As [`Self::open`]; what was known is known still then.
    pub fn reload(&self) -> Result<(), CountriesError> {
        let reader = read(&self.path)?;
        *self.reader.write().unwrap_or_else(PoisonError::into_inner) = reader;
        Ok(())
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Countries for CountryFile {
    fn country(&self, address: IpAddr) -> Option<Country> {
        let reader = self.reader.read().unwrap_or_else(PoisonError::into_inner);
        // The country of an address without an entry is unknown.
        let found = reader.lookup(address.to_canonical()).ok()?;
        let entry: maxminddb::geoip2::Country<'_> = found.decode().ok()??;
        entry.country.iso_code?.parse().ok()
    }
}

impl Debug for CountryFile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("CountryFile").field(&self.path).finish()
    }
}

fn read(path: &Path) -> Result<Reader, CountriesError> {
    Reader::open_readfile(path).map_err(|error| CountriesError {
        path: path.to_owned(),
        reason: format!("{error}; a database of countries in MaxMind's format is needed"),
    })
}

#[cfg(test)]
#[path = "../../../tests/fixtures/country_file.rs"]
mod country_file;

#[cfg(test)]
mod tests {
    use super::country_file::country_file;
    use super::*;
    use std::io::Write;

    fn database(country: &str) -> Vec<u8> {
        country_file([203, 0, 113, 0], 24, country)
    }

    #[test]
    fn the_country_of_an_address_is_what_the_file_says_and_otherwise_unknown() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&database("DE")).unwrap();
        let countries = CountryFile::open(file.path()).unwrap();
        let country = |address: &str| countries.country(address.parse().unwrap());
        assert_eq!(country("203.0.113.9"), Some("DE".parse().unwrap()));
        assert_eq!(country("::ffff:203.0.113.9"), Some("DE".parse().unwrap()));
        assert_eq!(country("203.0.112.9"), None);
        assert_eq!(country("2001:db8::1"), None);
        assert_eq!(NoCountries.country("203.0.113.9".parse().unwrap()), None);
    }

    #[test]
    fn a_file_that_changes_is_read_again_and_a_bad_one_changes_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), database("DE")).unwrap();
        let countries = CountryFile::open(file.path()).unwrap();
        let country = || countries.country("203.0.113.9".parse().unwrap());
        std::fs::write(file.path(), database("AT")).unwrap();
        assert_eq!(country(), Some("DE".parse().unwrap()));
        countries.reload().unwrap();
        assert_eq!(country(), Some("AT".parse().unwrap()));
        std::fs::write(file.path(), &database("DE")[..100]).unwrap();
        countries.reload().unwrap_err();
        assert_eq!(country(), Some("AT".parse().unwrap()));
    }

    #[test]
    fn a_file_that_is_no_database_is_refused_by_its_name() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"not a database").unwrap();
        let error = CountryFile::open(file.path()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&file.path().display().to_string())
        );
    }
}
