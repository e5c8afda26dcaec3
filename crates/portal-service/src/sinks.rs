//! Log sinks.

use super::retention::checked;
use super::{Caller, Service};
use culvert_log_sinks::{check_url, is_safe_for_tokens};
use culvert_portal_base::{Fault, Problems};
use culvert_store::{self as store, Mutation, SecretBytes};
use culvert_wire::api::{NewSink, SinkList, SinkPatch, SinkTest, SinkView};
use culvert_wire::model::{Log, Sink, SinkTarget};
use std::collections::BTreeMap;

/// Bytes of a token: what collectors hand out has at most some hundred.
const MAX_TOKEN_LEN: usize = 1_000;

impl Service {
    /// All sinks, and how they do.
    pub async fn sinks(&self, caller: &Caller) -> Result<SinkList, Fault> {
        let account = caller.account();
        let row = self.read::<store::Account>(caller, account).await?;
        let ends = self
            .database
            .ask("log_ends", self.database.store.log_ends(account))
            .await?;
        let version = row.stamp.version;
        let mut items = Vec::new();
        for sink in row.settings.logs.sinks {
            items.push(self.show_sink(caller, sink, &ends, version).await?);
        }
        Ok(SinkList { items })
    }

    /// One of them.
    pub async fn sink(&self, caller: &Caller, name: &str) -> Result<SinkView, Fault> {
        let all = self.sinks(caller).await?.items.into_iter();
        let mut found = all.filter(|view| view.sink.name == name);
        found.next().ok_or_else(|| unknown(name))
    }

    /// Creates a sink.
    pub async fn create_sink(&self, caller: &Caller, new: NewSink) -> Result<SinkView, Fault> {
        caller.may_change()?;
        let account = caller.account();
        let (sink, token) = self.checked_sink(caller, new).await?;
        let name = sink.name.clone();
        // The name of a sink, its places in the logs and its token lie in three tables: one write makes them.
        let begin = Mutation::BeginSink {
            sink: name.clone(),
            secret: token,
        };
        let add = |row: &mut store::Account| {
            row.settings.logs.sinks.push(sink.clone());
            checked(&row.settings.logs)
        };
        let row: store::Account = self.get(account, account).await?;
        self.change_row_with(caller, row, None, &[begin], add)
            .await?;
        self.sink(caller, &name).await
    }

    /// The sink, and its token in the form in which it is kept; all wrong fields, if there are some.
    async fn checked_sink(
        &self,
        caller: &Caller,
        new: NewSink,
    ) -> Result<(Sink, Option<SecretBytes>), Fault> {
        let NewSink { sink, token } = new;
        let row: store::Account = self.get(caller.account(), caller.account()).await?;
        let mut problems = Problems::default();
        if let SinkTarget::Http { url } = &sink.target {
            problems.take(check_url(url).map_err(|why| Fault::invalid("url", why)))?;
        }
        let mut wanted = row.settings.logs;
        wanted.sinks.push(sink.clone());
        problems.take(checked(&wanted))?;
        let token = token.filter(|token| !token.is_empty());
        let token = token.map(|token| checked_token(&sink, token)).transpose();
        let token = problems.take(token)?;
        Ok((sink, problems.finish_with(token)?))
    }

    /// Names the wrong fields of a sink that is not complete yet. Nothing is written.
    pub async fn check_sink(&self, caller: &Caller, new: NewSink) -> Result<(), Fault> {
        caller.may_change()?;
        self.checked_sink(caller, new).await.map(drop)
    }

    /// Changes a sink; with `expected`, only that version of it.
    pub async fn change_sink(
        &self,
        caller: &Caller,
        name: &str,
        expected: Option<u64>,
        patch: SinkPatch,
    ) -> Result<SinkView, Fault> {
        caller.may_change()?;
        let account = caller.account();
        let known = self.sink(caller, name).await?;
        if expected.is_some_and(|expected| expected != known.version) {
            return Err(Fault::VersionConflict {
                current: known.version,
            });
        }
        // The token has no version of its own: the account's row says if the sink is still the one that it is for.
        let mut with = Vec::new();
        if let Some(token) = patch.token {
            let secret = match token.is_empty() {
                true => None,
                false => Some(checked_token(&known.sink, token)?),
            };
            let sink = name.to_owned();
            with.push(Mutation::SetSinkSecret { sink, secret });
        }
        let target = known.sink.target;
        let (logs, paused) = (patch.logs, patch.paused);
        let change = |row: &mut store::Account| {
            let mut sinks = row.settings.logs.sinks.iter_mut();
            let sink = sinks.find(|sink| sink.name == name);
            // Another one of the name has another token.
            let sink = sink.filter(|sink| with.is_empty() || sink.target == target);
            let sink = sink.ok_or_else(|| unknown(name))?;
            if let Some(logs) = &logs {
                sink.logs.clone_from(logs);
            }
            sink.paused = paused.unwrap_or(sink.paused);
            checked(&row.settings.logs)
        };
        let row: store::Account = self.get(account, account).await?;
        self.change_row_with(caller, row, expected, &with, change)
            .await?;
        self.sink(caller, name).await
    }

    /// Deletes a sink.
    pub async fn delete_sink(
        &self,
        caller: &Caller,
        name: &str,
        expected: Option<u64>,
    ) -> Result<(), Fault> {
        caller.may_change()?;
        let account = caller.account();
        let forget = Mutation::ForgetSink {
            sink: name.to_owned(),
        };
        let remove = |row: &mut store::Account| {
            let sinks = &mut row.settings.logs.sinks;
            let before = sinks.len();
            sinks.retain(|sink| sink.name != name);
            match sinks.len() < before {
                true => Ok(()),
                false => Err(unknown(name)),
            }
        };
        let row: store::Account = self.get(account, account).await?;
        self.change_row_with(caller, row, expected, &[forget], remove)
            .await?;
        Ok(())
    }

    /// Has the sink take one line, and says what came of it.
    pub async fn test_sink(&self, caller: &Caller, name: &str) -> Result<SinkTest, Fault> {
        caller.may_change()?;
        let sink = self.sink(caller, name).await?.sink;
        self.check_again(caller).await?;
        let error = self.log_outputs.sinks.try_out(&sink).await.err();
        Ok(SinkTest {
            taken: error.is_none(),
            error: error.map(|error| error.to_string()),
        })
    }

    /// Has a sink that is not created yet take one line. Nothing is written to the database.
    ///
    /// # Errors
    /// [`Fault::Invalid`] with the field of the place that does not take it.
    pub async fn try_sink(&self, caller: &Caller, new: NewSink) -> Result<(), Fault> {
        caller.may_change()?;
        let (sink, token) = self.checked_sink(caller, new).await?;
        self.check_again(caller).await?;
        let (field, place) = match &sink.target {
            SinkTarget::File { file, .. } => ("file", &**file),
            // A query may have a secret.
            SinkTarget::Http { url } => ("url", url.split('?').next().unwrap_or_default()),
        };
        let actor = caller.actor()?;
        tracing::info!(%actor, kind = field, place, "a log sink is tested before it is saved");
        let tried = self.log_outputs.sinks.try_out_new(&sink, token.as_ref());
        let wrong = |error| Fault::invalid(field, format_args!("it took no test line: {error}"));
        tried.await.map_err(wrong)
    }

    async fn show_sink(
        &self,
        caller: &Caller,
        sink: Sink,
        ends: &BTreeMap<Log, u64>,
        version: u64,
    ) -> Result<SinkView, Fault> {
        let account = caller.account();
        let places = self.database.store.sink_positions(account, &sink.name);
        let places = self.database.ask("sink_positions", places).await?;
        let secret = self.database.store.sink_secret(account, &sink.name);
        let has_token = self.database.ask("sink_secret", secret).await?.is_some();
        let lag = sink.logs.iter().map(|log| {
            let end = ends.get(log).copied().unwrap_or(0);
            let place = places.get(log).copied().unwrap_or(end);
            (*log, end.saturating_sub(place))
        });
        let lag = lag.collect();
        let progress = self.log_outputs.sinks.progress(&sink.name);
        Ok(SinkView {
            sink,
            has_token,
            lag,
            delivered: progress.delivered,
            missed: progress.missed,
            delivered_at: progress.delivered_at,
            error: progress.error,
            version,
        })
    }
}

/// A token that can be sent, to a place where nobody on the way reads it.
fn checked_token(sink: &Sink, token: String) -> Result<SecretBytes, Fault> {
    let secret = SecretBytes::new(token.into_bytes());
    let SinkTarget::Http { url } = &sink.target else {
        return Err(Fault::invalid("token", "a file is shown no token"));
    };
    if !is_safe_for_tokens(url) {
        let why = "a token goes over https alone, or to this machine itself by its address";
        return Err(Fault::invalid("token", why));
    }
    let is_plain = secret.expose().iter().all(u8::is_ascii_graphic);
    if !is_plain || secret.expose().len() > MAX_TOKEN_LEN {
        let why = "1 to 1000 letters, digits and signs, without spaces";
        return Err(Fault::invalid("token", why));
    }
    Ok(secret)
}

fn unknown(name: &str) -> Fault {
    Fault::NotFound(format!("there is no log sink `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_a_sink_has_as_many_signs_as_it_may_and_goes_where_nobody_reads_it() {
        let longest = "~".repeat(MAX_TOKEN_LEN);
        let longer = "~".repeat(MAX_TOKEN_LEN + 1);
        for (url, token, is_good) in [
            ("https://logs.example/in", "t", true),
            ("https://logs.example/in", &longest, true),
            ("https://logs.example/in", &longer, false),
            ("https://logs.example/in", "two words", false),
            ("https://logs.example/in", "line\n", false),
            ("http://127.0.0.1:1/in", "t", true),
            ("http://logs.example/in", "t", false),
        ] {
            let sink = Sink {
                name: "collector".to_owned(),
                logs: [Log::Access].into(),
                target: SinkTarget::Http {
                    url: url.to_owned(),
                },
                paused: false,
            };
            let checked = checked_token(&sink, token.to_owned());
            assert_eq!(checked.is_ok(), is_good, "{url} {}", token.len());
            if let Ok(checked) = checked {
                assert_eq!(checked.expose(), token.as_bytes());
            }
        }
    }
}
