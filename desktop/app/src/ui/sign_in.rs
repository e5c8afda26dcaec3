//! Signing in: the dialog with the two ways, and the process of the browser's way.

use super::{App, SignInState};
use adw::prelude::*;
use culvert_desktop_core::exchange::{MAX_TOKEN_BYTES, Request, SignIn};
use culvert_desktop_core::phase::Phase;
use culvert_desktop_core::sign_in::{Code, Progress, portal_url};
use culvert_desktop_core::words::{Message, Value};
use culvert_desktop_link::{SignInProcess, SignInRequest};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use zeroize::Zeroizing;

/// Opens the dialog.
pub(super) fn open(app: &Rc<App>) {
    let Some(window) = app.window.get() else {
        return;
    };
    let words = &app.words;
    let dialog = adw::Window::builder()
        .transient_for(window.parent())
        .modal(true)
        .default_width(460)
        .default_height(520)
        .title(words.get(Message::SignIn))
        .build();
    let page = adw::PreferencesPage::new();
    page.add(&browser(app, &dialog));
    page.add(&token(app, &dialog));
    let content = gtk::Box::new(gtk::Orientation::Vertical, 0);
    content.append(&adw::HeaderBar::new());
    content.append(&page);
    dialog.set_content(Some(&content));
    let keys = gtk::EventControllerKey::new();
    let closed = dialog.clone();
    keys.connect_key_pressed(move |_, key, _, _| match key {
        gtk::gdk::Key::Escape => {
            closed.close();
            gtk::glib::Propagation::Stop
        }
        _ => gtk::glib::Propagation::Proceed,
    });
    dialog.add_controller(keys);
    dialog.present();
}

fn browser(app: &Rc<App>, dialog: &adw::Window) -> adw::PreferencesGroup {
    let words = &app.words;
    let group = adw::PreferencesGroup::builder()
        .title(words.get(Message::SignInBrowser))
        .description(words.get(Message::SignInBrowserDetail))
        .build();
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
    group.add(&portal);
    group.add(&certificate);
    group.add(&button);
    let (weak, dialog) = (Rc::downgrade(app), dialog.clone());
    let begin = Rc::new({
        let portal = portal.clone();
        move || {
            let Some(app) = weak.upgrade() else { return };
            match portal_url(&portal.text()) {
                Some(url) => {
                    let pin = certificate.text().trim().to_owned();
                    dialog.close();
                    app.begin_sign_in(url, Some(pin).filter(|pin| !pin.is_empty()));
                }
                None => {
                    portal.add_css_class("error");
                    app.toast(&app.words.get(Message::PortalInvalid));
                }
            }
        }
    });
    portal.connect_changed(|portal| portal.remove_css_class("error"));
    let entered = Rc::clone(&begin);
    portal.connect_entry_activated(move |_| entered());
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
    group.add(&entry);
    group.add(&button);
    let (weak, dialog) = (Rc::downgrade(app), dialog.clone());
    let begin = Rc::new({
        let entry = entry.clone();
        move || {
            let Some(app) = weak.upgrade() else { return };
            let token = Zeroizing::new(entry.text().trim().to_owned());
            let is_token = (1..=MAX_TOKEN_BYTES).contains(&token.len())
                && token.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_token {
                entry.add_css_class("error");
                app.toast(&app.words.get(Message::TokenInvalid));
                return;
            }
            entry.set_text("");
            dialog.close();
            app.send(Request::SignIn(SignIn::Token(token)));
        }
    });
    entry.connect_changed(|entry| entry.remove_css_class("error"));
    let entered = Rc::clone(&begin);
    entry.connect_entry_activated(move |_| entered());
    button.connect_clicked(move |_| begin());
    group
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
    /// Begins to sign in by a browser.
    fn begin_sign_in(self: &Rc<Self>, portal: String, certificate: Option<String>) {
        self.change_settings(|settings| settings.portal.clone_from(&portal));
        let number = {
            let mut model = self.model.borrow_mut();
            model.sign_ins += 1;
            model.sign_ins
        };
        let request = SignInRequest {
            number,
            portal,
            certificate,
        };
        let began: Instant = self.began;
        let now_ms = move || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        match SignInProcess::start(&self.program, request, Arc::clone(&self.mailbox), now_ms) {
            Ok(process) => {
                let progress = Progress::Asking;
                self.model.borrow_mut().sign_in = Some(SignInState {
                    number,
                    progress,
                    _process: process,
                });
            }
            Err(error) => self.say_that_sign_in_failed(&error.to_string()),
        }
        self.refresh();
    }

    /// Takes the progress of the sign-in with this number, unless it was given up.
    pub(super) fn sign_in_goes_on(self: &Rc<Self>, number: u64, progress: Progress) {
        let mut model = self.model.borrow_mut();
        let Some(sign_in) = model
            .sign_in
            .as_mut()
            .filter(|sign_in| sign_in.number == number)
        else {
            return;
        };
        let is_new =
            !matches!(sign_in.progress, Progress::Code(_)) && matches!(progress, Progress::Code(_));
        sign_in.progress = progress;
        drop(model);
        if is_new {
            self.open_browser();
        }
    }

    pub(super) fn sign_in_ended(self: &Rc<Self>, number: u64, result: Result<(), String>) {
        let is_current = self
            .model
            .borrow()
            .sign_in
            .as_ref()
            .is_some_and(|sign_in| sign_in.number == number);
        if !is_current {
            return;
        }
        self.model.borrow_mut().sign_in = None;
        if let Err(why) = result {
            self.say_that_sign_in_failed(&why);
        }
    }

    fn say_that_sign_in_failed(&self, why: &str) {
        self.toast(
            &self
                .words
                .with(Message::SignInFailed, &[("why", Value::Text(why))]),
        );
    }

    /// Gives up the sign-in that is under way.
    pub(super) fn cancel_sign_in(self: &Rc<Self>) {
        self.model.borrow_mut().sign_in = None;
        self.refresh();
    }

    /// The code that is to be approved.
    pub(super) fn code(&self) -> Option<Code> {
        match self.model.borrow().sign_in.as_ref()?.progress {
            Progress::Code(ref code) => Some(code.clone()),
            _ => None,
        }
    }

    /// Opens the browser at the page that approves the code.
    pub(super) fn open_browser(self: &Rc<Self>) {
        if let Some(code) = self
            .code()
            .filter(|_| matches!(self.phase(), Phase::SigningIn(_)))
        {
            self.open_url(&code.url);
        }
    }
}
