-- Decides the takes of one client key and writes the windows that changed. It does
-- what domain.Ledger does; the store checks the one against the other in every call.
--
-- KEYS  the hash of each policy
-- ARGV  the number of windows, then for each: number of its hash, field, life in ms
--       then for each take: cost, whether it is refused already, number of slots, and
--       for each slot: window, limit ('' for none), whether in shadow, window before
--       (0 for none), and the share of that which weighs in: numerator, denominator
--
-- A field's value is "used refused deadline", the deadline in Unix milliseconds. The
-- answer has used and refused of each window, before and after.
--
-- Lua's numbers are exact up to 2^53 only. Those of 64 bits are two here: high and
-- low, of which low has 14 decimal digits.

local BASE, LIMB = 1e14, 1e7
local MAXH, MAXL = 92233, 72036854775807 -- 2^63 - 1

local KEYS, ARGV, call = KEYS, ARGV, redis.call
local floor, format, match, sub, tonumber = math.floor, string.format, string.match, string.sub, tonumber

local function number(s)
	if #s < 15 then return 0, tonumber(s) end
	return tonumber(sub(s, 1, -15)), tonumber(sub(s, -14))
end

local function text(h, l)
	if h == 0 then return format('%.0f', l) end
	return format('%.0f%014.0f', h, l)
end

local function less(ah, al, bh, bl) return ah < bh or ah == bh and al < bl end

local function plus(ah, al, bh, bl)
	local h, l = ah + bh, al + bl
	if l >= BASE then return h + 1, l - BASE end
	return h, l
end

local function minus(ah, al, bh, bl) -- b is not more than a
	if al < bl then return ah - bh - 1, al + BASE - bl end
	return ah - bh, al - bl
end

local function least(ah, al, bh, bl)
	if less(ah, al, bh, bl) then return ah, al end
	return bh, bl
end

-- product has six limbs, the lowest first.
local function product(ah, al, bh, bl)
	local am, bm = floor(al / LIMB), floor(bl / LIMB)
	local a, b = { al - am * LIMB, am, ah }, { bl - bm * LIMB, bm, bh }
	local r = { 0, 0, 0, 0, 0, 0 }
	for i = 1, 3 do
		local carry = 0
		for j = 1, 3 do
			local x = r[i + j - 1] + a[i] * b[j] + carry
			carry = floor(x / LIMB)
			r[i + j - 1] = x - carry * LIMB
		end
		r[i + 3] = carry
	end
	return r
end

-- within reports whether a*b <= c*d. Only where the products as floating point
-- numbers are too near each other to tell are they made exactly.
local function within(ah, al, bh, bl, ch, cl, dh, dl)
	local x = (ah * BASE + al) * (bh * BASE + bl)
	local y = (ch * BASE + cl) * (dh * BASE + dl)
	if math.abs(x - y) > 1e-12 * (x + y) then return x < y end
	local p, q = product(ah, al, bh, bl), product(ch, cl, dh, dl)
	for i = 6, 1, -1 do
		if p[i] ~= q[i] then return p[i] < q[i] end
	end
	return true
end

-- Read the windows.

local windows, answer = {}, {}
local at = 2
for i = 1, tonumber(ARGV[1]) do
	local place, field = tonumber(ARGV[at]), ARGV[at + 1]
	local used, refused, deadline = '0', '0', false
	local held = call('HGET', KEYS[place], field)
	if held then
		used, refused, deadline = match(held, '^(%d+) (%d+) (%d+)$')
		if not used then
			return redis.error_reply('ERR the field "' .. field .. '" of "' .. KEYS[place] .. '" is no window')
		end
	end
	local uh, ul = number(used)
	local rh, rl = number(refused)
	windows[i] = {
		hash = place, field = field, life = ARGV[at + 2], deadline = deadline,
		uh = uh, ul = ul, rh = rh, rl = rl, changed = false,
	}
	answer[4 * i - 3], answer[4 * i - 2], answer[4 * i - 1], answer[4 * i] = used, refused, used, refused
	at = at + 3
end

-- Decide the takes, in order.

-- fits reports whether used + carry + cost <= limit for the slot at ARGV[s]. The
-- carry is the previous window's used units * numerator / denominator, rounded up,
-- so that it stays within what is left just if used * numerator <= left * denominator.
local function fits(s, w, ch, cl)
	local limit = ARGV[s + 1]
	if limit == '' then return true end
	local lh, ll = number(limit)
	local th, tl = plus(w.uh, w.ul, ch, cl)
	if less(lh, ll, th, tl) then return false end
	local before = windows[tonumber(ARGV[s + 3])]
	if not before or before.uh == 0 and before.ul == 0 then return true end
	local mh, ml = minus(lh, ll, th, tl)
	local nh, nl = number(ARGV[s + 4])
	local dh, dl = number(ARGV[s + 5])
	return within(before.uh, before.ul, nh, nl, mh, ml, dh, dl)
end

while at <= #ARGV do
	local ch, cl = number(ARGV[at])
	local told, slots = ARGV[at + 1] == '1', tonumber(ARGV[at + 2])
	local first, last = at + 3, at + 6 * slots - 3
	local allowed, full = not told, {}
	for s = first, last, 6 do
		full[s] = told or not fits(s, windows[tonumber(ARGV[s])], ch, cl)
		if full[s] and ARGV[s + 2] ~= '1' then allowed = false end
	end
	for s = first, last, 6 do
		local w = windows[tonumber(ARGV[s])]
		if full[s] then
			w.rh, w.rl = plus(w.rh, w.rl, ch, cl)
			w.changed = true
		elseif allowed then
			w.uh, w.ul = plus(w.uh, w.ul, ch, cl)
			w.uh, w.ul = least(w.uh, w.ul, MAXH, MAXL)
			w.changed = true
		end
		-- Used and refused together stop at the largest number, at the cost of refused.
		w.rh, w.rl = least(w.rh, w.rl, minus(MAXH, MAXL, w.uh, w.ul))
	end
	at = last + 6
end

-- Write the windows that changed.

local now
local function clock()
	if not now then
		local t = call('TIME')
		now = t[1] * 1000 + floor(t[2] / 1000)
	end
	return now
end

local state = {} -- of each hash: whether it was written, and whether a window in it begins
for i, w in ipairs(windows) do
	if w.changed then
		if w.deadline then
			state[w.hash] = state[w.hash] or 'written'
		else
			w.deadline = format('%.0f', clock() + w.life)
			state[w.hash] = 'begun'
		end
		local used, refused = text(w.uh, w.ul), text(w.rh, w.rl)
		call('HSET', KEYS[w.hash], w.field, used .. ' ' .. refused .. ' ' .. w.deadline)
		answer[4 * i - 1], answer[4 * i] = used, refused
	end
end

-- tend lets a hash live until the last deadline in it and takes out the windows
-- whose deadline is over, except those just written.
local function tend(place)
	local hash, last, written = KEYS[place], clock() + 1, {}
	for _, w in ipairs(windows) do
		if w.hash == place and w.changed then written[w.field] = true end
	end
	local held = call('HGETALL', hash)
	for i = 1, #held, 2 do
		local deadline = tonumber(match(held[i + 1], ' (%d+)$') or 0)
		if deadline > now then
			last = math.max(last, deadline)
		elseif not written[held[i]] then
			call('HDEL', hash, held[i])
		end
	end
	call('PEXPIREAT', hash, format('%.0f', last))
end

-- The last deadline changes only when a window begins. A hash that has lost its time
-- to live gets it back.
for i, hash in ipairs(KEYS) do
	if state[i] == 'begun' or state[i] and call('PTTL', hash) == -1 then tend(i) end
end

return answer
