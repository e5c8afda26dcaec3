//! Health and metrics of a client or a gateway, as supervisors and collectors ask for them.

use crate::exit::{Failure, Status};
use crate::exposition::{self, Format};
use crate::http::{self, Request, Response};
use crate::visible::visible;
use culvert_host::{Health, Observer};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use tokio::runtime::Handle;

/// Sockets that are open before the service starts: an address that can't be used ends it at once.
pub(crate) struct Listeners(Vec<(TcpListener, Routes)>);

/// The routes that are served at one address.
#[derive(Clone, Copy, Debug, Default)]
struct Routes {
    health: bool,
    metrics: bool,
}

impl Listeners {
    /// Opens them; both may be one.
    pub(crate) fn bind(
        health: Option<SocketAddr>,
        metrics: Option<SocketAddr>,
    ) -> Result<Self, Failure> {
        let mut wanted: BTreeMap<SocketAddr, Routes> = BTreeMap::new();
        if let Some(address) = health {
            wanted.entry(address).or_default().health = true;
        }
        if let Some(address) = metrics {
            wanted.entry(address).or_default().metrics = true;
        }
        let listeners = wanted.into_iter().map(|(address, routes)| {
            let option = if routes.health {
                "--health"
            } else {
                "--metrics"
            };
            let listener = TcpListener::bind(address).map_err(|error| {
                let what = format_args!(
                    "cannot serve {address}: {error}; name another address by {option}"
                );
                Failure::new(Status::Failed, what)
            })?;
            Ok((listener, routes))
        });
        Ok(Self(listeners.collect::<Result<_, Failure>>()?))
    }

    /// Serves them on threads of their own until the process ends; `render` makes metrics of a state.
    /// Must be called in a tokio runtime.
    pub(crate) fn serve<S, R>(
        self,
        observer: &Observer<S, R>,
        render: fn(&S, Format) -> String,
    ) -> Result<(), Failure>
    where
        S: Clone + Send + 'static,
        R: culvert_host::Request + Clone,
    {
        for (listener, routes) in self.0 {
            let (observer, runtime) = (observer.clone(), Handle::current());
            let answer =
                move |request: Request<'_>| answer(request, routes, &observer, render, &runtime);
            http::spawn("http", listener, answer)
                .map_err(|error| Failure::io("starting a thread", &error))?;
        }
        Ok(())
    }
}

fn answer<S, R: culvert_host::Request>(
    request: Request<'_>,
    routes: Routes,
    observer: &Observer<S, R>,
    render: fn(&S, Format) -> String,
    runtime: &Handle,
) -> Response {
    match request.path {
        "/healthz" if routes.health => alive(&observer.health()),
        "/readyz" if routes.health => ready(&observer.health()),
        "/metrics" if routes.metrics => exposition::answer(request, |format| {
            let status = runtime.block_on(observer.status())?;
            Some(render(&status, format))
        }),
        _ => Response::not_found(match (routes.health, routes.metrics) {
            (true, true) => "there are /healthz, /readyz and /metrics\n",
            (true, false) => "there are /healthz and /readyz\n",
            (false, _) => "metrics are at /metrics\n",
        }),
    }
}

/// Answers that the process works. Its dependencies are the matter of [`ready`].
fn alive(health: &Health) -> Response {
    match health {
        Health::Ready | Health::NotReady(_) => Response::text("200 OK", "alive\n"),
        Health::Stuck => Response::unavailable(STUCK),
    }
}

/// Answers with the readiness of the service.
fn ready(health: &Health) -> Response {
    match health {
        Health::Ready => Response::text("200 OK", "ready\n"),
        // A reason may hold text of the operating system or of the portal.
        Health::NotReady(why) => Response::unavailable(format!("{}\n", visible(why))),
        Health::Stuck => Response::unavailable(STUCK),
    }
}

const STUCK: &str = "it has ended, or does nothing any more\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::ask;
    use culvert_host::{OnlyStatus, observe};

    const BOTH: Routes = Routes {
        health: true,
        metrics: true,
    };

    fn code(path: &str, routes: Routes, observer: &Observer<u8>) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let request = format!("GET {path} HTTP/1.1\r\n\r\n");
        let answered = ask(&request, &|request| {
            answer(
                request,
                routes,
                observer,
                |_, _| String::new(),
                runtime.handle(),
            )
        });
        answered.split(' ').nth(1).unwrap().to_owned()
    }

    #[test]
    fn one_that_starts_is_alive_and_not_ready() {
        let (observer, _observed) = observe::<u8, OnlyStatus>();
        assert_eq!(code("/healthz", BOTH, &observer), "200");
        assert_eq!(code("/readyz", BOTH, &observer), "503");
    }

    #[test]
    fn one_that_has_ended_is_neither_and_has_no_metrics() {
        let (observer, observed) = observe::<u8, OnlyStatus>();
        drop(observed);
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(code(path, BOTH, &observer), "503", "{path}");
        }
    }

    #[test]
    fn each_address_serves_what_it_was_given_for_alone() {
        let (observer, _observed) = observe::<u8, OnlyStatus>();
        let health = Routes {
            health: true,
            metrics: false,
        };
        assert_eq!(code("/metrics", health, &observer), "404");
        let metrics = Routes {
            health: false,
            metrics: true,
        };
        assert_eq!(code("/healthz", metrics, &observer), "404");
    }
}
