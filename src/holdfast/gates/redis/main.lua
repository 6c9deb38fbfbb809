-- The loop over the operations; book.lua says what the script is asked and returns.

local OPERATIONS = {
  claim = claim,
  keep = keep,
  mark = mark,
  free = free,
  find = find,
  stock = stock,
  adjust = adjust,
}

local ops = cmsgpack.unpack(ARGV[2])

-- Reads at once what claims will ask about: ids, seats and who has them, buyers.
local function fetch_asked()
  local ids, seats, buyers = {}, {}, {}
  for _, op in ipairs(ops) do
    if op[1] == 'claim' or op[1] == 'mark' then
      ids[#ids + 1] = op[2]
      buyers[#buyers + 1] = op[3]
      for _, seat in ipairs(op[4]) do
        seats[#seats + 1] = seat
      end
    end
  end
  fetch(SEATS, seats)
  for _, seat in ipairs(seats) do
    ids[#ids + 1] = SEATS.known[seat] or nil
  end
  fetch(OWNERS, ids)
  fetch(UNITS, buyers)
end

lapse()
if present ~= 0 and asked > present then
  present = asked
end
fetch_asked()

local verdicts = {}
for i, op in ipairs(ops) do
  verdicts[i] = OPERATIONS[op[1]](op)
end
flush()

-- Changes nothing, but counts as a write: a replica refuses it. What a replica knows may be old,
-- and a run that only looked would else be answered by one after a failover. It comes last because
-- Redis, when it is out of memory, lets a script go on once it has written something.
call('PERSIST', VERSION)

return cmsgpack.pack({ now, verdicts })
