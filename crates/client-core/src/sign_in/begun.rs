//! The codes of a portal, checked: a portal may be hostile, and people open its URLs.

use super::status::{SignInFailure, SignInFault};
use culvert_wire::api::DeviceBegun;
use culvert_wire::token::Portal;
use zeroize::Zeroizing;

/// The longest device code, in bytes; a portal's has some 60.
const MAX_DEVICE_CODE_LEN: usize = 1_024;

/// The longest code that people compare, in bytes; a portal's has nine.
const MAX_USER_CODE_LEN: usize = 32;

/// The longest URL, in bytes: that of a portal, 2,000, a path and a code.
const MAX_URL_LEN: usize = 2_100;

/// The codes of one sign-in.
#[derive(Debug)]
pub(super) struct Codes {
    /// The code by which the machine polls; a secret.
    pub(super) device: Zeroizing<String>,
    /// The code that people compare.
    pub(super) user: String,
    pub(super) url: String,
    pub(super) url_with_code: Option<String>,
}

impl Codes {
    /// The codes of an answer of this portal, whose URLs must be of the portal itself.
    pub(super) fn check(begun: DeviceBegun, portal: &Portal) -> Result<Self, SignInFault> {
        let device = Zeroizing::new(begun.device_code);
        let faulty = |what: &str| SignInFault {
            code: SignInFailure::NotAPortal,
            text: format!(
                "{} answers with {what}, as no portal does; check the address",
                portal.url
            ),
        };
        if !is_plain(&device, MAX_DEVICE_CODE_LEN) {
            return Err(faulty("a device code that can't be one"));
        }
        let is_code = |it: char| it.is_ascii_alphanumeric() || it == '-';
        let user = begun.user_code;
        if !is_plain(&user, MAX_USER_CODE_LEN) || !user.chars().all(is_code) {
            return Err(faulty("a code that can't be one"));
        }
        let url_with_code = Some(begun.url_with_code).filter(|url| !url.is_empty());
        for url in url_with_code.iter().chain([&begun.url]) {
            if !is_plain(url, MAX_URL_LEN) {
                return Err(faulty("a URL that can't be one"));
            }
            if !is_of(url, portal) {
                return Err(foreign(url, portal));
            }
        }
        Ok(Self {
            device,
            user,
            url: begun.url,
            url_with_code,
        })
    }
}

/// True for 1 to `max_len` visible characters of ASCII.
fn is_plain(text: &str, max_len: usize) -> bool {
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    is_visible && !text.is_empty() && text.len() <= max_len
}

/// True if a URL has the portal's scheme, host and port.
fn is_of(url: &str, portal: &Portal) -> bool {
    origin(url).is_some_and(|it| it.url.eq_ignore_ascii_case(&portal.url))
}

/// Scheme, host and port of a URL, if a portal may be there.
fn origin(url: &str) -> Option<Portal> {
    let rest = url.strip_prefix("https://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    Portal::new(&url[.."https://".len() + end], None).ok()
}

/// The portal has another address for people than the one that was asked.
fn foreign(url: &str, portal: &Portal) -> SignInFault {
    let asked = &portal.url;
    let text = match origin(url) {
        Some(own) => format!(
            "{asked} sends people to {}: if that is the portal's own address, sign in there",
            own.url
        ),
        None => {
            format!("{asked} sends people to no portal's URL, as no portal does; check the address")
        }
    };
    SignInFault {
        code: SignInFailure::NotAPortal,
        text,
    }
}
