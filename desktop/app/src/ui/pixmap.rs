//! The tray icon in pixels. GTK finds and draws the icon of the theme, as it does in the window.

use adw::prelude::*;
use culvert_desktop_core::pixels::{self, SIZES};
use culvert_desktop_core::tray::Tray as Shown;
use gtk::{cairo, gdk, graphene, gsk};

/// The icon if the theme has none of the state.
const FALLBACK: &str = "org.culvert.Desktop-symbolic";

/// The radius of the square's corners, as a part of its width.
const CORNER: f32 = 0.2;

/// Width, height, and pixels of four bytes each.
pub(super) type Pixmap = (i32, i32, Vec<u8>);

/// The icon of a state in each size. None before a state is shown.
pub(super) fn of(shown: &Shown) -> Vec<Pixmap> {
    let display = gdk::Display::default().filter(|_| !shown.icon.is_empty());
    let Some(display) = display else {
        return Vec::new();
    };
    let theme = gtk::IconTheme::for_display(&display);
    SIZES
        .into_iter()
        .filter_map(|size| draw(&theme, shown, size))
        .collect()
}

fn draw(theme: &gtk::IconTheme, shown: &Shown, size: i16) -> Option<Pixmap> {
    let icon_size = pixels::icon_size(size);
    let icon = theme.lookup_icon(
        shown.icon,
        &[FALLBACK],
        icon_size.into(),
        1,
        gtk::TextDirection::None,
        gtk::IconLookupFlags::FORCE_SYMBOLIC,
    );
    let width = f32::from(size);
    let square = || graphene::Rect::new(0.0, 0.0, width, width);
    let snapshot = gtk::Snapshot::new();
    snapshot.push_rounded_clip(&gsk::RoundedRect::from_rect(square(), width * CORNER));
    let [red, green, blue] = shown.tone.rgb().map(|colour| f32::from(colour) / 255.0);
    snapshot.append_color(&gdk::RGBA::new(red, green, blue, 1.0), &square());
    snapshot.pop();
    let margin = f32::from((size - icon_size) / 2);
    snapshot.translate(&graphene::Point::new(margin, margin));
    // The colours of a symbolic icon: of itself, of an error, of a warning and of success.
    let icon_width = f64::from(icon_size);
    icon.snapshot_symbolic(&snapshot, icon_width, icon_width, &[gdk::RGBA::WHITE; 4]);
    let node = snapshot.to_node()?;
    let size = i32::from(size);
    let mut surface = cairo::ImageSurface::create(cairo::Format::ARgb32, size, size).ok()?;
    // The surface gives its pixels once nothing draws on it.
    let context = cairo::Context::new(&surface).ok()?;
    node.draw(&context);
    drop(context);
    let words = surface.data().ok()?;
    Some((size, size, pixels::network_argb(&words)))
}
