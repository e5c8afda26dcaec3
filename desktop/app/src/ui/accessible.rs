//! Names for screen readers.
//!
//! GTK has the calls since 4.0. Its bindings offer them only for 4.10 and later, so they are called directly here.

use adw::prelude::*;
use gtk::ffi::{
    GTK_ACCESSIBLE_PROPERTY_LABEL, GTK_ACCESSIBLE_RELATION_LABELLED_BY, GtkAccessible,
    GtkAccessibleProperty, GtkAccessibleRelation,
};
use gtk::glib::translate::ToGlibPtr;
use std::ffi::{CString, c_int};

#[expect(
    unsafe_code,
    reason = "the declarations of GTK's header, gtkaccessible.h"
)]
unsafe extern "C" {
    fn gtk_accessible_update_property(
        widget: *mut GtkAccessible,
        property: GtkAccessibleProperty,
        ...
    );
    fn gtk_accessible_reset_relation(widget: *mut GtkAccessible, relation: GtkAccessibleRelation);
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

/// Has the buttons below a widget named once. A button with a mnemonic has its text as its name, and is labelled by its
/// label too: GTK joins both, and a screen reader says "Cancel Cancel".
pub(super) fn name_buttons_once(widget: &impl IsA<gtk::Widget>) {
    let mut next = widget.as_ref().first_child();
    while let Some(child) = next {
        match child.downcast_ref::<gtk::Button>() {
            Some(button) => reset_labelled_by(button),
            None => name_buttons_once(&child),
        }
        next = child.next_sibling();
    }
}

#[expect(
    unsafe_code,
    reason = "the bindings offer the call only for GTK 4.10 and later"
)]
fn reset_labelled_by(button: &gtk::Button) {
    let pointer: *mut gtk::ffi::GtkButton = button.to_glib_none().0;
    // SAFETY: Every GtkButton implements GtkAccessible, and `button` holds a reference during the call. The relation is one
    // of GTK's own, which need not be set. GTK was initialised: there is a widget.
    unsafe {
        gtk_accessible_reset_relation(
            pointer.cast::<GtkAccessible>(),
            GTK_ACCESSIBLE_RELATION_LABELLED_BY,
        );
    }
}
