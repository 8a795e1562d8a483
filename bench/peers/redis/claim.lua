-- Takes up to ARGV[3] ids that are due at ARGV[1] (milliseconds), and makes them due again at ARGV[2], the end of the
-- lease.
-- KEYS: the sorted set, the hash of payloads.
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
if #ids == 0 then
  return {ids, ids}
end
local leases = {}
for i, id in ipairs(ids) do
  leases[2 * i - 1] = ARGV[2]
  leases[2 * i] = id
end
redis.call('ZADD', KEYS[1], 'XX', unpack(leases))
return {ids, redis.call('HMGET', KEYS[2], unpack(ids))}
