-- The book of one event, as the keys below keep it: what every operation shares. It does what
-- holdfast.domain.gating.Book does, and that file says what is right.
--
-- The whole script, which is all .lua files in the order that scripts.py names, is asked
--   KEYS     seven keys of one event, in the order of the lines below; all have its hash tag
--   ARGV[1]  the event's version, as the caller knows it
--   ARGV[2]  the operations, packed: an array of arrays; no array has a hole but at its end
--   ARGV[3]  milliseconds now, if somebody else's clock is to be used
-- and returns, packed, {milliseconds now, verdicts in the same order}. A script is one moment:
-- nobody else is served meanwhile, and time stands still in it.
--
-- Any key may be missing, because Redis lost or evicted it: whatever follows from a key that is
-- not there is not so. Numbers here are doubles, exact to 2^53 and at FOREVER, a power of two.

local FOREVER = 2 ^ 62
local LAPSE_MAX = 500
local CHUNK = 1000 -- arguments of one command, an even number: Lua's stack ends at 8,000

-- How a verdict begins; wire.py has the same numbers.
local CLAIMED_NOW, CLAIMED_ALREADY, CLASH, SHORT, OVER_CAP = 1, 2, 3, 4, 5
local UNREADY, FOUND, FOUND_NOTHING, DONE = 6, 7, 8, 9

-- Where things are in an owner's record.
local BUYER, OWN_SEATS, OWN_POOLS, KIND, UNTIL, SINCE, FENCE, NOTE = 1, 2, 3, 4, 5, 6, 7, 8

local call = redis.call

-- Redis writes large numbers as 1e+15 where it is left to itself.
local function digits(number)
  return string.format('%.0f', number)
end

local function same(text)
  return text
end

-- A sheet is a hash as this run sees it: false is a field that is not there. What is asked for is
-- read in bulk, and all changes are written in bulk when the run ends. A command for each field
-- costs twice the time; and a run that meets trouble on its way has changed nothing.
local function sheet(key, decode, encode)
  return { key = key, decode = decode, encode = encode, known = {}, changed = {} }
end

local SEATS = sheet(KEYS[1], same, same)
local OWNERS = sheet(KEYS[2], cmsgpack.unpack, cmsgpack.pack)
local DEADLINES = KEYS[3]
local STOCK = sheet(KEYS[4], tonumber, digits)
local CLAIMED = sheet(KEYS[5], tonumber, digits)
local UNITS = sheet(KEYS[6], tonumber, digits)
local VERSION = KEYS[7]

-- Redis 6 can be set to send replicas the script instead of what it did: then TIME forbids writing.
pcall(redis.replicate_commands)

local now = tonumber(ARGV[3])
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local asked = tonumber(ARGV[1])
local stored = tonumber(call('GET', VERSION) or 0) or 0
local present = stored

-- What is to be in DEADLINES when the run ends; false is nothing.
local deadlines = {}
-- How many of DEADLINES were looked at. The set does not change before the run ends.
local looked = 0

local function fetch(hash, fields)
  local known, unknown = hash.known, {}
  for _, field in ipairs(fields) do
    if known[field] == nil then
      unknown[#unknown + 1] = field
      known[field] = false
    end
  end
  for from = 1, #unknown, CHUNK do
    local til = math.min(from + CHUNK - 1, #unknown)
    local found = call('HMGET', hash.key, unpack(unknown, from, til))
    for i, text in ipairs(found) do
      known[unknown[from + i - 1]] = text and hash.decode(text) or false
    end
  end
end

local function get(hash, field)
  if hash.known[field] == nil then
    fetch(hash, { field })
  end
  return hash.known[field]
end

local function set(hash, field, value)
  hash.known[field] = value
  hash.changed[field] = true
end

local function raise(hash, field, more)
  set(hash, field, (get(hash, field) or 0) + more)
end

-- What falls to nothing is forgotten, and nothing falls below.
local function lower(hash, field, less)
  local left = (get(hash, field) or 0) - less
  set(hash, field, left > 0 and left)
end

local function units_of(seats, pools)
  local units = #seats
  for _, pool in ipairs(pools) do
    units = units + pool[2]
  end
  return units
end

local function deadline(keep_ms)
  return keep_ms >= FOREVER and FOREVER or now + keep_ms
end

local function write(id, record)
  set(OWNERS, id, record)
  deadlines[id] = record[UNTIL] < FOREVER and record[UNTIL]
end

-- add: the units are his from here on, whoever had the seats before.
local function add(id, buyer, seats, pools, kind, keep_ms, fence, note)
  write(id, { buyer, seats, pools, kind, deadline(keep_ms), now, fence, note })
  for _, seat in ipairs(seats) do
    set(SEATS, seat, id)
  end
  for _, pool in ipairs(pools) do
    raise(CLAIMED, pool[1], pool[2])
  end
  raise(UNITS, buyer, units_of(seats, pools))
end

-- drop: gives back what the owner has, and only that. A seat that somebody else was given meanwhile
-- stays with him: a plain DEL, the published mistake, would take it away from him. The record goes
-- too, so stock is given back once, however often it is tried.
local function drop(id, record)
  set(OWNERS, id, false)
  deadlines[id] = false
  for _, seat in ipairs(record[OWN_SEATS]) do
    if get(SEATS, seat) == id then
      set(SEATS, seat, false)
    end
  end
  for _, pool in ipairs(record[OWN_POOLS]) do
    lower(CLAIMED, pool[1], pool[2])
  end
  lower(UNITS, record[BUYER], units_of(record[OWN_SEATS], record[OWN_POOLS]))
end

-- The record of an owner whose time is not over, or false. One that was not swept yet is dropped.
-- What this run wrote itself lives to its end, whatever the deadline, as in Book.
local function alive(id)
  local record = get(OWNERS, id)
  if record and record[UNTIL] <= now and not OWNERS.changed[id] then
    drop(id, record)
    return false
  end
  return record
end

-- Reads at once what dropping these owners will look at.
local function fetch_owned(ids)
  fetch(OWNERS, ids)
  local seats, buyers = {}, {}
  for _, id in ipairs(ids) do
    local record = OWNERS.known[id]
    if record then
      buyers[#buyers + 1] = record[BUYER]
      for _, seat in ipairs(record[OWN_SEATS]) do
        seats[#seats + 1] = seat
      end
    end
  end
  fetch(SEATS, seats)
  fetch(UNITS, buyers)
end

-- lapse: drops owners whose time is over, the longest dead first, so many at most that nobody waits
-- long. Returns whether there were any. Each owner has a deadline of his own in a sorted set: one
-- EXPIRE on a hash of all, the published mistake, renews everybody's whenever anybody comes.
local function lapse()
  local ids = call('ZRANGEBYSCORE', DEADLINES, '-inf', digits(now), 'LIMIT', looked, LAPSE_MAX)
  looked = looked + #ids
  fetch_owned(ids)
  for _, id in ipairs(ids) do
    local record = alive(id)
    -- His record was lost, or knows better.
    deadlines[id] = record and record[UNTIL] < FOREVER and record[UNTIL]
  end
  return #ids > 0
end

-- Who has these seats still: {seat, owner, buyer, until}. A seat that points to nobody is free.
local function taken(seats)
  local found = {}
  fetch(SEATS, seats)
  for _, seat in ipairs(seats) do
    local owner = SEATS.known[seat]
    local record = owner and alive(owner)
    if record then
      found[#found + 1] = { seat, owner, record[BUYER], record[UNTIL] }
    end
  end
  return found
end

local function bulk(command, key, args)
  for from = 1, #args, CHUNK do
    call(command, key, unpack(args, from, math.min(from + CHUNK - 1, #args)))
  end
end

-- Splits changes into what goes and what is put, the latter as pairs of arguments.
local function sorted(hash)
  local gone, put = {}, {}
  for field in pairs(hash.changed) do
    local value = hash.known[field]
    if value then
      put[#put + 1] = field
      put[#put + 1] = hash.encode(value)
    else
      gone[#gone + 1] = field
    end
  end
  return gone, put
end

-- Writes what the run has changed. What goes, goes first: Redis, when it is out of memory, lets a
-- script go on that has given some back.
local function flush()
  local gone, put = {}, {}
  for id, til in pairs(deadlines) do
    if til then
      put[#put + 1] = digits(til)
      put[#put + 1] = id
    else
      gone[#gone + 1] = id
    end
  end
  local puts = {}
  for i, hash in ipairs({ OWNERS, SEATS, STOCK, CLAIMED, UNITS }) do
    local off
    off, puts[i] = sorted(hash)
    bulk('HDEL', hash.key, off)
  end
  for i, hash in ipairs({ OWNERS, SEATS, STOCK, CLAIMED, UNITS }) do
    bulk('HSET', hash.key, puts[i])
  end
  -- After the rest, because most that go from here were never there: that gives nothing back.
  bulk('ZREM', DEADLINES, gone)
  bulk('ZADD', DEADLINES, put)
  if present ~= stored then
    call('SET', VERSION, digits(present))
  end
end
