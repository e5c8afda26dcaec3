//! A token by a browser: the portal gives a code, a person approves it in the console, on whatever
//! machine, and the portal gives the token (RFC 8628; docs/sign-in.md).

use crate::admin::http::{Ask, Http, RequestError};
use crate::exit::{Failure, Status, print};
use crate::json;
use crate::visible::visible;
use culvert_policy::readable_name;
use culvert_wire::api::{DeviceAnswer, DeviceAsk, DeviceBegun, NewDevice, PREFIX};
use culvert_wire::token::Portal;
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

/// Characters of what this machine calls itself that the portal takes.
const MAX_MACHINE_CHARS: usize = 60;

/// The allowed range of the interval between two polls, in seconds, whatever the portal asks for.
const INTERVALS: std::ops::RangeInclusive<u64> = 1..=60;

/// The longest that a code is waited for, whatever the portal says.
const LONGEST: Duration = Duration::from_secs(3_600);

/// A token, and whose it is.
pub(crate) struct Obtained {
    pub(crate) token: Zeroizing<String>,
    pub(crate) actor: String,
}

/// The manner in which the person is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// A line of JSON for programs.
    pub(crate) json: bool,
    /// Nothing is opened on this machine.
    pub(crate) no_browser: bool,
}

/// The JSON that programs are told.
#[derive(Serialize)]
struct Told<'a> {
    sign_in: Code<'a>,
}

#[derive(Serialize)]
struct Code<'a> {
    user_code: &'a str,
    url: &'a str,
    url_with_code: &'a str,
    expires_in_s: u64,
}

/// Has a person sign in for this machine, and waits for that.
///
/// # Errors
/// If the portal can't be reached, and if nobody approves in time or somebody denies.
pub(crate) async fn obtain(portal: Portal, manner: Manner) -> Result<Obtained, Failure> {
    let mut http = Http::without_token(portal);
    let machine = machine();
    let begun: DeviceBegun = post(&mut http, "/device-sign-ins", &NewDevice { machine }).await?;
    tell(&begun, manner)?;
    let deadline = Instant::now() + Duration::from_secs(begun.expires_in_s).min(LONGEST);
    let mut interval = seconds(begun.interval_s);
    let ask = DeviceAsk {
        device_code: begun.device_code,
    };
    while Instant::now() < deadline {
        sleep(interval).await;
        let answer = post(&mut http, "/device-sign-ins/ask", &ask).await;
        match answer {
            Ok(DeviceAnswer::Pending) => {}
            Ok(DeviceAnswer::SlowDown { interval_s }) => interval = seconds(interval_s),
            Ok(DeviceAnswer::Denied) => {
                let text = "the sign-in was denied in the console";
                return Err(Failure::new(Status::Denied, text));
            }
            Ok(DeviceAnswer::Expired) => break,
            Ok(DeviceAnswer::Approved { token, actor }) => {
                let token = Zeroizing::new(token);
                return Ok(Obtained { token, actor });
            }
            // RFC 8628 §3.5: who can't reach the server asks half as often.
            Err(failure) if failure.status == Status::PortalUnreachable => {
                interval = seconds(interval.as_secs() * 2);
            }
            Err(failure) => return Err(failure),
        }
    }
    let text = "nobody approved the code in time: run `culvert sign-in` again";
    Err(Failure::new(Status::NotEnrolled, text))
}

fn seconds(given: u64) -> Duration {
    Duration::from_secs(given.clamp(*INTERVALS.start(), *INTERVALS.end()))
}

async fn post<T: DeserializeOwned>(
    http: &mut Http,
    path: &str,
    body: &impl Serialize,
) -> Result<T, Failure> {
    let body = json::body(body)?;
    let path = format!("{PREFIX}{path}");
    let ask = Ask {
        method: Method::POST,
        path: &path,
        if_match: None,
        body: Some(body),
    };
    http.send(&ask).await.map_err(|refusal: RequestError| match refusal {
        RequestError::Problem(problem) if problem.status == 404 => Failure::new(
            Status::Failed,
            "the portal knows no sign-in by a browser: it is older than this version of culvert",
        ),
        refusal => refusal.into(),
    })
}

/// Tells the person where to go and what to compare. A browser is opened where there is a desktop, and the
/// person is not root: nobody browses as root.
fn tell(begun: &DeviceBegun, manner: Manner) -> Result<(), Failure> {
    if manner.json {
        let told = Told {
            sign_in: Code {
                user_code: &begun.user_code,
                url: &begun.url,
                url_with_code: &begun.url_with_code,
                expires_in_s: begun.expires_in_s,
            },
        };
        return print(json::line(&told)?.as_bytes());
    }
    let text = format!(
        "To sign this machine in, open\n\n  {}\n\non any machine, sign in there, and compare the code:\n\n  {}\n\n\
         It is good for {} minutes. Waiting …\n",
        visible(&begun.url_with_code),
        visible(&begun.user_code),
        begun.expires_in_s / 60,
    );
    // The caller may have closed standard error.
    let _unseen = std::io::stderr().write_all(text.as_bytes());
    if !manner.no_browser && has_desktop() {
        let opened = Command::new("xdg-open")
            .arg(&begun.url_with_code)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        // Without it, the person types the URL in.
        drop(opened);
    }
    Ok(())
}

fn has_desktop() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal()
        && (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"))
        && !rustix::process::geteuid().is_root()
}

/// The name that this machine gives itself.
fn machine() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    let name = readable_name(name.trim());
    let name: String = name.chars().take(MAX_MACHINE_CHARS).collect();
    match name.is_empty() {
        true => "a machine without a name".to_owned(),
        false => name,
    }
}
