#!/usr/bin/env bash
# Keeps delayed work in a sorted set by redis-cli. Arguments: host, port, password.
set -euo pipefail
export REDISCLI_AUTH=$3
ask() { redis-cli -h "$host" -p "$port" "$@"; }
host=$1 port=$2
want() {
  local want=$1 got
  shift
  got=$(ask "$@" | paste -sd ' ')
  [ "$got" = "$want" ] || { echo "$*: $got, want $want" >&2; exit 1; }
}
want 2 ZADD jobs 1000000000 a 4000000000 '{"order": 1}'
want 4000000000 ZSCORE jobs '{"order": 1}'
want 2 ZCARD jobs
want 'a 1000000000' ZRANGEBYSCORE jobs -inf "$(date +%s)" WITHSCORES LIMIT 0 10
want 'a 1000000000' -3 ZRANGEBYSCORE jobs -inf "$(date +%s)" WITHSCORES
want 1 ZREM jobs a
want 0 ZREM jobs a
for n in $(seq 200); do echo "ZADD many 4000000000 m$n"; done | ask --pipe | grep -q 'errors: 0, replies: 200'
want 200 ZCARD many
echo ok
