//! The output of `culvert netcheck --json` as a checklist.

use serde::Deserialize;

/// The longest output that is read, in bytes: some findings for each relay and gateway, of a kilobyte.
pub const MAX_REPORT_BYTES: u64 = 4 * 1024 * 1024;

/// The most findings that are shown; more are of relays and gateways that the list already has many of.
pub const MAX_FINDINGS: usize = 500;

/// The verdict of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It works without, or may turn out to be in the way.
    Warning,
    /// It is in the way.
    Failed,
    /// It was not looked at, or the verdict is one of a later program.
    #[default]
    #[serde(other)]
    Skipped,
}

/// A line of the checklist.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Finding {
    /// The subject of the check.
    pub check: String,
    /// The verdict.
    #[serde(default)]
    pub verdict: Verdict,
    /// The finding in one line, in English.
    #[serde(default)]
    pub found: String,
    /// The fix, if there is something to do, in English.
    #[serde(default)]
    pub fix: Option<String>,
}

#[derive(Deserialize)]
struct Report {
    findings: Vec<Finding>,
}

/// Reads the report. The worst findings come first, and otherwise in the order of the report.
///
/// # Errors
/// If the output is no report.
pub fn parse(output: &[u8]) -> Result<Vec<Finding>, serde_json::Error> {
    let Report { mut findings } = serde_json::from_slice(output)?;
    findings.sort_by_key(|finding| match finding.verdict {
        Verdict::Failed => 0,
        Verdict::Warning => 1,
        Verdict::Ok => 2,
        Verdict::Skipped => 3,
    });
    findings.truncate(MAX_FINDINGS);
    Ok(findings)
}

/// The command that makes a debug bundle, for a terminal. It reads what root may read alone.
pub const BUNDLE_COMMAND: &str = "sudo culvert debug bundle";

/// The command that shows the service's log, for a terminal.
pub const LOG_COMMAND: &str = "journalctl -u culvert-client -e";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first() {
        let output = br#"{"schema_version":1,"portal":null,"findings":[
            {"check":"client","verdict":"ok","found":"runs","fix":null},
            {"check":"kernel","verdict":"later","found":"?"},
            {"check":"ipv6","verdict":"warning","found":"none","fix":"ask"},
            {"check":"portal","verdict":"failed","found":"no answer","fix":"look"}]}"#;
        let findings = parse(output).unwrap();
        let checks: Vec<&str> = findings
            .iter()
            .map(|finding| finding.check.as_str())
            .collect();
        assert_eq!(checks, ["portal", "ipv6", "client", "kernel"]);
        assert_eq!(findings[3].verdict, Verdict::Skipped);
        assert!(parse(b"culvert: no such command").is_err());
    }

    #[test]
    fn a_report_is_bounded() {
        let one = r#"{"check":"relay","verdict":"ok","found":"answers"}"#;
        let many = vec![one; MAX_FINDINGS + 1].join(",");
        let output = format!("{{\"findings\":[{many}]}}");
        assert_eq!(parse(output.as_bytes()).unwrap().len(), MAX_FINDINGS);
    }
}
