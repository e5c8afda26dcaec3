//! Names of countries, as people write and choose them.

use super::Country;
use culvert_base::quotable;

/// Names offered in place of one that no country has.
const OFFERED: usize = 5;

/// Codes and short names in English, in the order of the names. Each assigned code is here once.
const NAMES: &str = "\
AF Afghanistan|AX Åland Islands|AL Albania|DZ Algeria|AS American Samoa|AD Andorra|AO Angola|AI Anguilla|AQ Antarctica|\
AG Antigua and Barbuda|AR Argentina|AM Armenia|AW Aruba|AU Australia|AT Austria|AZ Azerbaijan|BS Bahamas|BH Bahrain|\
BD Bangladesh|BB Barbados|BY Belarus|BE Belgium|BZ Belize|BJ Benin|BM Bermuda|BT Bhutan|BO Bolivia|\
BQ Bonaire and Sint Eustatius and Saba|BA Bosnia and Herzegovina|BW Botswana|BV Bouvet Island|BR Brazil|\
IO British Indian Ocean Territory|VG British Virgin Islands|BN Brunei|BG Bulgaria|BF Burkina Faso|BI Burundi|\
KH Cambodia|CM Cameroon|CA Canada|CV Cape Verde|KY Cayman Islands|CF Central African Republic|TD Chad|CL Chile|\
CN China|CX Christmas Island|CC Cocos Islands|CO Colombia|KM Comoros|CG Congo|CD Congo (Democratic Republic)|\
CK Cook Islands|CR Costa Rica|CI Côte d’Ivoire|HR Croatia|CU Cuba|CW Curaçao|CY Cyprus|CZ Czechia|DK Denmark|\
DJ Djibouti|DM Dominica|DO Dominican Republic|TL East Timor|EC Ecuador|EG Egypt|SV El Salvador|GQ Equatorial Guinea|\
ER Eritrea|EE Estonia|SZ Eswatini|ET Ethiopia|FK Falkland Islands|FO Faroe Islands|FJ Fiji|FI Finland|FR France|\
GF French Guiana|PF French Polynesia|TF French Southern Territories|GA Gabon|GM Gambia|GE Georgia|DE Germany|GH Ghana|\
GI Gibraltar|GR Greece|GL Greenland|GD Grenada|GP Guadeloupe|GU Guam|GT Guatemala|GG Guernsey|GN Guinea|\
GW Guinea-Bissau|GY Guyana|HT Haiti|HM Heard Island and McDonald Islands|HN Honduras|HK Hong Kong|HU Hungary|\
IS Iceland|IN India|ID Indonesia|IR Iran|IQ Iraq|IE Ireland|IM Isle of Man|IL Israel|IT Italy|JM Jamaica|JP Japan|\
JE Jersey|JO Jordan|KZ Kazakhstan|KE Kenya|KI Kiribati|XK Kosovo|KW Kuwait|KG Kyrgyzstan|LA Laos|LV Latvia|\
LB Lebanon|LS Lesotho|LR Liberia|LY Libya|LI Liechtenstein|LT Lithuania|LU Luxembourg|MO Macao|MG Madagascar|\
MW Malawi|MY Malaysia|MV Maldives|ML Mali|MT Malta|MH Marshall Islands|MQ Martinique|MR Mauritania|MU Mauritius|\
YT Mayotte|MX Mexico|FM Micronesia|MD Moldova|MC Monaco|MN Mongolia|ME Montenegro|MS Montserrat|MA Morocco|\
MZ Mozambique|MM Myanmar|NA Namibia|NR Nauru|NP Nepal|NL Netherlands|NC New Caledonia|NZ New Zealand|NI Nicaragua|\
NE Niger|NG Nigeria|NU Niue|NF Norfolk Island|KP North Korea|MK North Macedonia|MP Northern Mariana Islands|NO Norway|\
OM Oman|PK Pakistan|PW Palau|PS Palestine|PA Panama|PG Papua New Guinea|PY Paraguay|PE Peru|PH Philippines|\
PN Pitcairn|PL Poland|PT Portugal|PR Puerto Rico|QA Qatar|RE Réunion|RO Romania|RU Russia|RW Rwanda|\
BL Saint Barthélemy|SH Saint Helena|KN Saint Kitts and Nevis|LC Saint Lucia|MF Saint Martin|\
PM Saint Pierre and Miquelon|VC Saint Vincent and the Grenadines|WS Samoa|SM San Marino|ST São Tomé and Príncipe|\
SA Saudi Arabia|SN Senegal|RS Serbia|SC Seychelles|SL Sierra Leone|SG Singapore|SX Sint Maarten|SK Slovakia|\
SI Slovenia|SB Solomon Islands|SO Somalia|ZA South Africa|GS South Georgia and the South Sandwich Islands|\
KR South Korea|SS South Sudan|ES Spain|LK Sri Lanka|SD Sudan|SR Suriname|SJ Svalbard and Jan Mayen|SE Sweden|\
CH Switzerland|SY Syria|TW Taiwan|TJ Tajikistan|TZ Tanzania|TH Thailand|TG Togo|TK Tokelau|TO Tonga|\
TT Trinidad and Tobago|TN Tunisia|TR Turkey|TM Turkmenistan|TC Turks and Caicos Islands|TV Tuvalu|UG Uganda|\
UA Ukraine|AE United Arab Emirates|GB United Kingdom|US United States|UM United States Minor Outlying Islands|\
VI United States Virgin Islands|UY Uruguay|UZ Uzbekistan|VU Vanuatu|VA Vatican City|VE Venezuela|VN Vietnam|\
WF Wallis and Futuna|EH Western Sahara|YE Yemen|ZM Zambia|ZW Zimbabwe";

/// Other names under which people look for one.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("BQ", "Caribbean Netherlands"),
    ("CD", "DR Congo"),
    ("CI", "Ivory Coast"),
    ("CV", "Cabo Verde"),
    ("CZ", "Czech Republic"),
    ("GB", "Great Britain"),
    ("GB", "England"),
    ("HK", "Hongkong"),
    ("KR", "Korea"),
    ("MM", "Burma"),
    ("MO", "Macau"),
    ("NL", "Holland"),
    ("RU", "Russian Federation"),
    ("SZ", "Swaziland"),
    ("TL", "Timor-Leste"),
    ("TR", "Türkiye"),
    ("US", "USA"),
    ("US", "United States of America"),
    ("VA", "Holy See"),
];

fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMES.split('|').filter_map(|entry| entry.split_once(' '))
}

impl Country {
    /// The code and the name of each country, in the order of the names.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        all()
    }

    /// The short name in English.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        let mut found = all().filter(|(code, _)| *code == self.as_str());
        found.next().map(|(_, name)| name)
    }

    /// The code of the country that a text names: by its name, or by the code itself, in any case.
    ///
    /// # Errors
    /// The text says which names are like it, for people.
    pub fn code_of(text: &str) -> Result<String, String> {
        let text = text.trim();
        if text.parse::<Self>().is_ok() {
            return Ok(text.to_ascii_uppercase());
        }
        let wanted = plain(text);
        let others = OTHER_NAMES.iter().copied();
        let mut known = all().chain(others);
        if let Some((code, _)) = known.find(|(_, name)| plain(name) == wanted) {
            return Ok(code.to_owned());
        }
        let begins = |name: &str| wanted.chars().count() > 2 && plain(name).contains(&wanted);
        let like: Vec<_> = all().filter(|(_, name)| begins(name)).collect();
        let quoted = quotable(text);
        Err(match &*like {
            [] => format!(
                "`{quoted}` is no country: write a name in English such as Germany, or a code of ISO 3166 such as DE"
            ),
            like => {
                let names: Vec<_> = like.iter().take(OFFERED).map(|(_, name)| *name).collect();
                format!("`{quoted}` is no country: is it {}?", names.join(" or "))
            }
        })
    }
}

/// Without spaces and signs, in lower case and without marks of the languages that the names are from.
fn plain(name: &str) -> String {
    let letters = name.chars().flat_map(char::to_lowercase);
    let plain = letters.filter_map(|char| match char {
        'å' | 'ã' => Some('a'),
        'é' => Some('e'),
        'í' => Some('i'),
        'ô' => Some('o'),
        'ü' => Some('u'),
        'ç' => Some('c'),
        ' ' | '-' | '.' | '\'' | '’' | '(' | ')' => None,
        char => Some(char),
    });
    plain.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_assigned_code_has_one_name_and_every_name_is_read_as_its_code() {
        let codes: BTreeSet<_> = all().map(|(code, _)| code).collect();
        assert_eq!((codes.len(), all().count()), (250, 250));
        for (code, name) in all().chain(OTHER_NAMES.iter().copied()) {
            let country: Country = code.parse().unwrap();
            assert_eq!(country.check_assigned(), Ok(()), "{code} {name}");
            assert_eq!(Country::code_of(name).as_deref(), Ok(code), "{name}");
            // A field of a form has several, with commas between.
            assert!(!name.contains(','), "{name}");
        }
        let germany: Country = "DE".parse().unwrap();
        assert_eq!(germany.name(), Some("Germany"));
    }

    #[test]
    fn a_country_is_named_in_any_case_and_without_marks() {
        for (text, code) in [
            ("germany", "DE"),
            (" GERMANY ", "DE"),
            ("de", "DE"),
            ("cote d'ivoire", "CI"),
            ("Guinea Bissau", "GW"),
            ("Niger", "NE"),
            ("turkiye", "TR"),
            // A code that no country has is judged together with all other conditions.
            ("XX", "XX"),
        ] {
            assert_eq!(Country::code_of(text).as_deref(), Ok(code), "{text}");
        }
        for (text, told) in [
            ("Atlantis", "in English such as Germany"),
            ("German", "is it Germany?"),
            ("united", "United Arab Emirates or United Kingdom"),
            ("", "no country"),
            ("D", "no country"),
            ("\u{202e}ynamreG", "no country"),
            ("Ger\u{200b}many", "no country"),
            ("<b>", "no country"),
        ] {
            let error = Country::code_of(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        assert!(Country::code_of(&"x".repeat(10_000)).unwrap_err().len() < 300);
    }
}
