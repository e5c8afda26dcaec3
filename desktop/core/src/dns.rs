//! The switch for names (DNS) in the settings: the setting of the service, or the reason why it can't be changed here.

use crate::exchange::{Change, Request};
use crate::phase::Phase;
use crate::status::{Control, Status};
use crate::words::Message;

/// The switch, as the window shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The setting that the service tells; none if it tells none. Nothing is shown as on or off then.
    pub is_on: Option<bool>,
    /// The line below the title: the meaning, or the reason why the switch is disabled.
    pub detail: Message,
    /// True if a person may change it.
    pub may_change: bool,
}

impl Switch {
    /// The switch in `phase`, with the status if the service has told one.
    #[must_use]
    pub fn of(phase: &Phase, status: Option<&Status>) -> Self {
        let unknown = |detail| Self {
            is_on: None,
            detail,
            may_change: false,
        };
        let Some(status) = status else {
            return unknown(match phase {
                Phase::NotPermitted => Message::ForbiddenTitle,
                _ => Message::DnsSettingUnknown,
            });
        };
        let is_on = status.service.settings.and_then(|settings| settings.dns);
        match (status.service.control, is_on) {
            (Control::Commands, Some(_)) => Self {
                is_on,
                detail: Message::DnsSettingDetail,
                may_change: true,
            },
            (Control::Commands, None) => unknown(Message::DnsSettingOlder),
            (Control::Token | Control::Other, is_on) => Self {
                is_on,
                ..unknown(Message::DnsSettingManaged)
            },
        }
    }

    /// The command for a person's click that would lead to `wanted`. None if that is the setting already, or not theirs to
    /// change.
    #[must_use]
    pub fn command(&self, wanted: bool) -> Option<Request> {
        let is_change = self.may_change && self.is_on != Some(wanted);
        is_change.then_some(Request::Settings(Change { dns: wanted }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::parse_answer;

    fn switch(service: &str) -> Switch {
        let line = format!(r#"{{"status":{{"schema_version":1,"service":{service}}}}}"#);
        let status = parse_answer(line.as_bytes()).unwrap();
        Switch::of(&Phase::Down, Some(&status))
    }

    fn written(request: &Request) -> String {
        let mut line = Vec::new();
        request.write(&mut line).unwrap();
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn the_switch_shows_the_setting_of_the_service() {
        for is_on in [true, false] {
            let shown = switch(&format!(
                r#"{{"control":"commands","settings":{{"dns":{is_on},"later":1}}}}"#
            ));
            assert_eq!((shown.is_on, shown.may_change), (Some(is_on), true));
            assert_eq!(shown.detail, Message::DnsSettingDetail);
            assert!(shown.command(is_on).is_none());
            let command = shown.command(!is_on).unwrap();
            let expected = format!(
                "{{\"schema_version\":1,\"request\":{{\"settings\":{{\"dns\":{}}}}}}}\n",
                !is_on
            );
            assert_eq!(written(&command), expected);
            assert_eq!(format!("{command:?}"), "Settings");
        }
    }

    #[test]
    fn a_setting_that_is_not_told_is_neither_on_nor_off() {
        for service in [
            r#"{"control":"commands"}"#,
            r#"{"control":"commands","settings":null}"#,
            r#"{"control":"commands","settings":{"later":1}}"#,
        ] {
            let shown = switch(service);
            assert_eq!((shown.is_on, shown.may_change), (None, false), "{service}");
            assert_eq!(shown.detail, Message::DnsSettingOlder);
            assert!(shown.command(true).is_none() && shown.command(false).is_none());
        }
    }

    #[test]
    fn the_switch_says_why_it_is_disabled() {
        let managed = switch(r#"{"control":"token","settings":{"dns":true}}"#);
        assert_eq!((managed.is_on, managed.may_change), (Some(true), false));
        assert_eq!(managed.detail, Message::DnsSettingManaged);
        assert!(managed.command(false).is_none());
        let table = [
            (Phase::NotPermitted, Message::ForbiddenTitle),
            (Phase::ServiceAway, Message::DnsSettingUnknown),
            (Phase::Starting, Message::DnsSettingUnknown),
        ];
        for (phase, detail) in table {
            let shown = Switch::of(&phase, None);
            assert_eq!((shown.is_on, shown.may_change), (None, false));
            assert_eq!(shown.detail, detail);
        }
    }
}
