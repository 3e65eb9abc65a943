-- put writes the record. The engine deletes it a moment after it has expired by its own field.
local function put(record, r, x)
  if x == 0 then
    redis.call('SET', record, r)
  else
    redis.call('SET', record, r, 'PXAT', math.ceil(x / 1000))
  end
end

-- moment is an end of a lease or of a record as it is kept.
local function moment(n) return n == 0 and zero or format('%017.0f', n) end

-- score is where in the index of what is pending a record stands whose expiry is kept so, under its creation and its ID.
local function score(expires) return expires == zero and '+inf' or expires end

-- expiry is the end of a retention, which -1 makes endless, but not before the lease's end.
local function expiry(retention, lease)
  if retention < 0 then return 0 end
  return math.max(now + retention, lease)
end
