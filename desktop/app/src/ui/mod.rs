//! The window. [`App`] holds what its parts share; each part is a file of its own and shows what [`App::refresh`] tells it.

mod accessible;
mod actions;
mod diagnostics;
mod dialogs;
mod gateways;
mod headline;
mod resources;
mod sign_in;
mod window;

use crate::options::Options;
use accessible::name;
use adw::prelude::*;
use culvert_desktop_core::exchange::Request;
use culvert_desktop_core::favourites::Favourites;
use culvert_desktop_core::notices::Notices;
use culvert_desktop_core::phase::{Contact, Offer, Phase};
use culvert_desktop_core::present::{self, Around};
use culvert_desktop_core::settings::{Settings, Theme};
use culvert_desktop_core::sign_in::Progress;
use culvert_desktop_core::status::{Control, Status};
use culvert_desktop_core::text::escape_markup;
use culvert_desktop_core::words::{Language, Message, Value, Words};
use culvert_desktop_link::{Event, Files, Link, Mailbox, Program, Service, SignInProcess};
use gtk::{gio, glib};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// The name of the application, of its icon and of its desktop file.
pub(crate) const ID: &str = "org.culvert.Desktop";

/// The state that the parts of the window share.
struct Model {
    contact: Contact,
    sign_in: Option<SignInState>,
    sign_ins: u64,
    settings: Settings,
    favourites: Favourites,
    notices: Notices,
}

/// A sign-in that is under way.
struct SignInState {
    number: u64,
    progress: Progress,
    /// Gives the sign-in up when it is dropped.
    _process: SignInProcess,
}

/// The program in its one instance.
pub(crate) struct App {
    application: adw::Application,
    words: Words,
    socket: String,
    program: Program,
    files: Files,
    mailbox: Arc<Mailbox>,
    link: Link,
    began: Instant,
    model: RefCell<Model>,
    window: OnceCell<window::Window>,
}

/// Runs the application until its last window is closed and it was told to end.
pub(crate) fn run(options: Options) -> glib::ExitCode {
    let application = adw::Application::new(Some(ID), gio::ApplicationFlags::default());
    let running: Rc<OnceCell<Rc<App>>> = Rc::default();
    let is_hidden = std::cell::Cell::new(options.is_hidden);
    application.connect_startup(glib::clone!(
        #[strong]
        running,
        move |application| match App::start(application, &options) {
            Ok(app) => drop(running.set(app)),
            Err(error) => {
                glib::g_critical!("culvert-desktop", "it can't start: {error}");
                application.quit();
            }
        }
    ));
    application.connect_activate(move |_| {
        if let Some(app) = running.get()
            && !is_hidden.replace(false)
        {
            app.present();
        }
    });
    // Options are read already.
    application.run_with_args::<&str>(&[])
}

impl App {
    fn start(application: &adw::Application, options: &Options) -> std::io::Result<Rc<Self>> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = variable("LC_ALL")
            .or_else(|| variable("LC_MESSAGES"))
            .or_else(|| variable("LANG"));
        let language = Language::of_environment(variable("LANGUAGE").as_deref(), locale.as_deref());
        let (wake, woken) = async_channel::bounded(1);
        // A full channel wakes the window already.
        let mailbox = Arc::new(Mailbox::new(move || {
            let _full = wake.try_send(());
        }));
        let files = Files::new(glib::user_config_dir());
        let app = Rc::new(Self {
            application: application.clone(),
            words: Words::new(language),
            socket: options.socket.to_string_lossy().into_owned(),
            program: Program {
                path: options.program.clone(),
                socket: options.socket.clone(),
            },
            link: Link::start(Service::at(options.socket.clone()), Arc::clone(&mailbox))?,
            mailbox,
            began: Instant::now(),
            model: RefCell::new(Model {
                contact: Contact::None,
                sign_in: None,
                sign_ins: 0,
                settings: files.settings(),
                favourites: files.favourites(),
                notices: Notices::default(),
            }),
            files,
            window: OnceCell::new(),
        });
        app.apply_theme();
        actions::add(&app);
        // It goes on for notifications when its window is closed, until it is told to end.
        let held = application.hold();
        let weak = Rc::downgrade(&app);
        glib::spawn_future_local(async move {
            let _held = held;
            while woken.recv().await.is_ok() {
                let Some(app) = weak.upgrade() else { break };
                app.collect();
            }
        });
        Ok(app)
    }

    /// Shows the window.
    fn present(self: &Rc<Self>) {
        let window = self.window.get_or_init(|| window::Window::new(self));
        self.refresh();
        window.show();
    }

    /// Milliseconds of the window's clock.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes what the threads have put into the mailbox.
    fn collect(self: &Rc<Self>) {
        let (contact, events) = self.mailbox.take();
        for event in events {
            self.handle(event);
        }
        let mut told = Vec::new();
        {
            let mut model = self.model.borrow_mut();
            if let Some(contact) = contact {
                model.contact = contact;
            }
            let Model {
                contact, notices, ..
            } = &mut *model;
            told.extend(notices.observe(contact, self.now_ms()));
        }
        for notice in told {
            self.notify(&present::notice(&self.words, &notice));
        }
        self.refresh();
    }

    fn handle(self: &Rc<Self>, event: Event) {
        match event {
            Event::CommandRefused(why) => {
                self.toast(
                    &self
                        .words
                        .with(Message::CommandRefused, &[("why", Value::Text(&why))]),
                );
            }
            Event::CommandLost => self.toast(&self.words.get(Message::CommandLost)),
            Event::SignIn(number, progress) => self.sign_in_goes_on(number, progress),
            Event::SignInEnded(number, result) => self.sign_in_ended(number, result),
            Event::Netcheck(findings) => {
                if let Some(window) = self.window.get() {
                    window.diagnostics.show_findings(&self.words, findings);
                }
            }
        }
    }

    /// The state of the window.
    fn phase(&self) -> Phase {
        let model = self.model.borrow();
        Phase::of(
            &model.contact,
            model.sign_in.as_ref().map(|sign_in| &sign_in.progress),
        )
    }

    /// The service's last status, if that is the state of the contact.
    fn status(&self) -> Option<Arc<Status>> {
        match &self.model.borrow().contact {
            Contact::Status(status) => Some(Arc::clone(status)),
            _ => None,
        }
    }

    /// Shows the state in every part of the window.
    fn refresh(self: &Rc<Self>) {
        let phase = self.phase();
        let status = self.status();
        let control = status
            .as_ref()
            .map_or(Control::Token, |status| status.service.control);
        let offer = Offer::of(&phase, control);
        actions::enable(self, &phase, offer);
        let Some(window) = self.window.get() else {
            return;
        };
        let portal_url = status
            .as_ref()
            .map_or("", |status| status.portal_url.as_str());
        let around = Around {
            socket: &self.socket,
            portal_url,
            now_ms: self.now_ms(),
        };
        let shown = present::headline(&self.words, &phase, &around);
        let is_managed = status.is_some() && control == Control::Token;
        window
            .headline
            .show(self, &phase, &shown, offer, is_managed);
        match status.filter(|_| phase.shows_resources()) {
            Some(status) => {
                window
                    .resources
                    .show(&self.words, &status, &self.model.borrow().favourites);
                window.gateways.show(&self.words, &status.gateways);
            }
            None => {
                window.resources.clear();
                window.gateways.show(&self.words, &[]);
            }
        }
        window.show_resources(phase.shows_resources());
        window
            .diagnostics
            .show_status(&self.words, self.status().as_deref());
    }

    /// Sends a command to the service.
    fn send(&self, command: Request) {
        if !self.link.send(command) {
            self.toast(&self.words.get(Message::CommandLost));
        }
    }

    /// Shows a line at the bottom of the window for some seconds.
    fn toast(&self, text: &str) {
        if let Some(window) = self.window.get() {
            // The title is markup here, and can't be told not to be before libadwaita 1.4.
            window
                .toasts
                .add_toast(adw::Toast::new(&escape_markup(text)));
        }
    }

    fn notify(&self, [title, body]: &[String; 2]) {
        let is_seen = self.window.get().is_some_and(window::Window::is_active);
        if is_seen || !self.model.borrow().settings.notifications {
            return;
        }
        let notification = gio::Notification::new(title);
        notification.set_body((!body.is_empty()).then_some(body));
        notification.set_default_action("app.show");
        // One of the same title takes its place.
        self.application
            .send_notification(Some(title), &notification);
    }

    /// Copies a text, and says so.
    fn copy(&self, text: &str) {
        if let Some(window) = self.window.get() {
            window.clipboard().set_text(text);
            self.toast(&self.words.get(Message::Copied));
        }
    }

    fn apply_theme(&self) {
        adw::StyleManager::default().set_color_scheme(match self.model.borrow().settings.theme {
            Theme::System => adw::ColorScheme::Default,
            Theme::Light => adw::ColorScheme::ForceLight,
            Theme::Dark => adw::ColorScheme::ForceDark,
        });
    }

    /// Changes the settings and saves them.
    fn change_settings(&self, change: impl FnOnce(&mut Settings)) {
        let mut model = self.model.borrow_mut();
        change(&mut model.settings);
        let saved = self.files.save_settings(&model.settings);
        drop(model);
        self.apply_theme();
        self.report(saved);
    }

    /// Marks a resource, or takes the mark away, and saves that.
    fn set_favourite(self: &Rc<Self>, id: &str, is_favourite: bool) {
        let mut model = self.model.borrow_mut();
        if model.favourites.contains(id) == is_favourite {
            return;
        }
        let is_changed = model.favourites.set(id, is_favourite);
        let saved = self.files.save_favourites(&model.favourites);
        drop(model);
        match is_changed {
            true => self.report(saved),
            false => self.toast(&self.words.get(Message::FavouritesFull)),
        }
        self.refresh();
    }

    fn report(&self, saved: std::io::Result<()>) {
        if let Err(error) = saved {
            let why = error.to_string();
            self.toast(
                &self
                    .words
                    .with(Message::SettingNotKept, &[("why", Value::Text(&why))]),
            );
        }
    }
}
