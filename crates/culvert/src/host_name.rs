//! The default name of a machine.

/// The name that the system has, or `client` where it has none.
pub(crate) fn host_name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    match name.trim() {
        "" => "client".to_owned(),
        name => name.to_owned(),
    }
}
