-- pendingUnder returns the pending record under the fence, or nil and the reply that says why not.
local function pendingUnder(record, fence)
  local r, bad = read(record)
  if bad then return nil, bad end
  if not r or sub(r, 6, 6) ~= 'p' or sub(r, 16, 34) ~= fence then return nil, 'lost' end
  return r
end
