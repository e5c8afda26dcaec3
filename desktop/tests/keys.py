"""Keys for a program, as a keyboard gives them, and sizes for its windows. The session has no window manager, so the window
that came last is given the keys."""

import ctypes
import os

X11, XTST = ctypes.CDLL("libX11.so.6"), ctypes.CDLL("libXtst.so.6")
VIEWABLE = 2
SHIFT = "Shift_L"


class Attributes(ctypes.Structure):
    """XWindowAttributes of Xlib.h."""

    _fields_ = [
        *((name, ctypes.c_int) for name in ["x", "y", "width", "height", "border_width", "depth"]),
        ("visual", ctypes.c_void_p), ("root", ctypes.c_ulong),
        *((name, ctypes.c_int) for name in ["window_class", "bit_gravity", "win_gravity", "backing_store"]),
        ("backing_planes", ctypes.c_ulong), ("backing_pixel", ctypes.c_ulong), ("save_under", ctypes.c_int),
        ("colormap", ctypes.c_ulong), ("map_installed", ctypes.c_int), ("map_state", ctypes.c_int),
        *((name, ctypes.c_long) for name in ["all_event_masks", "your_event_mask", "do_not_propagate_mask"]),
        ("override_redirect", ctypes.c_int), ("screen", ctypes.c_void_p),
    ]


X11.XOpenDisplay.restype = ctypes.c_void_p
X11.XDefaultRootWindow.restype = ctypes.c_ulong
X11.XStringToKeysym.restype = X11.XKeycodeToKeysym.restype = ctypes.c_ulong
X11.XKeysymToKeycode.restype = ctypes.c_ubyte
X11.XKeysymToKeycode.argtypes = [ctypes.c_void_p, ctypes.c_ulong]
X11.XKeycodeToKeysym.argtypes = [ctypes.c_void_p, ctypes.c_ubyte, ctypes.c_int]
X11.XSetInputFocus.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int, ctypes.c_ulong]
X11.XResizeWindow.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.c_uint, ctypes.c_uint]
X11.XMoveWindow.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int, ctypes.c_int]
X11.XGetWindowAttributes.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p]
X11.XQueryTree.argtypes = [ctypes.c_void_p, ctypes.c_ulong, *[ctypes.c_void_p] * 4]
X11.XSync.argtypes = [ctypes.c_void_p, ctypes.c_int]
X11.XFree.argtypes = X11.XDefaultRootWindow.argtypes = X11.XOpenDisplay.argtypes = [ctypes.c_void_p]
XTST.XTestFakeKeyEvent.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_ulong]

# A window that goes meanwhile is no fault. Xlib ends the program otherwise.
ignore = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda _display, _error: 0)
X11.XSetErrorHandler(ignore)


class Keyboard:
    """The keyboard of the display."""

    def __init__(self):
        self.display = X11.XOpenDisplay(os.environ["DISPLAY"].encode())
        assert self.display, "no display"

    def windows(self):
        """The windows that are shown, the uppermost last; no menus."""
        root, parent, children, count = ctypes.c_ulong(), ctypes.c_ulong(), ctypes.POINTER(ctypes.c_ulong)(), ctypes.c_uint()
        X11.XQueryTree(self.display, X11.XDefaultRootWindow(self.display), ctypes.byref(root), ctypes.byref(parent),
                       ctypes.byref(children), ctypes.byref(count))
        shown = []
        for window in children[:count.value]:
            attributes = Attributes()
            is_there = X11.XGetWindowAttributes(self.display, window, ctypes.byref(attributes))
            if is_there and attributes.map_state == VIEWABLE and not attributes.override_redirect and attributes.width > 1:
                shown.append(window)
        if children:
            X11.XFree(children)
        return shown

    def focus(self):
        """Gives the keys to the uppermost window. False if there is none."""
        shown = self.windows()
        if shown:
            X11.XSetInputFocus(self.display, shown[-1], 1, 0)
            X11.XSync(self.display, 0)
        return bool(shown)

    def width(self):
        """The width of the uppermost window."""
        attributes = Attributes()
        X11.XGetWindowAttributes(self.display, self.windows()[-1], ctypes.byref(attributes))
        return attributes.width

    def resize(self, width, height):
        X11.XMoveWindow(self.display, self.windows()[-1], 0, 0)
        X11.XResizeWindow(self.display, self.windows()[-1], width, height)
        X11.XSync(self.display, 0)

    def press(self, keys):
        """Presses and releases keys such as `Control_L+f`, by their names in X11. They reach the uppermost window."""
        self.focus()
        pressed = []
        for name in keys.split("+"):
            symbol = X11.XStringToKeysym(name.encode())
            code = X11.XKeysymToKeycode(self.display, symbol)
            assert code, f"there is no key {name}"
            if X11.XKeycodeToKeysym(self.display, code, 0) != symbol:
                shift = X11.XKeysymToKeycode(self.display, X11.XStringToKeysym(SHIFT.encode()))
                pressed.append(shift)
            pressed.append(code)
        for code in pressed:
            XTST.XTestFakeKeyEvent(self.display, code, 1, 0)
        for code in reversed(pressed):
            XTST.XTestFakeKeyEvent(self.display, code, 0, 0)
        X11.XSync(self.display, 0)

    def write(self, text):
        for letter in text:
            self.press(letter)
