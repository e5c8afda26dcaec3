//! Names, users and groups in a static program: the places where its C library looks for them.
//!
//! glibc finds them through libraries that `/etc/nsswitch.conf` names, and loads these into a static program too. They belong to the
//! glibc of the machine, not to the one in the program: Debian's `libnss_systemd` ends such a program by SIGSEGV.

#![cfg_attr(
    all(target_env = "gnu", target_feature = "crt-static"),
    expect(unsafe_code, reason = "glibc's switch has no other way in")
)]

/// Lets a static program find users and groups in files, and names in `/etc/hosts` and by DNS, whatever `/etc/nsswitch.conf`
/// says: glibc holds both services itself (since 2.34). For any other program nothing changes. It counts for what is looked up
/// after it, so `main` begins with it.
pub fn keep_to_built_in_name_services() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    for (database, services) in [
        (c"passwd", c"files"),
        (c"group", c"files"),
        (c"initgroups", c"files"),
        (c"services", c"files"),
        (c"hosts", c"files dns"),
    ] {
        unsafe extern "C" {
            /// nss.h: sets the services of a database, as a line of nsswitch.conf does. It copies neither string.
            fn __nss_configure_lookup(
                database: *const std::ffi::c_char,
                services: *const std::ffi::c_char,
            ) -> std::ffi::c_int;
        }
        // SAFETY: both are strings with a zero at their end that live as long as the program. glibc takes its lock.
        let status = unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
        // Of a database that it does not know, nothing is looked up.
        debug_assert_eq!(status, 0, "{database:?}");
    }
}
