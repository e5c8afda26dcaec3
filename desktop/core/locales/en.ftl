# English. Comments head groups; docs/adr/0060 says how a language is added.

## The window

app-name = Culvert
app-summary = Access to private resources
menu = Main menu

## States

starting-title = Asking the service …
checking-title = Asking the service …
checking-detail = This computer was asleep. The state may be another one now.
away-title = The service is not running
away-detail = Nothing answers at { $path }. This window recovers by itself once the service runs.
forbidden-title = You may not use the service
forbidden-detail = Members of the group “culvert” may. Have an administrator run this command, then log out and in again.
stranger-title = Another program answers
stranger-detail = A program of user { $user } answers at { $path }, which is not the service. Nothing was sent to it. Tell your administrator.
version-title = The service has another version
version-detail = It speaks form { $theirs }, this window form { $ours }. Install culvert-client and culvert-desktop of the same version.
broken-title = The service gives no readable answer
broken-detail = { $why }. This window keeps asking.
signed-out-title = Sign in to begin
signed-out-detail = Your browser opens the portal, where you approve this computer.
asking-title = Asking the portal for a code …
code-title = Compare this code
code-detail = Approve the sign-in in the browser only if it shows the same code.
code-left = Valid for { $time }
code-expired = The code is no longer valid
code-address = If no browser opens, open this address on any device:
sign-in-failed-title = Signing in failed
failure-expired = The code was not approved in time. Sign in again.
failure-refused = The sign-in was denied in the portal.
failure-unreachable = The portal cannot be reached. Check its address and your network.
failure-certificate = The portal’s certificate is not trusted. Ask your administrator for its fingerprint.
failure-not-a-portal = There is no portal of Culvert at this address.
failure-busy = Another sign-in is under way, or the portal is busy. Try again in a minute.
down-title = Disconnected
down-detail = Your resources cannot be reached until you connect.
going-down-title = Disconnecting …
connecting-title = Connecting …
connecting-detail = The portal has not answered yet.
owner-disabled-title = Your account is disabled
owner-disabled-detail = This computer connects by itself once your account is enabled.
connected-title = Connected to { $portal }
connected-detail = Access is asked for when you use a resource.
no-path-title = Connected, without a path
portal-away-title = The portal does not answer
portal-away-detail = Access that you have goes on for now.
portal-away-next = Next attempt in { $time }.
refused-title = The portal refuses this computer
failed-title = This computer could not connect
failed-detail = The service tries again by itself.
trouble-not-enrolled = The portal does not know the sign-in any more. Sign in again.
trouble-denied = An administrator has revoked this computer.
trouble-wrong-portal = Another portal answers than the one you signed in to.
managed = An administrator of this computer controls the connection.

## Commands

sign-in = Sign in
sign-in-again = Sign in again
connect = Connect
disconnect = Disconnect
sign-out = Sign out
cancel = Cancel
copy-command = Copy command
open-browser = Open the browser
copy-link = Copy link
copy-code = Copy code
dismiss = Close
copied = Copied
command-refused = The service refuses: { $why }
command-lost = The service did not answer. Try again.
sign-out-question = Sign out of this computer?
sign-out-detail = Your resources cannot be reached until you sign in again.

## Signing in

sign-in-browser = With the browser
sign-in-browser-detail = For people. Works with passwords, passkeys and identity providers.
sign-in-token = With a token
sign-in-token-detail = An administrator made it for this computer.
sign-in-by-browser = Sign in with the browser
sign-in-by-token = Sign in with the token
portal-address = Portal address
portal-certificate = Certificate fingerprint (optional)
token = Token
portal-invalid = Enter an address such as portal.example.com.
token-invalid = This is no token: it is empty, too long or has spaces.
certificate-invalid = This is no SHA-256 fingerprint: it has 43 characters, as the portal shows it, or 64 hexadecimal digits.
update-service = This service is too old to sign in with the browser. Update culvert-client.
browser-failed = No browser opened. Copy the link and open it on any device.

## Resources

resources = Resources
search-resources = Search name or address
choice = Show
choice-all = All
choice-favourites = Favourites
choice-granted = Granted
choice-denied = Denied
resources-count = { $shown } of { $total }
resources-none-title = No resources
resources-none-detail = No policy lets you use a resource yet.
resources-not-found-title = Nothing found
resources-not-found-detail = Try another word, or show all.
state-idle = Idle
state-asking = Asking …
state-granted = Granted
state-denied = Denied
state-other = Unknown
state-ended = Ended
access-ended = Access ended: { $time }
access-ended-by = Access ended by { $time }
dismiss-of = Remove { $name } from the list
path-direct = direct
path-relayed = by a relay
path-relayed-tls = by a relay over TLS
path-none = no answer yet
through = { $gateway }, { $path }
row-label = { $name }, { $address }, { $state }
open = Open
copy-address = Copy address
copy-address-of = Copy the address of { $name }
open-of = Open { $name }
ask-of = Ask for access to { $name }
favourite-add = Add { $name } to favourites
favourite-remove = Remove { $name } from favourites
favourites-full = There are too many favourites. Remove one first.
ask = Ask for access
asked = Access was asked for
not-an-address = This resource has no address to copy

## Reasons

reason-no-access = No policy lets you use this resource
reason-condition-not-met = A condition of the policy does not hold now
reason-outside-hours = Outside of the hours of the policy. Opens { $time }
reason-no-gateway = No gateway of the site can be reached
reason-gateway-refused = The gateway did not answer in time, or refused
reason-host-address = The resource is on the gateway’s own machine
reason-name-not-found = The name does not exist
reason-name-outside = The name has addresses that the resource does not allow
reason-name-unanswered = The site’s DNS did not answer
reason-too-many = Too many requests at once
reason-expired = The time of the access is over
reason-policy-changed = An administrator changed the policy
reason-revoked = Access was revoked
reason-owner-disabled = Your account is disabled
reason-internal = The portal could not decide
reason-with-text = { $reason }: { $text }

## Gateways

gateways = Gateways
gateways-none-title = No gateway in use
gateways-none-detail = A gateway appears here when you use a resource.
gateway-path-relay = by relay { $relay }
gateway-round-trip = Round trip { $time }
gateway-rate = { $in } in, { $out } out
gateway-silent = No answer for { $time }

## Diagnostics

diagnostics = Diagnostics
netcheck-title = Network check
netcheck-detail = Looks at this computer, the way to the portal, relays and gateways.
netcheck-run = Check now
netcheck-running = Checking …
netcheck-good = Nothing is in the way.
netcheck-bad = { $count ->
    [one] One thing is in the way.
   *[other] { $count } things are in the way.
}
netcheck-failed = The check failed: { $why }
netcheck-fix = What to do: { $fix }
verdict-ok = Good
verdict-warning = Warning
verdict-failed = Failed
verdict-skipped = Not checked
check-client = Service
check-ipv4 = IPv4
check-ipv6 = IPv6
check-portal = Portal
check-portal-dns = Portal: name
check-portal-tcp = Portal: connection
check-portal-tls = Portal: certificate
check-portal-http = Portal: answer
check-portal-form = Portal: console
check-clock = Clock
check-nat = Address translation (NAT)
check-nat64 = NAT64
check-relay = Relay
check-gateway = Gateway
check-mtu = Packet size
check-resolver = Names (DNS)
check-kernel = System
problems = Problems of this computer
help-title = For somebody who helps
bundle = Debug bundle
log = Log of the service
bundle-make = Make debug bundle
bundle-making = Making …
bundle-made = Debug bundle: { $path }
bundle-failed = No debug bundle: { $why }
log-show = Show log
log-copy = Copy log
log-failed = This service does not hand out its log. Use the command.
open-folder = Open folder
versions = Versions
version-service = Service
version-window = Window
computer = This computer
dns = Names (DNS)
dns-on = The system asks the client, by { $mode }
dns-off = The system does not ask the client
portal = Portal

## Settings

settings = Settings
appearance = Appearance
theme = Theme
theme-system = As the system
theme-light = Light
theme-dark = Dark
behaviour = Behaviour
notifications = Notifications
notifications-detail = When access is denied, ends or is lost
autostart = Start with the session
autostart-detail = Watches for notifications without a window
dns-setting = Names of resources (DNS)
dns-setting-detail = Lets this computer ask the client for names
dns-setting-managed = The administrator of this computer decides it.
dns-setting-older = This service does not take the setting. Update culvert-client.
dns-setting-unknown = The service does not answer.
setting-not-kept = The setting could not be saved: { $why }
about = About Culvert
shortcuts = Keyboard shortcuts
show-window = Show window
close-window = Close window
key-next = Next control
key-use = Use the control
key-leave = Clear the search, or close a dialog
quit = Quit

## Notifications

notice-denied = { $more ->
    [0] Access to { $name } was denied
   *[other] Access to { $name } and { $more } more was denied
}
notice-ended = { $more ->
    [0] Access to { $name } has ended
   *[other] Access to { $name } and { $more } more has ended
}
notice-portal-lost = The portal does not answer any more
notice-refused = The portal refuses this computer
notice-service-lost = The service has stopped

## Times

time-seconds = { $count ->
    [one] { $count } second
   *[other] { $count } seconds
}
time-minutes = { $count ->
    [one] { $count } minute
   *[other] { $count } minutes
}
time-hours = { $count ->
    [one] { $count } hour
   *[other] { $count } hours
}
