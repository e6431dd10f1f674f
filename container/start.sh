#!/bin/sh
# Serves the log of FLEETLORE_LOG to other machines. Arguments go to `lore up`.
#   PORT                  port (7077)
#   FLEETLORE_ALLOW_HOST  the name under which browsers reach it, such as lore.example.org
set -eu
umask 077
token="${XDG_DATA_HOME:-/data}/first.token"
# A server that others can reach needs a token. The first start makes one, in a file, never in the output.
if [ ! -s "$token" ]; then
    lore token create --scope admin --label container >"$token" 2>/dev/null || { rm -f "$token"; lore token create --scope admin; exit 1; }
    echo "The token for the first login is in $token."
fi
set -- --host 0.0.0.0 --port "${PORT:-7077}" "$@"
[ -z "${FLEETLORE_ALLOW_HOST:-}" ] || set -- --allow-host "$FLEETLORE_ALLOW_HOST" "$@"
exec lore up "$@"
