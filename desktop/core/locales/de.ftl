# Deutsch.

## The window

app-name = Culvert
app-summary = Zugang zu privaten Ressourcen
menu = Hauptmenü

## States

starting-title = Der Dienst wird gefragt …
checking-title = Der Dienst wird gefragt …
checking-detail = Dieser Rechner war im Ruhezustand. Der Stand kann jetzt ein anderer sein.
away-title = Der Dienst läuft nicht
away-detail = An { $path } antwortet nichts. Dieses Fenster erholt sich von selbst, sobald der Dienst läuft.
forbidden-title = Sie dürfen den Dienst nicht benutzen
forbidden-detail = Mitglieder der Gruppe „culvert“ dürfen es. Lassen Sie eine Administratorin oder einen Administrator diesen Befehl ausführen. Melden Sie sich danach ab und wieder an.
stranger-title = Ein anderes Programm antwortet
stranger-detail = An { $path } antwortet ein Programm des Benutzers { $user }, das nicht der Dienst ist. Es wurde ihm nichts gesendet. Sagen Sie es Ihrer Administration.
version-title = Der Dienst hat eine andere Version
version-detail = Er spricht Form { $theirs }, dieses Fenster Form { $ours }. Installieren Sie culvert-client und culvert-desktop in derselben Version.
broken-title = Der Dienst gibt keine lesbare Antwort
broken-detail = { $why }. Dieses Fenster fragt weiter.
signed-out-title = Melden Sie sich an
signed-out-detail = Ihr Browser öffnet das Portal. Dort genehmigen Sie diesen Rechner.
asking-title = Das Portal wird um einen Code gebeten …
code-title = Vergleichen Sie diesen Code
code-detail = Genehmigen Sie die Anmeldung im Browser nur, wenn er denselben Code zeigt.
code-left = Noch { $time } gültig
code-expired = Der Code gilt nicht mehr
code-address = Öffnet sich kein Browser, öffnen Sie diese Adresse auf einem beliebigen Gerät:
sign-in-failed-title = Anmeldung fehlgeschlagen
failure-expired = Der Code wurde nicht rechtzeitig genehmigt. Melden Sie sich neu an.
failure-refused = Die Anmeldung wurde im Portal abgelehnt.
failure-unreachable = Das Portal ist nicht erreichbar. Prüfen Sie seine Adresse und Ihr Netzwerk.
failure-certificate = Dem Zertifikat des Portals wird nicht vertraut. Fragen Sie Ihre Administration nach dem Fingerabdruck.
failure-not-a-portal = An dieser Adresse ist kein Portal von Culvert.
failure-busy = Eine andere Anmeldung läuft, oder das Portal ist ausgelastet. Versuchen Sie es in einer Minute wieder.
down-title = Getrennt
down-detail = Ihre Ressourcen sind erst wieder erreichbar, wenn Sie verbinden.
going-down-title = Wird getrennt …
connecting-title = Verbindet …
connecting-detail = Das Portal hat noch nicht geantwortet.
owner-disabled-title = Ihr Konto ist gesperrt
owner-disabled-detail = Dieser Rechner verbindet sich von selbst, sobald Ihr Konto entsperrt ist.
connected-title = Mit { $portal } verbunden
connected-detail = Zugang wird angefragt, wenn Sie eine Ressource benutzen.
no-path-title = Verbunden, ohne Weg
portal-away-title = Das Portal antwortet nicht
portal-away-detail = Bestehender Zugang gilt vorerst weiter.
portal-away-next = Nächster Versuch in { $time }.
refused-title = Das Portal lehnt diesen Rechner ab
failed-title = Dieser Rechner konnte nicht verbinden
failed-detail = Der Dienst versucht es von selbst wieder.
trouble-not-enrolled = Das Portal kennt die Anmeldung nicht mehr. Melden Sie sich neu an.
trouble-denied = Die Administration hat diesem Rechner den Zugang entzogen.
trouble-wrong-portal = Es antwortet ein anderes Portal als das, an dem Sie angemeldet sind.
managed = Die Administration dieses Rechners steuert die Verbindung.

## Commands

sign-in = Anmelden
sign-in-again = Neu anmelden
connect = Verbinden
disconnect = Trennen
sign-out = Abmelden
cancel = Abbrechen
copy-command = Befehl kopieren
open-browser = Browser öffnen
copy-link = Link kopieren
copy-code = Code kopieren
dismiss = Schließen
copied = Kopiert
command-refused = Der Dienst lehnt ab: { $why }
command-lost = Der Dienst hat nicht geantwortet. Versuchen Sie es noch einmal.
sign-out-question = Diesen Rechner abmelden?
sign-out-detail = Ihre Ressourcen sind erst nach einer neuen Anmeldung wieder erreichbar.

## Signing in

sign-in-browser = Mit dem Browser
sign-in-browser-detail = Für Personen. Mit Passwort, Passkey oder Identitätsanbieter.
sign-in-token = Mit einem Token
sign-in-token-detail = Die Administration hat es für diesen Rechner erstellt.
sign-in-by-browser = Mit dem Browser anmelden
sign-in-by-token = Mit dem Token anmelden
portal-address = Adresse des Portals
portal-certificate = Fingerabdruck des Zertifikats (optional)
token = Token
portal-invalid = Geben Sie eine Adresse wie portal.example.com ein.
token-invalid = Das ist kein Token: Es ist leer, zu lang oder enthält Leerzeichen.
certificate-invalid = Das ist kein Fingerabdruck mit SHA-256: Er hat 43 Zeichen, wie das Portal ihn zeigt, oder 64 hexadezimale Ziffern.
update-service = Dieser Dienst ist zu alt für die Anmeldung mit dem Browser. Aktualisieren Sie culvert-client.
browser-failed = Es hat sich kein Browser geöffnet. Kopieren Sie den Link und öffnen Sie ihn auf einem beliebigen Gerät.

## Resources

resources = Ressourcen
search-resources = Name oder Adresse suchen
choice = Anzeigen
choice-all = Alle
choice-favourites = Favoriten
choice-granted = Gewährt
choice-denied = Verweigert
resources-count = { $shown } von { $total }
resources-none-title = Keine Ressourcen
resources-none-detail = Noch erlaubt Ihnen keine Richtlinie eine Ressource.
resources-not-found-title = Nichts gefunden
resources-not-found-detail = Versuchen Sie ein anderes Wort, oder zeigen Sie alle an.
state-idle = Ruht
state-asking = Wird angefragt …
state-granted = Gewährt
state-denied = Verweigert
state-other = Unbekannt
state-ended = Beendet
access-ended = Zugang beendet: { $time }
access-ended-by = Zugang beendet, spätestens { $time }
dismiss-of = { $name } aus der Liste entfernen
path-direct = direkt
path-relayed = über ein Relay
path-relayed-tls = über ein Relay mit TLS
path-none = noch keine Antwort
through = { $gateway }, { $path }
row-label = { $name }, { $address }, { $state }
open = Öffnen
copy-address = Adresse kopieren
copy-address-of = Adresse von { $name } kopieren
open-of = { $name } öffnen
ask-of = Zugang zu { $name } anfragen
favourite-add = { $name } zu den Favoriten hinzufügen
favourite-remove = { $name } aus den Favoriten entfernen
favourites-full = Es gibt zu viele Favoriten. Entfernen Sie zuerst einen.
ask = Zugang anfragen
asked = Zugang wurde angefragt
not-an-address = Diese Ressource hat keine Adresse zum Kopieren

## Reasons

reason-no-access = Keine Richtlinie erlaubt Ihnen diese Ressource
reason-condition-not-met = Eine Bedingung der Richtlinie ist gerade nicht erfüllt
reason-outside-hours = Außerhalb der Zeiten der Richtlinie. Öffnet: { $time }
reason-no-gateway = Kein Gateway des Standorts ist erreichbar
reason-gateway-refused = Das Gateway hat abgelehnt oder nicht rechtzeitig geantwortet
reason-host-address = Die Ressource liegt auf dem Rechner des Gateways selbst
reason-name-not-found = Den Namen gibt es nicht
reason-name-outside = Der Name hat Adressen, die die Ressource nicht erlaubt
reason-name-unanswered = Das DNS des Standorts hat nicht geantwortet
reason-too-many = Zu viele Anfragen auf einmal
reason-expired = Die Zeit des Zugangs ist abgelaufen
reason-policy-changed = Die Administration hat die Richtlinie geändert
reason-revoked = Der Zugang wurde entzogen
reason-owner-disabled = Ihr Konto ist gesperrt
reason-internal = Das Portal konnte nicht entscheiden
reason-with-text = { $reason }: { $text }

## Gateways

gateways = Gateways
gateways-none-title = Kein Gateway in Benutzung
gateways-none-detail = Ein Gateway erscheint hier, sobald Sie eine Ressource benutzen.
gateway-path-relay = über Relay { $relay }
gateway-round-trip = Umlaufzeit { $time }
gateway-rate = { $in } ein, { $out } aus
gateway-silent = Seit { $time } keine Antwort

## Diagnostics

diagnostics = Diagnose
netcheck-title = Netzwerkprüfung
netcheck-detail = Prüft diesen Rechner und den Weg zu Portal, Relays und Gateways.
netcheck-run = Jetzt prüfen
netcheck-running = Wird geprüft …
netcheck-good = Es ist nichts im Weg.
netcheck-bad = { $count ->
    [one] Eine Sache ist im Weg.
   *[other] { $count } Dinge sind im Weg.
}
netcheck-failed = Die Prüfung ist fehlgeschlagen: { $why }
netcheck-fix = Was zu tun ist: { $fix }
verdict-ok = Gut
verdict-warning = Warnung
verdict-failed = Fehlgeschlagen
verdict-skipped = Nicht geprüft
check-client = Dienst
check-ipv4 = IPv4
check-ipv6 = IPv6
check-portal = Portal
check-portal-dns = Portal: Name
check-portal-tcp = Portal: Verbindung
check-portal-tls = Portal: Zertifikat
check-portal-http = Portal: Antwort
check-portal-form = Portal: Konsole
check-clock = Uhr
check-nat = Adressübersetzung (NAT)
check-nat64 = NAT64
check-relay = Relay
check-gateway = Gateway
check-mtu = Paketgröße
check-resolver = Namen (DNS)
check-kernel = System
problems = Probleme dieses Rechners
help-title = Für Hilfe durch andere
bundle = Diagnosepaket
log = Protokoll des Dienstes
bundle-make = Erstellen
bundle-making = Wird erstellt …
bundle-made = Diagnosepaket: { $path }
bundle-failed = Kein Diagnosepaket: { $why }
log-show = Zeigen
log-copy = Protokoll kopieren
log-failed = Dieser Dienst gibt sein Protokoll nicht heraus. Benutzen Sie den Befehl.
open-folder = Ordner öffnen
versions = Versionen
version-service = Dienst
version-window = Fenster
computer = Dieser Rechner
dns = Namen (DNS)
dns-on = Das System fragt den Client, über { $mode }
dns-off = Das System fragt den Client nicht
portal = Portal

## Settings

settings = Einstellungen
appearance = Darstellung
theme = Farbschema
theme-system = Wie das System
theme-light = Hell
theme-dark = Dunkel
behaviour = Verhalten
notifications = Benachrichtigungen
notifications-detail = Wenn Zugang verweigert wird, endet oder verloren geht
autostart = Mit der Sitzung starten
autostart-detail = Achtet ohne Fenster auf Benachrichtigungen
dns-setting = Namen von Ressourcen (DNS)
dns-setting-detail = Lässt diesen Rechner den Client nach Namen fragen
dns-setting-managed = Die Administration dieses Rechners entscheidet das.
dns-setting-older = Dieser Dienst nimmt die Einstellung nicht an. Aktualisieren Sie culvert-client.
dns-setting-unknown = Der Dienst antwortet nicht.
setting-not-kept = Die Einstellung konnte nicht gespeichert werden: { $why }
about = Über Culvert
shortcuts = Tastenkürzel
show-window = Fenster zeigen
close-window = Fenster schließen
key-next = Nächstes Bedienelement
key-use = Bedienelement benutzen
key-leave = Suche leeren oder Dialog schließen
quit = Beenden

## Notifications

notice-denied = { $more ->
    [0] Zugang zu { $name } wurde verweigert
   *[other] Zugang zu { $name } und { $more } weiteren wurde verweigert
}
notice-ended = { $more ->
    [0] Zugang zu { $name } ist beendet
   *[other] Zugang zu { $name } und { $more } weiteren ist beendet
}
notice-portal-lost = Das Portal antwortet nicht mehr
notice-refused = Das Portal lehnt diesen Rechner ab
notice-service-lost = Der Dienst ist beendet

## Times

time-seconds = { $count ->
    [one] { $count } Sekunde
   *[other] { $count } Sekunden
}
time-minutes = { $count ->
    [one] { $count } Minute
   *[other] { $count } Minuten
}
time-hours = { $count ->
    [one] { $count } Stunde
   *[other] { $count } Stunden
}
