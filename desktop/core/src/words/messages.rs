//! The list of messages. Each has a text in every language, which a test checks.

macro_rules! messages {
    ($($(#[$comment:meta])* $name:ident = $id:literal,)*) => {
        /// A message of the window.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Message {
            $($(#[$comment])* $name,)*
        }

        impl Message {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The id of the message in the files of `locales/`.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$name => $id,)*
                }
            }
        }
    };
}

messages! {
    /// The name of the program.
    AppName = "app-name",
    /// The summary of the program.
    AppSummary = "app-summary",
    /// The label of the menu button.
    Menu = "menu",
    /// Title: no answer yet.
    StartingTitle = "starting-title",
    /// Title: the machine slept.
    CheckingTitle = "checking-title",
    /// Detail of the same.
    CheckingDetail = "checking-detail",
    /// Title: nobody answers at the socket.
    AwayTitle = "away-title",
    /// Detail of the same.
    AwayDetail = "away-detail",
    /// Title: the kernel refuses the connection.
    ForbiddenTitle = "forbidden-title",
    /// Detail of the same.
    ForbiddenDetail = "forbidden-detail",
    /// Title: the peer is not the service.
    StrangerTitle = "stranger-title",
    /// Detail of the same.
    StrangerDetail = "stranger-detail",
    /// Title: another form of the socket.
    VersionTitle = "version-title",
    /// Detail of the same.
    VersionDetail = "version-detail",
    /// Title: the answer is none.
    BrokenTitle = "broken-title",
    /// Detail of the same.
    BrokenDetail = "broken-detail",
    /// Title: nobody is signed in.
    SignedOutTitle = "signed-out-title",
    /// Detail of the same.
    SignedOutDetail = "signed-out-detail",
    /// Title: a sign-in begins.
    AskingTitle = "asking-title",
    /// Title: a code is to be approved.
    CodeTitle = "code-title",
    /// Detail of the same.
    CodeDetail = "code-detail",
    /// The time left of a code.
    CodeLeft = "code-left",
    /// A code after its time.
    CodeExpired = "code-expired",
    /// The address of the page, for any device.
    CodeAddress = "code-address",
    /// Title: a sign-in failed.
    SignInFailedTitle = "sign-in-failed-title",
    /// A reason.
    FailureExpired = "failure-expired",
    /// A reason.
    FailureRefused = "failure-refused",
    /// A reason.
    FailureUnreachable = "failure-unreachable",
    /// A reason.
    FailureCertificate = "failure-certificate",
    /// A reason.
    FailureNotAPortal = "failure-not-a-portal",
    /// A reason.
    FailureBusy = "failure-busy",
    /// Title: told not to connect.
    DownTitle = "down-title",
    /// Detail of the same.
    DownDetail = "down-detail",
    /// Title: changes are taken back.
    GoingDownTitle = "going-down-title",
    /// Title: no session yet.
    ConnectingTitle = "connecting-title",
    /// Detail of the same, without a reason.
    ConnectingDetail = "connecting-detail",
    /// Title: the owner is disabled.
    OwnerDisabledTitle = "owner-disabled-title",
    /// Detail of the same.
    OwnerDisabledDetail = "owner-disabled-detail",
    /// Title: there is a session.
    ConnectedTitle = "connected-title",
    /// Detail of the same.
    ConnectedDetail = "connected-detail",
    /// Title: there is a session and no path.
    NoPathTitle = "no-path-title",
    /// Title: the session was lost.
    PortalAwayTitle = "portal-away-title",
    /// Detail of the same.
    PortalAwayDetail = "portal-away-detail",
    /// The time of the next attempt.
    PortalAwayNext = "portal-away-next",
    /// Title: refused.
    RefusedTitle = "refused-title",
    /// Title: a local fault.
    FailedTitle = "failed-title",
    /// Detail of the same, without a reason.
    FailedDetail = "failed-detail",
    /// A refusal for want of a valid token.
    TroubleNotEnrolled = "trouble-not-enrolled",
    /// A refusal by an administrator.
    TroubleDenied = "trouble-denied",
    /// Another portal answers.
    TroubleWrongPortal = "trouble-wrong-portal",
    /// No commands are offered.
    Managed = "managed",
    /// A command.
    SignIn = "sign-in",
    /// A command.
    SignInAgain = "sign-in-again",
    /// A command.
    Connect = "connect",
    /// A command.
    Disconnect = "disconnect",
    /// A command.
    SignOut = "sign-out",
    /// A command.
    Cancel = "cancel",
    /// A command.
    CopyCommand = "copy-command",
    /// A command.
    OpenBrowser = "open-browser",
    /// A command.
    CopyLink = "copy-link",
    /// A command.
    CopyCode = "copy-code",
    /// A command.
    Dismiss = "dismiss",
    /// After copying.
    Copied = "copied",
    /// An answer to a command.
    CommandRefused = "command-refused",
    /// No answer to a command.
    CommandLost = "command-lost",
    /// A question.
    SignOutQuestion = "sign-out-question",
    /// Detail of the same.
    SignOutDetail = "sign-out-detail",
    /// A way to sign in.
    SignInBrowser = "sign-in-browser",
    /// Detail of the same.
    SignInBrowserDetail = "sign-in-browser-detail",
    /// A way to sign in.
    SignInToken = "sign-in-token",
    /// Detail of the same.
    SignInTokenDetail = "sign-in-token-detail",
    /// A command.
    SignInByBrowser = "sign-in-by-browser",
    /// A command.
    SignInByToken = "sign-in-by-token",
    /// A field.
    PortalAddress = "portal-address",
    /// A field.
    PortalCertificate = "portal-certificate",
    /// A field.
    Token = "token",
    /// A wrong address.
    PortalInvalid = "portal-invalid",
    /// A wrong token.
    TokenInvalid = "token-invalid",
    /// A wrong fingerprint.
    CertificateInvalid = "certificate-invalid",
    /// An older service.
    UpdateService = "update-service",
    /// The browser did not open.
    BrowserFailed = "browser-failed",
    /// A page.
    Resources = "resources",
    /// The search field.
    SearchResources = "search-resources",
    /// The choice among resources.
    Choice = "choice",
    /// A choice.
    ChoiceAll = "choice-all",
    /// A choice.
    ChoiceFavourites = "choice-favourites",
    /// A choice.
    ChoiceGranted = "choice-granted",
    /// A choice.
    ChoiceDenied = "choice-denied",
    /// The number of rows.
    ResourcesCount = "resources-count",
    /// An empty list.
    ResourcesNoneTitle = "resources-none-title",
    /// Detail of the same.
    ResourcesNoneDetail = "resources-none-detail",
    /// An empty search.
    ResourcesNotFoundTitle = "resources-not-found-title",
    /// Detail of the same.
    ResourcesNotFoundDetail = "resources-not-found-detail",
    /// A state.
    StateIdle = "state-idle",
    /// A state.
    StateAsking = "state-asking",
    /// A state.
    StateGranted = "state-granted",
    /// A state.
    StateDenied = "state-denied",
    /// A state of a later service.
    StateOther = "state-other",
    /// The state of a resource that is gone.
    StateEnded = "state-ended",
    /// The moment at which access ended.
    AccessEnded = "access-ended",
    /// The moment before which access ended that nobody followed.
    AccessEndedBy = "access-ended-by",
    /// A button of a resource that is gone.
    DismissOf = "dismiss-of",
    /// A path.
    PathDirect = "path-direct",
    /// A path.
    PathRelayed = "path-relayed",
    /// A path.
    PathRelayedTls = "path-relayed-tls",
    /// A path.
    PathNone = "path-none",
    /// The gateway of a grant, and its path.
    Through = "through",
    /// A row for a screen reader.
    RowLabel = "row-label",
    /// A command.
    Open = "open",
    /// A command.
    CopyAddress = "copy-address",
    /// The same for a screen reader.
    CopyAddressOf = "copy-address-of",
    /// The same for a screen reader.
    OpenOf = "open-of",
    /// The same for a screen reader.
    AskOf = "ask-of",
    /// A command.
    FavouriteAdd = "favourite-add",
    /// A command.
    FavouriteRemove = "favourite-remove",
    /// The bound of favourites.
    FavouritesFull = "favourites-full",
    /// A command.
    Ask = "ask",
    /// After that command.
    Asked = "asked",
    /// Nothing to copy.
    NotAnAddress = "not-an-address",
    /// Code no_access.
    ReasonNoAccess = "reason-no-access",
    /// Code condition_not_met.
    ReasonConditionNotMet = "reason-condition-not-met",
    /// A reason, with the moment.
    ReasonOutsideHours = "reason-outside-hours",
    /// Code no_gateway.
    ReasonNoGateway = "reason-no-gateway",
    /// Code gateway_refused.
    ReasonGatewayRefused = "reason-gateway-refused",
    /// Code host_address.
    ReasonHostAddress = "reason-host-address",
    /// Code name_not_found.
    ReasonNameNotFound = "reason-name-not-found",
    /// Code name_outside.
    ReasonNameOutside = "reason-name-outside",
    /// Code name_unanswered.
    ReasonNameUnanswered = "reason-name-unanswered",
    /// Code too_many.
    ReasonTooMany = "reason-too-many",
    /// Code expired.
    ReasonExpired = "reason-expired",
    /// Code policy_changed.
    ReasonPolicyChanged = "reason-policy-changed",
    /// Code revoked.
    ReasonRevoked = "reason-revoked",
    /// Code owner_disabled.
    ReasonOwnerDisabled = "reason-owner-disabled",
    /// Code internal.
    ReasonInternal = "reason-internal",
    /// A reason and what the portal adds.
    ReasonWithText = "reason-with-text",
    /// A page.
    Gateways = "gateways",
    /// An empty list.
    GatewaysNoneTitle = "gateways-none-title",
    /// Detail of the same.
    GatewaysNoneDetail = "gateways-none-detail",
    /// A path with the relay's name.
    GatewayPathRelay = "gateway-path-relay",
    /// The round trip of a path.
    GatewayRoundTrip = "gateway-round-trip",
    /// The rates of a gateway.
    GatewayRate = "gateway-rate",
    /// A silent gateway.
    GatewaySilent = "gateway-silent",
    /// A page.
    Diagnostics = "diagnostics",
    /// A section.
    NetcheckTitle = "netcheck-title",
    /// Detail of the same.
    NetcheckDetail = "netcheck-detail",
    /// A command.
    NetcheckRun = "netcheck-run",
    /// While it runs.
    NetcheckRunning = "netcheck-running",
    /// The outcome without failures.
    NetcheckGood = "netcheck-good",
    /// The outcome with failures.
    NetcheckBad = "netcheck-bad",
    /// The check did not run.
    NetcheckFailed = "netcheck-failed",
    /// The fix of a finding.
    NetcheckFix = "netcheck-fix",
    /// A verdict.
    VerdictOk = "verdict-ok",
    /// A verdict.
    VerdictWarning = "verdict-warning",
    /// A verdict.
    VerdictFailed = "verdict-failed",
    /// A verdict.
    VerdictSkipped = "verdict-skipped",
    /// A check.
    CheckClient = "check-client",
    /// A check.
    CheckIpv4 = "check-ipv4",
    /// A check.
    CheckIpv6 = "check-ipv6",
    /// A check.
    CheckPortal = "check-portal",
    /// A check.
    CheckPortalDns = "check-portal-dns",
    /// A check.
    CheckPortalTcp = "check-portal-tcp",
    /// A check.
    CheckPortalTls = "check-portal-tls",
    /// A check.
    CheckPortalHttp = "check-portal-http",
    /// A check.
    CheckPortalForm = "check-portal-form",
    /// A check.
    CheckClock = "check-clock",
    /// A check.
    CheckNat = "check-nat",
    /// A check.
    CheckNat64 = "check-nat64",
    /// A check.
    CheckRelay = "check-relay",
    /// A check.
    CheckGateway = "check-gateway",
    /// A check.
    CheckMtu = "check-mtu",
    /// A check.
    CheckResolver = "check-resolver",
    /// A check.
    CheckKernel = "check-kernel",
    /// A section.
    Problems = "problems",
    /// A section.
    HelpTitle = "help-title",
    /// A row.
    Bundle = "bundle",
    /// A row.
    Log = "log",
    /// A command.
    BundleMake = "bundle-make",
    /// It is under way.
    BundleMaking = "bundle-making",
    /// A result.
    BundleMade = "bundle-made",
    /// A failure.
    BundleFailed = "bundle-failed",
    /// A command.
    LogShow = "log-show",
    /// A command.
    LogCopy = "log-copy",
    /// A failure.
    LogFailed = "log-failed",
    /// A command.
    OpenFolder = "open-folder",
    /// A section.
    Versions = "versions",
    /// A row.
    VersionService = "version-service",
    /// A row.
    VersionWindow = "version-window",
    /// A row.
    Computer = "computer",
    /// A row.
    Dns = "dns",
    /// The system asks the client.
    DnsOn = "dns-on",
    /// The system does not.
    DnsOff = "dns-off",
    /// A row.
    Portal = "portal",
    /// A dialog.
    Settings = "settings",
    /// A section.
    Appearance = "appearance",
    /// A setting.
    Theme = "theme",
    /// A theme.
    ThemeSystem = "theme-system",
    /// A theme.
    ThemeLight = "theme-light",
    /// A theme.
    ThemeDark = "theme-dark",
    /// A section.
    Behaviour = "behaviour",
    /// A setting.
    Notifications = "notifications",
    /// Detail of the same.
    NotificationsDetail = "notifications-detail",
    /// A setting.
    Autostart = "autostart",
    /// Detail of the same.
    AutostartDetail = "autostart-detail",
    /// A setting of the service.
    DnsSetting = "dns-setting",
    /// Detail of the same.
    DnsSettingDetail = "dns-setting-detail",
    /// The reason why the setting can't be changed: an administrator's token.
    DnsSettingManaged = "dns-setting-managed",
    /// The reason why the setting can't be changed: an older service.
    DnsSettingOlder = "dns-setting-older",
    /// The reason why the setting can't be changed: no service.
    DnsSettingUnknown = "dns-setting-unknown",
    /// A failure.
    SettingNotKept = "setting-not-kept",
    /// A dialog.
    About = "about",
    /// A dialog.
    Shortcuts = "shortcuts",
    /// A command.
    ShowWindow = "show-window",
    /// A command.
    CloseWindow = "close-window",
    /// The use of the key Tab.
    KeyNext = "key-next",
    /// The use of the key Enter.
    KeyUse = "key-use",
    /// The use of the key Escape.
    KeyLeave = "key-leave",
    /// A command.
    Quit = "quit",
    /// A notification.
    NoticeDenied = "notice-denied",
    /// A notification.
    NoticeEnded = "notice-ended",
    /// A notification.
    NoticePortalLost = "notice-portal-lost",
    /// A notification.
    NoticeRefused = "notice-refused",
    /// A notification.
    NoticeServiceLost = "notice-service-lost",
    /// A time.
    TimeSeconds = "time-seconds",
    /// A time.
    TimeMinutes = "time-minutes",
    /// A time.
    TimeHours = "time-hours",
}
