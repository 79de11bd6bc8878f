-- write tells whether this server lets anybody write: a replica, and a server that misses
-- replicas, memory or its disk, answer what reads all the same. What it writes is gone a
-- millisecond later, and is no lock.
--
-- Parts    none
-- KEYS     the fence of a lock
-- Result   1

redis.call('SET', KEYS[1], '0', 'PX', 1)
return 1
