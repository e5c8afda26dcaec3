//! Signing in: the dialog with the two ways. The service carries the browser's way out, and tells its progress.

use super::App;
use adw::prelude::*;
use culvert_desktop_core::exchange::{MAX_TOKEN_BYTES, Request, SignIn};
use culvert_desktop_core::phase::Phase;
use culvert_desktop_core::sign_in::{Code, Progress, fingerprint, portal_url};
use culvert_desktop_core::words::Message;
use std::rc::Rc;
use zeroize::Zeroizing;

/// Opens the dialog.
pub(super) fn open(app: &Rc<App>) {
    let Some(window) = app.shown_window() else {
        return;
    };
    let words = &app.words;
    let dialog = adw::Window::builder()
        .transient_for(window.parent())
        .modal(true)
        .default_width(460)
        .default_height(600)
        .title(words.get(Message::SignIn))
        .build();
    let page = adw::PreferencesPage::new();
    let signs_in = app.status().is_some_and(|status| status.service.signs_in);
    page.add(&match signs_in {
        true => browser(app, &dialog),
        false => too_old(app),
    });
    page.add(&token(app, &dialog));
    let content = gtk::Box::new(gtk::Orientation::Vertical, 0);
    content.append(&adw::HeaderBar::new());
    content.append(&page);
    dialog.set_content(Some(&content));
    super::dialogs::close_by_escape(&dialog);
    dialog.present();
}

fn browser_group(app: &App, description: Message) -> adw::PreferencesGroup {
    adw::PreferencesGroup::builder()
        .title(app.words.get(Message::SignInBrowser))
        .description(app.words.get(description))
        .build()
}

/// In the place of the browser's way, where the service does not know it.
fn too_old(app: &App) -> adw::PreferencesGroup {
    browser_group(app, Message::UpdateService)
}

fn browser(app: &Rc<App>, dialog: &adw::Window) -> adw::PreferencesGroup {
    let words = &app.words;
    let group = browser_group(app, Message::SignInBrowserDetail);
    let portal = adw::EntryRow::builder()
        .title(words.get(Message::PortalAddress))
        .build();
    let known = app
        .status()
        .map(|status| status.portal_url.clone())
        .filter(|url| !url.is_empty());
    portal.set_text(&known.unwrap_or_else(|| app.model.borrow().settings.portal.clone()));
    let certificate = adw::EntryRow::builder()
        .title(words.get(Message::PortalCertificate))
        .build();
    let button = submit(&words.get(Message::SignInByBrowser));
    let complaint = Complaint::new();
    group.add(&portal);
    group.add(&certificate);
    group.add(&complaint.0);
    group.add(&button);
    let (weak, dialog) = (Rc::downgrade(app), dialog.clone());
    let begin = Rc::new({
        let (portal, certificate, complaint) =
            (portal.clone(), certificate.clone(), complaint.clone());
        move || {
            let Some(app) = weak.upgrade() else { return };
            let Some(url) = portal_url(&portal.text()) else {
                return complaint.of(&portal, &app.words.get(Message::PortalInvalid));
            };
            let typed = certificate.text();
            let pin = fingerprint(&typed);
            if pin.is_none() && !typed.trim().is_empty() {
                let text = app.words.get(Message::CertificateInvalid);
                return complaint.of(&certificate, &text);
            }
            dialog.close();
            app.begin_sign_in(url, pin);
        }
    });
    for row in [&portal, &certificate] {
        let complaint = complaint.clone();
        row.connect_changed(move |row| complaint.end(row));
        let entered = Rc::clone(&begin);
        row.connect_entry_activated(move |_| entered());
    }
    button.connect_clicked(move |_| begin());
    group
}

fn token(app: &Rc<App>, dialog: &adw::Window) -> adw::PreferencesGroup {
    let words = &app.words;
    let group = adw::PreferencesGroup::builder()
        .title(words.get(Message::SignInToken))
        .description(words.get(Message::SignInTokenDetail))
        .build();
    // Its buffer is locked in memory and erased.
    let entry = adw::PasswordEntryRow::builder()
        .title(words.get(Message::Token))
        .build();
    let button = submit(&words.get(Message::SignInByToken));
    let complaint = Complaint::new();
    group.add(&entry);
    group.add(&complaint.0);
    group.add(&button);
    let (weak, dialog) = (Rc::downgrade(app), dialog.clone());
    let begin = Rc::new({
        let (entry, complaint) = (entry.clone(), complaint.clone());
        move || {
            let Some(app) = weak.upgrade() else { return };
            let token = Zeroizing::new(entry.text().trim().to_owned());
            let is_token = (1..=MAX_TOKEN_BYTES).contains(&token.len())
                && token.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_token {
                return complaint.of(&entry, &app.words.get(Message::TokenInvalid));
            }
            entry.set_text("");
            dialog.close();
            app.send(Request::SignIn(SignIn::Token { token }));
        }
    });
    entry.connect_changed(move |entry| complaint.end(entry));
    let entered = Rc::clone(&begin);
    entry.connect_entry_activated(move |_| entered());
    button.connect_clicked(move |_| begin());
    group
}

/// The line below the fields of a way in that says what is wrong with one of them. It is hidden while nothing is.
#[derive(Clone)]
struct Complaint(gtk::Label);

impl Complaint {
    fn new() -> Self {
        let label = gtk::Label::builder()
            .visible(false)
            .wrap(true)
            .xalign(0.0)
            .margin_top(6)
            .css_classes(["error"])
            .accessible_role(gtk::AccessibleRole::Alert)
            .build();
        Self(label)
    }

    /// Says what is wrong with a field, and goes there.
    fn of(&self, field: &impl IsA<gtk::Widget>, text: &str) {
        field.add_css_class("error");
        self.0.set_label(text);
        self.0.set_visible(true);
        field.grab_focus();
    }

    /// The field has changed.
    fn end(&self, field: &impl IsA<gtk::Widget>) {
        field.remove_css_class("error");
        self.0.set_visible(false);
    }
}

fn submit(label: &str) -> gtk::Button {
    let button = gtk::Button::builder()
        .label(label)
        .css_classes(["pill", "suggested-action"])
        .halign(gtk::Align::Center)
        .margin_top(12)
        .build();
    button.set_receives_default(true);
    button
}

impl App {
    /// Has the service sign in by a browser.
    fn begin_sign_in(self: &Rc<Self>, portal: String, certificate: Option<String>) {
        self.change_settings(|settings| settings.portal.clone_from(&portal));
        // Another window's sign-in opens no browser here.
        self.model.borrow_mut().opens_browser_for = Some(portal.clone());
        self.send(Request::SignIn(SignIn::Portal {
            portal,
            certificate,
        }));
    }

    /// Opens the browser once the sign-in that was begun here has its code. `before` is the state that was shown last.
    pub(super) fn follow_sign_in(self: &Rc<Self>, before: Option<&Phase>, phase: &Phase) {
        let was_under_way = matches!(
            before,
            Some(Phase::SigningIn(Progress::Asking | Progress::Code(_)))
        );
        match phase {
            Phase::SigningIn(Progress::Code(_)) => {
                let told = self.status().and_then(|status| {
                    let sign_in = status.service.sign_in.as_ref()?;
                    portal_url(&sign_in.portal)
                });
                let wanted = self.model.borrow_mut().opens_browser_for.take();
                if wanted.is_none() || wanted != told {
                    return;
                }
            }
            Phase::SigningIn(Progress::Asking) | Phase::Checking => return,
            _ if was_under_way => {
                self.model.borrow_mut().opens_browser_for = None;
                return;
            }
            _ => return,
        }
        self.open_browser();
    }

    /// Has the service give up the sign-in that is under way, or forget that it failed.
    pub(super) fn cancel_sign_in(self: &Rc<Self>) {
        self.model.borrow_mut().opens_browser_for = None;
        self.send(Request::CancelSignIn);
    }

    /// The code that is to be approved.
    pub(super) fn code(&self) -> Option<Code> {
        match self.phase() {
            Phase::SigningIn(Progress::Code(code)) => Some(code),
            _ => None,
        }
    }

    /// Opens the browser at the page that approves the code.
    pub(super) fn open_browser(self: &Rc<Self>) {
        if let Some(code) = self.code() {
            let is_failed = !Self::launch(&code.url);
            // Said on the page, which stays: the address is there to be copied.
            self.model.borrow_mut().browser_failed = is_failed;
            self.refresh_times();
        }
    }
}
