//! The window. [`App`] holds what its parts share; each part is a file of its own and shows what [`App::refresh`] tells it.

mod accessible;
mod actions;
mod diagnostics;
mod dialogs;
mod gateways;
mod headline;
mod pixmap;
mod preferences;
mod resources;
mod row;
mod sign_in;
mod sleep;
mod toast;
mod tray;
mod window;

use crate::options::Options;
use accessible::name;
use adw::prelude::*;
use culvert_desktop_core::dns::Switch;
use culvert_desktop_core::ended::{Ended, Moment};
use culvert_desktop_core::exchange::Request;
use culvert_desktop_core::favourites::Favourites;
use culvert_desktop_core::notices::{Notice, Notices};
use culvert_desktop_core::pace::Pace;
use culvert_desktop_core::phase::{Contact, Offer, Phase};
use culvert_desktop_core::present::{self, Around};
use culvert_desktop_core::settings::Settings;
use culvert_desktop_core::status::{Control, Status};
use culvert_desktop_core::told::Told;
use culvert_desktop_core::tray::Tray as Shown;
use culvert_desktop_core::words::{Language, Message, Value, Words};
use culvert_desktop_link::{Event, Files, Link, Mailbox, Program, Service, now_ms, processor_us};
use gtk::{gio, glib};
use std::cell::{Cell, OnceCell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The name of the application, of its icon and of its desktop file.
pub(crate) const ID: &str = "org.culvert.Desktop";

/// The state that the parts of the window share.
struct Model {
    told: Told,
    settings: Settings,
    favourites: Favourites,
    notices: Notices,
    ended: Ended,
    /// The state that the window showed last, and when.
    shown: Option<Phase>,
    pace: Pace,
    /// The portal of a sign-in that was begun here, until its code is there.
    opens_browser_for: Option<String>,
    /// True if no browser opened for the sign-in.
    browser_failed: bool,
    /// The debug bundle that was made last.
    bundle: Option<PathBuf>,
}

/// A timer that runs at most once at a time.
#[derive(Default)]
struct Timer(Cell<bool>);

#[derive(Default)]
struct Timers {
    /// For changes that the pace holds back.
    later: Timer,
    /// For texts that count seconds.
    second: Timer,
    /// For notifications that wait for their minute.
    notice: Timer,
    /// For resources that are marked as ended.
    ended: Timer,
    /// For rates that end.
    rate: Timer,
    /// For a machine that said that it goes to sleep.
    asleep: Timer,
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
    model: RefCell<Model>,
    tray: Option<Rc<tray::Tray>>,
    /// Holds the signal of the system by which it tells that it sleeps.
    sleep_signal: OnceCell<gio::SignalSubscription>,
    timers: Timers,
    window: OnceCell<window::Window>,
}

/// Runs the application until its last window is closed and it was told to end.
pub(crate) fn run(options: Options) -> glib::ExitCode {
    let application = adw::Application::new(Some(ID), gio::ApplicationFlags::default());
    let running: Rc<OnceCell<Rc<App>>> = Rc::default();
    let is_hidden = Cell::new(options.is_hidden);
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
            model: RefCell::new(Model {
                told: Told::default(),
                settings: files.settings(),
                favourites: files.favourites(),
                notices: Notices::default(),
                ended: Ended::default(),
                shown: None,
                pace: Pace::default(),
                opens_browser_for: None,
                browser_failed: false,
                bundle: None,
            }),
            tray: tray::Tray::new(application),
            sleep_signal: OnceCell::new(),
            timers: Timers::default(),
            files,
            window: OnceCell::new(),
        });
        app.apply_theme();
        actions::add(&app);
        sleep::listen(&app);
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
        window.show();
        // A window that is hidden is not kept up to date.
        self.refresh();
    }

    /// The window, shown: for dialogs, which need one.
    fn shown_window(self: &Rc<Self>) -> Option<&window::Window> {
        if !self.window.get().is_some_and(window::Window::is_visible) {
            self.present();
        }
        self.window.get()
    }

    /// Takes what the threads have put into the mailbox.
    fn collect(self: &Rc<Self>) {
        let (contact, events) = self.mailbox.take();
        for event in events {
            self.handle(event);
        }
        if let Some((contact, round)) = contact {
            let mut model = self.model.borrow_mut();
            model.told.tell(contact, round);
            let Model {
                told,
                notices,
                ended,
                ..
            } = &mut *model;
            let now = Moment {
                now_ms: now_ms(),
                unix_s: glib::real_time() / 1_000_000,
            };
            ended.observe(told.last(), now);
            let due = notices.observe(told.last(), now.now_ms);
            drop(model);
            self.notify_all(&due);
        }
        let (phase, wait_ms) = {
            let model = self.model.borrow();
            let wait_ms = model.pace.wait_ms(now_ms(), processor_us());
            (Phase::of(model.told.believed()), wait_ms)
        };
        // The state itself is shown at once. Changes in the lists have a pace.
        if wait_ms == 0 || self.model.borrow().shown.as_ref() != Some(&phase) {
            self.refresh();
        } else {
            self.after(wait_ms, |app| &app.timers.later, Self::refresh);
        }
    }

    /// Runs `act` once after `wait_ms`, unless `timer` runs already.
    fn after(self: &Rc<Self>, wait_ms: u64, timer: fn(&Self) -> &Timer, act: fn(&Rc<Self>)) {
        if timer(self).0.replace(true) {
            return;
        }
        let weak = Rc::downgrade(self);
        glib::timeout_add_local_once(Duration::from_millis(wait_ms), move || {
            if let Some(app) = weak.upgrade() {
                timer(&app).0.set(false);
                act(&app);
            }
        });
    }

    /// Shows notifications, and comes back for those that wait.
    fn notify_all(self: &Rc<Self>, notices: &[Notice]) {
        for notice in notices {
            self.notify(&present::notice(&self.words, notice));
        }
        let next_ms = self.model.borrow().notices.next_ms();
        if let Some(next_ms) = next_ms {
            let wait_ms = next_ms.saturating_sub(now_ms()).max(1);
            self.after(
                wait_ms,
                |app| &app.timers.notice,
                |app| {
                    let due = app.model.borrow_mut().notices.due(now_ms());
                    app.notify_all(&due);
                },
            );
        }
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
            Event::Log(Ok(lines)) => dialogs::show_log(self, &lines),
            Event::Log(Err(_)) => {
                if let Some(window) = self.window.get() {
                    window.diagnostics.show_no_log(&self.words);
                }
            }
            Event::Bundle(made) => self.bundle_made(made),
            Event::Netcheck(findings) => {
                if let Some(window) = self.window.get() {
                    window.diagnostics.show_findings(&self.words, findings);
                }
            }
        }
    }

    /// The state of the window.
    fn phase(&self) -> Phase {
        Phase::of(self.model.borrow().told.believed())
    }

    /// The service's last status, if that is the state of the contact.
    fn status(&self) -> Option<Arc<Status>> {
        match self.model.borrow().told.believed() {
            Contact::Status(status) => Some(Arc::clone(status)),
            _ => None,
        }
    }

    /// Shows the state in every part of the window, and in the tray.
    fn refresh(self: &Rc<Self>) {
        let phase = self.phase();
        let before = {
            let mut model = self.model.borrow_mut();
            model.pace.shown(now_ms(), processor_us());
            model.shown.replace(phase.clone())
        };
        let status = self.status();
        let offer = Offer::of(&phase, control_of(status.as_deref()));
        actions::enable(self, &phase, offer);
        if let Some(tray) = &self.tray {
            let shown = self.headline(&phase, status.as_deref());
            tray.show(Shown::of(&self.words, &phase, &shown, offer));
        }
        if let Some(window) = self.window.get().filter(|window| window.is_visible()) {
            self.refresh_lists(window, &phase, status.as_deref());
            self.refresh_times();
        }
        self.follow_sign_in(before.as_ref(), &phase);
    }

    fn refresh_lists(
        self: &Rc<Self>,
        window: &window::Window,
        phase: &Phase,
        status: Option<&Status>,
    ) {
        match status.filter(|_| phase.shows_resources()) {
            Some(status) => {
                self.expire_ended();
                let model = self.model.borrow();
                let (ended, favourites) = (model.ended.traces(), &model.favourites);
                window
                    .resources
                    .show(&self.words, status, ended, favourites);
                if let Some(next_ms) = window.resources.next_ms() {
                    let wait_ms = next_ms.saturating_sub(now_ms()).max(1);
                    self.after(wait_ms, |app| &app.timers.rate, Self::refresh);
                }
            }
            None => window.resources.clear(),
        }
        window.show_resources(phase.shows_resources());
        window.diagnostics.show_status(&self.words, status);
        let open = window.preferences.borrow().clone();
        if let Some(open) = open {
            open.show(&self.words, Switch::of(phase, status));
        }
    }

    /// Shows what tells times: the state, and the gateways. Comes back each second while they count.
    fn refresh_times(self: &Rc<Self>) {
        let Some(window) = self.window.get().filter(|window| window.is_visible()) else {
            return;
        };
        let (phase, status) = (self.phase(), self.status());
        let control = control_of(status.as_deref());
        let is_managed = status.is_some() && control == Control::Token;
        let offer = Offer::of(&phase, control);
        let shown = self.headline(&phase, status.as_deref());
        window
            .headline
            .show(self, &phase, &shown, offer, is_managed);
        let status = status.filter(|_| phase.shows_resources());
        let (gateways, heard_ms) = status.as_ref().map_or((&[][..], 0), |status| {
            (&status.gateways[..], status.heard.gateways_ms)
        });
        let age_ms = now_ms().saturating_sub(heard_ms);
        window.gateways.show(&self.words, gateways, age_ms);
        let is_silent = gateways
            .iter()
            .any(|gateway| gateway.silent_for_ms.is_some());
        if phase.counts_seconds() || is_silent {
            self.after(1_000, |app| &app.timers.second, Self::refresh_times);
        }
    }

    fn headline(&self, phase: &Phase, status: Option<&Status>) -> present::Headline {
        let around = Around {
            socket: &self.socket,
            portal_url: status.map_or("", |status| status.portal_url.as_str()),
            now_ms: now_ms(),
        };
        present::headline(&self.words, phase, &around)
    }

    /// Sends a command to the service.
    fn send(&self, command: Request) {
        if !self.link.send(command) {
            self.toast(&self.words.get(Message::CommandLost));
        }
    }

    fn notify(&self, [title, body]: &[String; 2]) {
        let is_seen = self.window.get().is_some_and(window::Window::is_active);
        if is_seen || !self.model.borrow().settings.notifications {
            return;
        }
        let notification = gio::Notification::new(title);
        if !body.is_empty() {
            notification.set_body(Some(body));
        }
        notification.set_default_action("app.show");
        // One of the same title takes its place.
        self.application
            .send_notification(Some(title), &notification);
    }

    /// Makes a debug bundle in a new directory of the person.
    fn make_bundle(self: &Rc<Self>) {
        let now = glib::DateTime::now_local().and_then(|now| now.format("%Y%m%dT%H%M%S"));
        let name = format!("culvert-debug-{}", now.as_deref().unwrap_or("now"));
        if let Some(window) = self.window.get() {
            window.diagnostics.begin_bundle(&self.words);
        }
        self.program
            .make_bundle(glib::home_dir().join(name), &self.mailbox);
    }

    fn bundle_made(&self, made: Result<PathBuf, String>) {
        let Some(window) = self.window.get() else {
            return;
        };
        let (message, name, value) = match &made {
            Ok(path) => (Message::BundleMade, "path", path.display().to_string()),
            Err(why) => (Message::BundleFailed, "why", why.clone()),
        };
        let told = self.words.with(message, &[(name, Value::Text(&value))]);
        window
            .diagnostics
            .end_bundle(&self.words, &told, made.is_ok());
        self.model.borrow_mut().bundle = made.ok();
    }

    /// Opens the directory of the debug bundle.
    fn open_bundle(self: &Rc<Self>) {
        let path = self.model.borrow().bundle.clone();
        if let Some(path) = path {
            self.open_url(&gio::File::for_path(path).uri());
        }
    }

    /// Copies a text, and says so.
    fn copy(&self, text: &str) {
        if let Some(window) = self.window.get() {
            window.clipboard().set_text(text);
            self.toast(&self.words.get(Message::Copied));
        }
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
}

/// The authority over the connection. One that is not known takes no commands.
fn control_of(status: Option<&Status>) -> Control {
    status.map_or(Control::Token, |status| status.service.control)
}
