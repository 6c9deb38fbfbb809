-- free: gives back what this owner has, nobody else's. Again does nothing again.
--   asked    {'free', id, was_version?, unless_after_ms?}
--   touches  OWNERS, SEATS, CLAIMED, UNITS, DEADLINES
--   returns  {DONE, whether he was there, had that version and was not written later than that}
-- Guarded by the owner's own record, gone with the first time. INCR for each message that asks to
-- give stock back, the published mistake, gives it back twice when the message comes twice.

local function free(op)
  local _, id, was_version, unless_after_ms = unpack(op, 1, 4)
  local record = alive(id)
  if not record or (was_version and was_version ~= record[FENCE]) then
    return { DONE, false }
  end
  if unless_after_ms and record[SINCE] > unless_after_ms then
    return { DONE, false }
  end
  drop(id, record)
  return { DONE, true }
end
