# A PostgreSQL server on a socket in a directory of its own, until the standard input ends: whoever holds its other end
# may be killed in any way. It says the directory when the server answers, and leaves nothing behind.
#
# The lines "stop" and "start" of the standard input stop the server and start it again. Each is repeated when that is done.
#
#   server.sh BIN [INITDB-OPTION…]
#
#   BIN                      the directory of the server's programs; `newest` is that of the newest installed server
#   CULVERT_POSTGRES_IN      the directory of its directory, /tmp unless given
#   CULVERT_POSTGRES_LISTEN  addresses at which it listens besides: anybody who reaches them is let in. It has no pooler
#                            then
#   CULVERT_POSTGRES         `durable` sets it as Debian does, for measurements. It has no pooler then
set -eu
# An interrupt is for those that hold the other end.
trap '' INT HUP TERM
bin=$1
shift
[ "$bin" != newest ] || bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
listen=${CULVERT_POSTGRES_LISTEN:-}
directory=$(mktemp -d "${CULVERT_POSTGRES_IN:-/tmp}/culvert-postgres.XXXXXX")
trap 'rm -rf "$directory"' EXIT
log=$directory/log
"$bin/initdb" -D "$directory/data" -U culvert -A trust --no-sync --no-instructions --encoding=UTF8 --locale=C \
    "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
cat >>"$directory/data/postgresql.conf" <<SETTINGS
listen_addresses = '$listen'
unix_socket_directories = '$directory'
SETTINGS
if [ "${CULVERT_POSTGRES:-}" != durable ]; then
    # Nothing here outlives the server, so that nothing has to be on a disk.
    cat >>"$directory/data/postgresql.conf" <<SETTINGS
max_connections = 200
shared_buffers = 64MB
fsync = off
synchronous_commit = off
full_page_writes = off
autovacuum = off
wal_level = minimal
max_wal_senders = 0
SETTINGS
fi
[ -z "$listen" ] || echo 'host all all all trust' >>"$directory/data/pg_hba.conf"
start() {
    "$bin/postgres" -D "$directory/data" >>"$log" 2>&1 </dev/null &
    server=$!
    until "$bin/pg_isready" -q -h "$directory"; do
        kill -0 "$server" 2>/dev/null || { cat "$log" >&2; exit 1; }
        sleep 0.05
    done
}
# At once, without a checkpoint.
stop() {
    kill -QUIT "$server"
    wait "$server" || true
    server=
}
start
# A pooler that gives each transaction another connection, on a socket beside the server's.
pooler=
start_pooler() {
    cat >"$directory/pgbouncer.ini" <<SETTINGS
[databases]
* = host=$directory
[pgbouncer]
unix_socket_dir = $directory
listen_port = 6432
auth_type = trust
auth_file = $directory/users
pool_mode = transaction
default_pool_size = 3
SETTINGS
    echo '"culvert" ""' >"$directory/users"
    PATH=$PATH:/usr/sbin pgbouncer -q "$directory/pgbouncer.ini" >>"$log" 2>&1 </dev/null &
    pooler=$!
    until [ -S "$directory/.s.PGSQL.6432" ]; do
        kill -0 "$pooler" 2>/dev/null || { cat "$log" >&2; exit 1; }
        sleep 0.05
    done
}
[ -n "$listen" ] || [ "${CULVERT_POSTGRES:-}" = durable ] || start_pooler
echo "$directory"
while read -r command; do
    case $command in
    stop) stop ;;
    start) start ;;
    esac
    echo "$command"
done
[ -z "$pooler" ] || kill -KILL "$pooler"
[ -z "$server" ] || stop
