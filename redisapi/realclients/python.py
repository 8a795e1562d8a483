"""Keeps delayed work in a sorted set, as programs do with redis-py. Arguments: host, port, password."""

import sys
import time

import redis

host, port, password = sys.argv[1:]
client = redis.Redis(host=host, port=int(port), password=password, decode_responses=True)


def check(got, want):
    if got != want:
        raise SystemExit(f"{got!r}, want {want!r}")


now = time.time()
later = float(int(now) + 3600)
check(client.ping(), True)
check(client.zadd("jobs", {"a": now - 2, "b": now - 1, '{"order": 1}': later}), 3)
check(client.zadd("jobs", {"a": now - 3}, xx=True, ch=True), 1)
check(client.zadd("jobs", {"b": later}, nx=True), 0)
check(client.zadd("jobs", {"b": later}, lt=True), 0)
check(client.zscore("jobs", '{"order": 1}'), later)
check(client.zscore("jobs", "none"), None)
check(client.zcard("jobs"), 3)
due = client.zrangebyscore("jobs", "-inf", time.time(), start=0, num=10, withscores=True)
check([member for member, _ in due], ["a", "b"])
check(client.zrem("jobs", "a", "none"), 1)
check(client.zrem("jobs", "a"), 0)
deadline = time.time() + 30
while not (popped := client.zpopmin("jobs", 1)):
    check(time.time() < deadline, True)
check([member for member, _ in popped], ["b"])
pipe = client.pipeline(transaction=False)
for n in range(200):
    pipe.zadd("many", {f"m{n}": later + n})
check(pipe.execute(), [1] * 200)
check(len(client.zrangebyscore("many", f"({later}", "+inf")), 199)
try:
    client.zadd("jobs", {"a": "soon"})
except redis.exceptions.ResponseError as err:
    check(str(err), "value is not a valid float")
print("ok")
