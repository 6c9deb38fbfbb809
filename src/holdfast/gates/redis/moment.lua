-- moment: when a snapshot was taken, and that it was taken where writes go.
--   KEYS[1]  the event's version
--   returns  {seconds, microseconds}
-- PERSIST changes nothing, but counts as a write: a replica, whose knowledge may be old, refuses it.
-- TIME names no key, so a cluster's transaction would not know where to ask it but for this script.

pcall(redis.replicate_commands)
redis.call('PERSIST', KEYS[1])
return redis.call('TIME')
