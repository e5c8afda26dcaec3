//! The page of diagnostics: the network check, the problems of this machine, and what somebody who helps asks for.

use super::{App, name};
use adw::prelude::*;
use culvert_desktop_core::netcheck::{BUNDLE_COMMAND, Finding, LOG_COMMAND, Verdict};
use culvert_desktop_core::present;
use culvert_desktop_core::status::Status;
use culvert_desktop_core::text::{self, isolate};
use culvert_desktop_core::words::{Message, Value, Words};
use std::cell::RefCell;
use std::rc::Rc;

/// The most problems that are shown.
const MAX_PROBLEMS: usize = 50;

/// The page.
pub(super) struct Diagnostics {
    pub(super) page: adw::PreferencesPage,
    check: adw::PreferencesGroup,
    button: gtk::Button,
    spinner: gtk::Spinner,
    findings: RefCell<Vec<adw::ActionRow>>,
    problems: adw::PreferencesGroup,
    problem_rows: RefCell<Vec<adw::ActionRow>>,
    shown_problems: RefCell<Vec<String>>,
    facts: Facts,
    bundle: Bundle,
    log: adw::ActionRow,
}

/// The rows that tell what the service says about itself.
struct Facts {
    service: adw::ActionRow,
    computer: adw::ActionRow,
    portal: adw::ActionRow,
    dns: adw::ActionRow,
}

/// The row that makes a debug bundle.
struct Bundle {
    row: adw::ActionRow,
    make: gtk::Button,
    open: gtk::Button,
}

impl Diagnostics {
    pub(super) fn new(app: &Rc<App>) -> Self {
        let words = &app.words;
        let button = gtk::Button::builder()
            .label(words.get(Message::NetcheckRun))
            .action_name("app.check")
            .valign(gtk::Align::Center)
            .build();
        let spinner = gtk::Spinner::builder().visible(false).build();
        let suffix = gtk::Box::builder().spacing(8).build();
        suffix.append(&spinner);
        suffix.append(&button);
        let check = group(words, Message::NetcheckTitle);
        check.set_description(Some(&words.get(Message::NetcheckDetail)));
        check.set_header_suffix(Some(&suffix));
        let problems = group(words, Message::Problems);
        problems.set_visible(false);
        let help = group(words, Message::HelpTitle);
        let bundle = Bundle {
            row: command(app, Message::Bundle, BUNDLE_COMMAND),
            make: action(words, Message::BundleMake, "app.make-bundle"),
            open: action(words, Message::OpenFolder, "app.open-bundle"),
        };
        bundle.open.set_visible(false);
        bundle.row.add_suffix(&bundle.open);
        bundle.row.add_suffix(&bundle.make);
        let log = command(app, Message::Log, LOG_COMMAND);
        log.add_suffix(&action(words, Message::LogShow, "app.show-log"));
        help.add(&bundle.row);
        help.add(&log);
        let versions = group(words, Message::Versions);
        let facts = Facts {
            service: fact(words, Message::VersionService, "–"),
            computer: fact(words, Message::Computer, "–"),
            portal: fact(words, Message::Portal, "–"),
            dns: fact(words, Message::Dns, "–"),
        };
        versions.add(&facts.service);
        versions.add(&fact(
            words,
            Message::VersionWindow,
            env!("CARGO_PKG_VERSION"),
        ));
        for row in [&facts.computer, &facts.portal, &facts.dns] {
            versions.add(row);
        }
        let page = adw::PreferencesPage::new();
        for group in [&check, &problems, &help, &versions] {
            page.add(group);
        }
        Self {
            page,
            check,
            button,
            spinner,
            findings: RefCell::default(),
            problems,
            problem_rows: RefCell::default(),
            shown_problems: RefCell::default(),
            facts,
            bundle,
            log,
        }
    }

    /// Shows that the service does not give its log, below the command that shows it.
    pub(super) fn show_no_log(&self, words: &Words) {
        let told = words.get(Message::LogFailed);
        self.log.set_subtitle(&format!("{LOG_COMMAND}\n{told}"));
        self.log.set_subtitle_lines(0);
    }

    /// Shows that a debug bundle is being made.
    pub(super) fn begin_bundle(&self, words: &Words) {
        self.bundle.make.set_sensitive(false);
        self.bundle
            .make
            .set_label(&words.get(Message::BundleMaking));
    }

    /// Shows what became of a debug bundle.
    pub(super) fn end_bundle(&self, words: &Words, told: &str, is_made: bool) {
        self.bundle.make.set_sensitive(true);
        self.bundle.make.set_label(&words.get(Message::BundleMake));
        self.bundle.open.set_visible(is_made);
        self.bundle.row.set_subtitle(told);
        self.bundle.row.set_subtitle_lines(0);
    }

    /// Shows that a check runs.
    pub(super) fn begin_check(&self, words: &Words) {
        self.button.set_sensitive(false);
        self.button.set_label(&words.get(Message::NetcheckRunning));
        self.spinner.set_visible(true);
        self.spinner.start();
    }

    /// Shows the findings of a check that has ended.
    pub(super) fn show_findings(&self, words: &Words, findings: Result<Vec<Finding>, String>) {
        self.button.set_sensitive(true);
        self.button.set_label(&words.get(Message::NetcheckRun));
        self.spinner.stop();
        self.spinner.set_visible(false);
        for row in self.findings.take() {
            self.check.remove(&row);
        }
        let (summary, findings) = match findings {
            Ok(findings) => (summary(words, &findings), findings),
            Err(why) => (
                words.with(Message::NetcheckFailed, &[("why", Value::Text(&why))]),
                Vec::new(),
            ),
        };
        // The description of a group is markup.
        self.check
            .set_description(Some(&text::escape_markup(&summary)));
        let rows: Vec<adw::ActionRow> = findings
            .iter()
            .map(|finding| finding_row(words, finding))
            .collect();
        for row in &rows {
            self.check.add(row);
        }
        self.findings.replace(rows);
    }

    /// Shows what the service says about itself and this machine.
    pub(super) fn show_status(&self, words: &Words, status: Option<&Status>) {
        let shown = |text: String| match text.is_empty() {
            true => "–".to_owned(),
            false => isolate(&text),
        };
        let of = |field: fn(&Status) -> String| shown(status.map(field).unwrap_or_default());
        set_subtitle(&self.facts.service, &of(present::service_version));
        set_subtitle(&self.facts.computer, &of(|status| status.name.clone()));
        set_subtitle(&self.facts.portal, &of(|status| status.portal_url.clone()));
        let dns = status.map_or_else(String::new, |status| present::dns(words, status));
        set_subtitle(&self.facts.dns, if dns.is_empty() { "–" } else { &dns });
        let problems: &[String] = status.map_or(&[], |status| &status.problems);
        let problems = &problems[..problems.len().min(MAX_PROBLEMS)];
        if *self.shown_problems.borrow() == problems {
            return;
        }
        self.shown_problems.replace(problems.to_vec());
        for row in self.problem_rows.take() {
            self.problems.remove(&row);
        }
        let rows: Vec<adw::ActionRow> = problems
            .iter()
            .map(|problem| {
                let row = plain_row(&isolate(problem));
                row.set_title_lines(0);
                row.add_prefix(&verdict_icon(words, Verdict::Warning));
                row
            })
            .collect();
        for row in &rows {
            self.problems.add(row);
        }
        self.problems.set_visible(!rows.is_empty());
        self.problem_rows.replace(rows);
    }
}

fn summary(words: &Words, findings: &[Finding]) -> String {
    let failed = findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Failed)
        .count();
    match u64::try_from(failed) {
        Ok(0) => words.get(Message::NetcheckGood),
        count => words.with(
            Message::NetcheckBad,
            &[("count", Value::Number(count.unwrap_or(u64::MAX)))],
        ),
    }
}

fn finding_row(words: &Words, finding: &Finding) -> adw::ActionRow {
    let row = plain_row(&present::check(words, &finding.check));
    let mut subtitle = isolate(&finding.found);
    if let Some(fix) = &finding.fix {
        subtitle.push('\n');
        subtitle += &words.with(Message::NetcheckFix, &[("fix", Value::Text(fix))]);
    }
    row.set_subtitle(&subtitle);
    row.set_subtitle_lines(0);
    row.add_prefix(&verdict_icon(words, finding.verdict));
    row
}

fn verdict_icon(words: &Words, verdict: Verdict) -> gtk::Image {
    let (icon, class, message) = match verdict {
        Verdict::Ok => ("emblem-ok-symbolic", "verdict-ok", Message::VerdictOk),
        Verdict::Warning => (
            "dialog-warning-symbolic",
            "verdict-warning",
            Message::VerdictWarning,
        ),
        Verdict::Failed => (
            "dialog-error-symbolic",
            "verdict-failed",
            Message::VerdictFailed,
        ),
        Verdict::Skipped => (
            "dialog-question-symbolic",
            "dim-label",
            Message::VerdictSkipped,
        ),
    };
    let image = gtk::Image::builder()
        .icon_name(icon)
        .css_classes([class])
        .build();
    let text = words.get(message);
    image.set_tooltip_text(Some(&text));
    name(&image, &text);
    image
}

fn group(words: &Words, title: Message) -> adw::PreferencesGroup {
    adw::PreferencesGroup::builder()
        .title(words.get(title))
        .build()
}

/// A row whose texts are no markup.
fn plain_row(title: &str) -> adw::ActionRow {
    let row = adw::ActionRow::builder().use_markup(false).build();
    row.set_title(title);
    row
}

fn action(words: &Words, label: Message, action: &str) -> gtk::Button {
    gtk::Button::builder()
        .label(words.get(label))
        .action_name(action)
        .valign(gtk::Align::Center)
        .build()
}

fn fact(words: &Words, title: Message, value: &str) -> adw::ActionRow {
    let row = plain_row(&words.get(title));
    row.set_subtitle(value);
    row.add_css_class("property");
    row
}

fn set_subtitle(row: &adw::ActionRow, text: &str) {
    if row.subtitle().as_deref() != Some(text) {
        row.set_subtitle(text);
    }
}

/// A row with a command for a terminal, and a button that copies it.
fn command(app: &Rc<App>, title: Message, command: &'static str) -> adw::ActionRow {
    let row = fact(&app.words, title, command);
    let copy = gtk::Button::builder()
        .icon_name("edit-copy-symbolic")
        .css_classes(["flat"])
        .valign(gtk::Align::Center)
        .tooltip_text(app.words.get(Message::CopyCommand))
        .build();
    name(
        &copy,
        &format!(
            "{}: {}",
            app.words.get(Message::CopyCommand),
            app.words.get(title)
        ),
    );
    let weak = Rc::downgrade(app);
    copy.connect_clicked(move |_| {
        if let Some(app) = weak.upgrade() {
            app.copy(command);
        }
    });
    row.add_suffix(&copy);
    row
}
