//! Sleep of the machine: logind tells before and after it, by the signal `PrepareForSleep` on the system's D-Bus. Without that
//! bus or without logind, nothing is told, and the window shows what the service says.

use super::App;
use culvert_desktop_core::told::MAX_FALLING_ASLEEP_MS;
use gtk::gio;
use std::rc::Rc;

const LOGIND: &str = "org.freedesktop.login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const MANAGER_PATH: &str = "/org/freedesktop/login1";
const SIGNAL: &str = "PrepareForSleep";

/// Listens for as long as the program runs.
pub(super) fn listen(app: &Rc<App>) {
    let weak = Rc::downgrade(app);
    gio::bus_get(gio::BusType::System, gio::Cancellable::NONE, move |bus| {
        let (Ok(bus), Some(app)) = (bus, weak.upgrade()) else {
            return;
        };
        // The program does not end with the system's bus, which is the default of GDBus.
        bus.set_exit_on_close(false);
        let subscription = bus.subscribe_to_signal(
            Some(LOGIND),
            Some(MANAGER),
            Some(SIGNAL),
            Some(MANAGER_PATH),
            None,
            gio::DBusSignalFlags::NONE,
            move |signal| match (weak.upgrade(), signal.parameters.get::<(bool,)>()) {
                (Some(app), Some((true,))) => app.sleeps(),
                (Some(app), Some((false,))) => app.wakes(),
                _ => {}
            },
        );
        let _first = app.sleep_signal.set(subscription);
    });
}

impl App {
    fn sleeps(self: &Rc<Self>) {
        self.model.borrow_mut().told.sleeps();
        self.refresh();
        // A timer stands still while the machine sleeps. Without this, a logind that ends would leave the window asleep.
        self.after(
            MAX_FALLING_ASLEEP_MS,
            |app| &app.timers.asleep,
            |app| {
                let is_asleep = app.model.borrow().told.is_asleep();
                if is_asleep {
                    app.wakes();
                }
            },
        );
    }

    fn wakes(self: &Rc<Self>) {
        let round = self.link.ask_again();
        self.model.borrow_mut().told.wakes(round);
        self.refresh();
    }
}
