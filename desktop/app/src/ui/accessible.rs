//! Names for screen readers.
//!
//! GTK has the call since 4.0. Its bindings offer it only for 4.10 and later, so it is called directly here.

use adw::prelude::*;
use gtk::ffi::{GTK_ACCESSIBLE_PROPERTY_LABEL, GtkAccessible, GtkAccessibleProperty};
use gtk::glib::translate::ToGlibPtr;
use std::ffi::{CString, c_int};

#[expect(
    unsafe_code,
    reason = "the declaration of GTK's header, gtkaccessible.h"
)]
unsafe extern "C" {
    fn gtk_accessible_update_property(
        widget: *mut GtkAccessible,
        property: GtkAccessibleProperty,
        ...
    );
}

/// Names a widget for screen readers.
#[expect(
    unsafe_code,
    reason = "the bindings offer the call only for GTK 4.10 and later"
)]
pub(super) fn name(widget: &impl IsA<gtk::Widget>, text: &str) {
    /// The end of the list of properties.
    const END: c_int = -1;
    let widget: &gtk::Widget = widget.as_ref();
    let pointer: *mut gtk::ffi::GtkWidget = widget.to_glib_none().0;
    // A name that has a NUL, which would end the text, names nothing.
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: Every GtkWidget implements GtkAccessible, and `widget` holds a reference during the call. The property takes
    // one string that ends with NUL, which GTK copies. The list ends as the call expects. GTK was initialised: there is a
    // widget.
    unsafe {
        gtk_accessible_update_property(
            pointer.cast::<GtkAccessible>(),
            GTK_ACCESSIBLE_PROPERTY_LABEL,
            text.as_ptr(),
            END,
        );
    }
}
