//! `culvert wg`: an interface from its start to its end.

mod apply;
mod arguments;
mod metrics;
mod serve;
mod show;
mod socket;
mod status;
mod table;

use crate::detach::{Waiting, detach};
use crate::exit::{Failure, Status};
use crate::workers::default_workers;
use crate::{http, logging};
use apply::Interface;
use arguments::LeftOut;
pub(crate) use arguments::{DEFAULT_MTU, RunArguments, WgArguments, WgCommand};
use culvert_datapath::{Mechanism, Mechanisms};
use culvert_engine::{Device, EngineError, GateKind, Options};
use culvert_tun::TunError;
use culvert_uapi::InterfaceName;
use culvert_udp::UdpError;
use serve::Control;
use signal_hook::consts::{SIGINT, SIGTERM};
use socket::ControlSocket;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Carries out `culvert wg`.
pub(crate) fn run(arguments: &WgArguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Some(WgCommand::Show(show)) => show::show(show),
        None => start(&arguments.run),
    }
}

/// Runs the interface in this process, or has another do it in the background.
fn start(arguments: &RunArguments) -> Result<ExitCode, Failure> {
    // Without a subcommand the parser insists on a name.
    let Some(name) = &arguments.name else {
        return Err(Failure::new(
            Status::Usage,
            "no interface is named; see culvert wg --help",
        ));
    };
    let waiting = Waiting::parent()?;
    let by_variable = std::env::var_os("WG_PROCESS_FOREGROUND").is_some_and(|value| value == "1");
    let foreground = waiting.is_none() && (arguments.foreground || by_variable);
    if waiting.is_none() && !foreground {
        return detach();
    }
    logging::start(arguments, foreground)?;
    serve(name, arguments, waiting)
}

/// The life of an interface: made, served, ended, cleared away.
fn serve(
    name: &InterfaceName,
    arguments: &RunArguments,
    waiting: Option<Waiting>,
) -> Result<ExitCode, Failure> {
    let directory = Path::new(socket::DIRECTORY);
    let metrics = arguments.metrics.map(listen_for_collectors).transpose()?;
    socket::refuse_if_in_use(directory, name)?;
    let (sender, end) = channel();
    watch_signals(sender.clone()).map_err(|error| Failure::io("watching for signals", &error))?;

    let device = Device::start(options(name, arguments));
    let device = Arc::new(device.map_err(|error| failure(name.as_str(), &error))?);
    let interface = Arc::new(Interface::new(Arc::clone(&device)));
    let mut control_socket = ControlSocket::bind(directory, name)?;
    let failed = |error: io::Error| Failure::io("starting a thread", &error);
    let control: Arc<dyn Control> = Arc::clone(&interface) as _;
    serve::spawn(control_socket.listener(), &control).map_err(failed)?;
    if let Some(listener) = metrics {
        let answer =
            move |request: http::Request<'_>| metrics::answer(request, || interface.status().ok());
        http::spawn("metrics", listener, answer).map_err(failed)?;
    }
    if let Some(watch) = control_socket.take_watch() {
        let sender = sender.clone();
        notify(sender, move || watch.wait().map(|()| End::SocketDeleted)).map_err(failed)?;
    }
    let ended = Arc::clone(&device);
    let wait = move || Ok(End::DeviceEnded(ended.wait().err()));
    notify(sender, wait).map_err(failed)?;

    tracing::info!(interface = %name, "ready");
    if let Some(waiting) = waiting {
        waiting.announce()?;
    }
    match wait_until_end(&end, &device) {
        None => Ok(ExitCode::SUCCESS),
        Some(error) => Err(failure(name.as_str(), &error)),
    }
}

fn listen_for_collectors(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .map_err(|error| Failure::io(format_args!("serving metrics on {address}"), &error))
}

/// Waits for whatever ends the interface, then until the device has let go of it.
/// Returns why it failed, if it did.
fn wait_until_end(end: &Receiver<End>, device: &Device) -> Option<EngineError> {
    loop {
        // The senders live as long as their threads: an error means that nothing is left to wait for.
        let reason = end.recv().unwrap_or(End::DeviceEnded(None));
        tracing::info!(?reason, "ending");
        device.stop();
        if let End::DeviceEnded(error) = reason {
            return error;
        }
    }
}

/// The reason of an interface's end.
#[derive(Debug)]
enum End {
    /// SIGTERM or SIGINT.
    Signal,
    /// The configuration socket was deleted.
    SocketDeleted,
    /// The interface was deleted, the device has stopped as asked, or it failed.
    DeviceEnded(Option<EngineError>),
}

/// Sends the end that `wait` returns. An error of `wait` is logged and ends nothing.
fn notify(
    sender: Sender<End>,
    wait: impl FnOnce() -> io::Result<End> + Send + 'static,
) -> io::Result<()> {
    let body = move || match wait() {
        // Nobody listens when the interface has ended already.
        Ok(end) => drop(sender.send(end)),
        Err(error) => tracing::warn!(%error, "one way to end is watched for no longer"),
    };
    thread::Builder::new()
        .name("wg-watch".to_owned())
        .spawn(body)
        .map(drop)
}

fn watch_signals(sender: Sender<End>) -> io::Result<()> {
    let (mut receiving, sending) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGTERM, sending.try_clone()?)?;
    signal_hook::low_level::pipe::register(SIGINT, sending)?;
    notify(sender, move || {
        receiving.read_exact(&mut [0]).map(|()| End::Signal)
    })
}

fn options(name: &InterfaceName, arguments: &RunArguments) -> Options {
    Options {
        interface: name.as_str().to_owned(),
        workers: arguments.workers.unwrap_or_else(default_workers),
        mtu: arguments.mtu,
        mechanisms: mechanisms(arguments),
        suite: arguments.cipher.0,
        unrouted: None,
        path_messages: None,
        gate: GateKind::Open,
        listen_port: 0,
        mark: 0,
        bind_when_looped: true,
        store: None,
    }
}

fn mechanisms(arguments: &RunArguments) -> Mechanisms {
    let offload = [Mechanism::TunOffload];
    let gso = [Mechanism::Segmentation, Mechanism::ReceiveOffload];
    let switched_off = arguments
        .no_offload
        .then_some(&offload[..])
        .into_iter()
        .chain(arguments.no_gso.then_some(&gso[..]))
        .flatten();
    let named = arguments.without.iter().map(|LeftOut(mechanism)| mechanism);
    switched_off
        .chain(named)
        .fold(Mechanisms::ALL, |all, &mechanism| all.without(mechanism))
}

fn failure(name: &str, error: &EngineError) -> Failure {
    let status = match error {
        // It names the interface itself.
        EngineError::Tun(TunError::InUse { .. }) => return Failure::new(Status::InUse, error),
        EngineError::Udp(UdpError::PortTaken { .. }) => Status::InUse,
        EngineError::Tun(
            TunError::NeedsNetAdmin | TunError::NoTunDevice | TunError::TunDeviceForbidden,
        )
        | EngineError::Udp(UdpError::MarkRefused | UdpError::PortReserved { .. }) => {
            Status::Permission
        }
        _ => Status::Failed,
    };
    Failure::new(status, format_args!("{name}: {error}"))
}
