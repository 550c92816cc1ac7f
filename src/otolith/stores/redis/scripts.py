"""The keys of a Redis store on the server, and the Lua scripts that read and change them.

Layout, format 1. All keys start with `{prefix}:`; the braces put them into one slot of a cluster.

    meta               hash: otolith (the version of this format), bytes (of all objects), pause and
                       sweep_at (of collections that expiry makes necessary), garbage
    object:<hash>      string: the bytes of an object; the hash is its 32 bytes, here and below
    index              sorted set: the hashes of all objects, all with score 0, so in their order
    refs               hash: name -> hash; an empty hash is a ref that was removed
    names              sorted set: the names in refs, all with score 0
    moves:<name>       list: the history of a ref, oldest first; see `refs.py`
    fences             hash: name -> the highest token, a decimal number
    leases             hash: name -> "token expires holder", in microseconds of the server's clock
    rules              hash: a family or scope -> microseconds until it expires; 0 means never
    deadlines          sorted set: family -> when it expires, in microseconds
    waiting:<name>     string with a time to live: the writer that last lost a race for a ref
    pending:<id>:<hash>  string with a time to live: an object of a large batch that has not landed
    gc, young, building, doomed   of a garbage collection: see `gc.py`

Theory of operation. Redis runs a script as one step, so a commit is one call of `COMMIT`: it checks
every condition, then writes. It calls nothing that can fail after its first write: the server
refuses the first write of a script if its memory is full, and no later one. Numbers of 63 bits do
not fit into Lua's, so tokens are compared as text and counted by the server.

Refs that expire do so in families (`family`): `session/a/main`, its other branches, its stash and
its attempts go together. From its deadline on a family is absent for every script, whether it was
removed already or not; the next commit to it, or the next collection, removes it.
"""

from __future__ import annotations

import re
from hashlib import sha1

FORMAT = 1
TRANSIENT_KEYS = re.compile(rb"cache:|waiting:|pending:")  # may be there before a store is
KEYS = re.compile(
    rb"(meta|index|refs|names|fences|leases|rules|deadlines|gc|young|building|doomed)\Z"
    rb"|object:|moves:|cache:|waiting:|pending:"
)
"""What follows the prefix in the keys of a store, or of a cache with the same prefix."""
CLAIM_MILLISECONDS = 30_000


class LuaScript:
    """The text of a script, and the SHA-1 by which the server knows it."""

    def __init__(self, *parts: str) -> None:
        self.text = "\n".join(parts)
        self.sha = sha1(self.text.encode(), usedforsecurity=False).hexdigest()


_COMMON = r"""
local p = KEYS[1]

local function text(number) return string.format('%.0f', number) end

local moment
local function now()
  if not moment then
    local time = redis.call('TIME')
    moment = time[1] * 1000000 + time[2]
  end
  return moment
end

local function family(name)
  local scope, rest = name:match('^([^/]+)/(.+)$')
  if scope == 'stage' then scope = 'session'
  elseif scope and scope:sub(1, 6) == 'stage.' then scope = scope:sub(7)
  elseif scope == '.attempts' then scope, rest = rest:match('^([^/]+)/(.+)$') end
  return scope and scope .. '/' .. rest:match('^[^/]*') .. '/'
end

local expires = redis.call('EXISTS', p .. 'deadlines') == 1
local gone = {}
local function is_gone(name)
  local group = expires and family(name)
  if not group then return false end
  if gone[group] == nil then
    local deadline = redis.call('ZSCORE', p .. 'deadlines', group)
    gone[group] = deadline and tonumber(deadline) <= now() or false
  end
  return gone[group]
end

local function names_below(prefix)
  return redis.call('ZRANGEBYLEX', p .. 'names', '[' .. prefix, '(' .. prefix .. '\255')
end

local function rule_of(group)
  return redis.call('HGET', p .. 'rules', group)
    or redis.call('HGET', p .. 'rules', group:match('^[^/]+/'))
end

local function purge(group, channel)
  local scope, id = group:match('^([^/]+)/(.*)/$')
  local stash = scope == 'session' and 'stage/' or 'stage.' .. scope .. '/'
  local found = {}
  for _, prefix in ipairs({group, stash .. id .. '/', '.attempts/' .. group:sub(1, -2)}) do
    for _, name in ipairs(names_below(prefix)) do
      if family(name) == group then
        redis.call('HDEL', p .. 'refs', name)
        redis.call('ZREM', p .. 'names', name)
        redis.call('UNLINK', p .. 'moves:' .. name)
        found[#found + 1] = name
      end
    end
  end
  redis.call('ZREM', p .. 'deadlines', group)
  redis.call('HDEL', p .. 'rules', group)
  gone[group] = false
  if #found > 0 then
    redis.call('HSET', p .. 'meta', 'garbage', '1')
    redis.call('PUBLISH', channel, table.concat(found, '\0'))
  end
end
"""

OPEN = LuaScript(
    "local p = KEYS[1]",
    r"""
local kind = redis.call('TYPE', p .. 'meta').ok
if kind == 'none' then
  for _, key in ipairs({'index', 'refs', 'names', 'fences', 'leases', 'rules', 'deadlines'}) do
    if redis.call('EXISTS', p .. key) == 1 then return 'foreign' end
  end
  if ARGV[1] == '' then return 'absent' end
  redis.call('HSET', p .. 'meta', 'otolith', ARGV[1], 'bytes', '0')
  return ARGV[1]
end
return kind == 'hash' and redis.call('HGET', p .. 'meta', 'otolith') or 'foreign'
""",
)
"""ARGV: the format to make, or nothing. Returns the format, 'absent' or 'foreign'."""

COMMIT = LuaScript(
    _COMMON,
    r"""
local stamp, channel, limit, pending = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local writer = ARGV[9]
local first_fence = 10
local first_swap = first_fence + 2 * ARGV[5]
local first_need = first_swap + 3 * ARGV[6]
local first_object = first_need + ARGV[7]
local step = pending == '' and 2 or 1

if redis.call('HEXISTS', p .. 'meta', 'otolith') == 0 then return {'absent'} end
local has_rules, is_sweeping, is_marking = false, false, false
if redis.call('EXISTS', p .. 'rules', p .. 'doomed', p .. 'gc') > 0 then
  has_rules = redis.call('EXISTS', p .. 'rules') == 1
  is_sweeping = redis.call('EXISTS', p .. 'doomed') == 1
  is_marking = redis.call('EXISTS', p .. 'gc') == 1
end
if expires then
  for at = first_swap, first_need - 1, 3 do
    if is_gone(ARGV[at]) then purge(family(ARGV[at]), channel) end
  end
end

-- Conditions, in the order of the contract.
for at = first_fence, first_swap - 1, 2 do
  local name, token = ARGV[at], ARGV[at + 1]
  local seen = redis.call('HGET', p .. 'fences', name) or '0'
  if #token < #seen or #token == #seen and token < seen then return {'fenced', name} end
  local lease = redis.call('HGET', p .. 'leases', name)
  if lease then
    local held, till = lease:match('^(%d+) (%d+) ')
    if held == token and tonumber(till) <= now() then return {'run out', name} end
  end
end
for at = first_swap, first_need - 1, 3 do
  local actual = redis.call('HGET', p .. 'refs', ARGV[at]) or ''
  if actual ~= ARGV[at + 1] then
    redis.pcall('SET', p .. 'waiting:' .. ARGV[at], writer, 'PX', 100)  -- not if it is full
    return {'stale', ARGV[at], ARGV[at + 1], actual}
  end
end
for at = first_need, first_object - 1 do
  if redis.call('EXISTS', p .. 'object:' .. ARGV[at]) == 0
    or is_sweeping and redis.call('SISMEMBER', p .. 'doomed', ARGV[at]) == 1 then
    return {'missing', ARGV[at]}
  end
end
if limit ~= '' or step == 1 then
  local size, seen = 0, {}
  for at = first_object, #ARGV, step do
    local hash = ARGV[at]
    if not seen[hash] and redis.call('EXISTS', p .. 'object:' .. hash) == 0 then
      if step == 1 and redis.call('EXISTS', pending .. hash) == 0 then return {'again'} end
      size = size + (step == 2 and #ARGV[at + 1] or redis.call('STRLEN', pending .. hash))
    end
    seen[hash] = true
  end
  if limit ~= '' and size > 0 then
    local used = tonumber(redis.call('HGET', p .. 'meta', 'bytes'))
    if used + size > tonumber(limit) then return {'quota', text(size)} end
  end
end

-- Objects: the first write, which the server refuses if it is full.
local added, index, all = 0, {}, {}
local function flush()
  if #index > 0 then redis.call('ZADD', p .. 'index', unpack(index)) end
  if #all > 0 and is_marking then redis.call('SADD', p .. 'young', unpack(all)) end
  if #all > 0 and is_sweeping then redis.call('SREM', p .. 'doomed', unpack(all)) end
  index, all = {}, {}
end
local objects = p .. 'object:'
local function place(hash, data)
  local key = objects .. hash
  if data then
    if redis.call('SETNX', key, data) == 0 then return end
    added = added + #data
  else
    if redis.call('EXISTS', key) == 1 then
      redis.call('UNLINK', pending .. hash)
      return
    end
    redis.call('RENAME', pending .. hash, key)
    redis.call('PERSIST', key)
    added = added + redis.call('STRLEN', key)
  end
  index[#index + 1] = 0
  index[#index + 1] = hash
end
for at = first_object, #ARGV, step do
  place(ARGV[at], step == 2 and ARGV[at + 1])
  all[#all + 1] = ARGV[at]
  if #all == 1000 then flush() end
end
flush()
if added > 0 then redis.call('HINCRBY', p .. 'meta', 'bytes', text(added)) end
if is_marking then
  for at = first_need, first_object - 1 do redis.call('SADD', p .. 'young', ARGV[at]) end
end

local moved, loser = {}, ''
for at = first_swap, first_need - 1, 3 do
  local name, old, new = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if old ~= new then
    if redis.call('HSET', p .. 'refs', name, new) == 1 then
      redis.call('ZADD', p .. 'names', 0, name)
    end
    local flags = (old ~= '' and 1 or 0) + (new ~= '' and 2 or 0)
    redis.call('RPUSH', p .. 'moves:' .. name, string.char(flags) .. old .. new .. stamp)
    moved[#moved + 1] = name
    local waiting = redis.call('GET', p .. 'waiting:' .. name)
    if waiting == writer then redis.call('DEL', p .. 'waiting:' .. name)
    elseif waiting then loser = waiting end
  end
end
for at = first_fence, first_swap - 1, 2 do
  redis.call('HSET', p .. 'fences', ARGV[at], ARGV[at + 1])
end
if #moved > 0 then redis.call('PUBLISH', channel, table.concat(moved, '\0')) end
if not has_rules and loser == '' then return 1 end  -- which is read faster than a list
if not has_rules then return {'landed', '', loser} end

-- Expiry: a family that was touched lives on; one writer is told to collect what has expired.
for at = first_swap, first_need - 1, 3 do
  local group = family(ARGV[at])
  local rule = group and rule_of(group)
  if rule and rule ~= '0' then
    redis.call('ZADD', p .. 'deadlines', text(now() + rule), group)
  end
end
local meta = redis.call('HMGET', p .. 'meta', 'garbage', 'sweep_at', 'pause')
local is_due = meta[1]
  or #redis.call('ZRANGEBYSCORE', p .. 'deadlines', '-inf', text(now()), 'LIMIT', 0, 1) > 0
if ARGV[8] == '' or not is_due or tonumber(meta[2] or '0') > now() then
  return {'landed', '', loser}
end
redis.call('HSET', p .. 'meta', 'sweep_at', text(now() + (meta[3] or 0)))
return {'landed', 'collect', loser}
""",
)
"""ARGV: stamp, channel, limit, prefix of pending objects, the numbers of fences, swaps and needs,
1 if the caller can collect, and who it is; then name and token of each fence, name, old and new of
each swap, each need, and hash and bytes of each object, or only hashes if they are pending.
Returns why it was refused; or 'landed', 'collect' if the caller should, and the writer that lost a
race for one of its refs a moment ago; 1 is short for 'landed' and nothing else."""

REF = LuaScript(
    _COMMON,
    r"""
local found = not is_gone(ARGV[1]) and redis.call('HGET', p .. 'refs', ARGV[1])
return found and found ~= '' and found
""",
)

REFS = LuaScript(
    _COMMON,
    r"""
local found = {}
for _, name in ipairs(names_below(ARGV[1])) do
  local hash = redis.call('HGET', p .. 'refs', name)
  if hash and (hash ~= '' or ARGV[2] == '1') and not is_gone(name) then
    found[#found + 1] = name
    found[#found + 1] = hash
  end
end
return found
""",
)
"""ARGV: a prefix, and 1 to list removed refs too. Returns names and hashes in turn."""

MOVES = LuaScript(
    _COMMON,
    r"""
local found = {}
for at = 2, #ARGV do
  local is_there = not is_gone(ARGV[at])
  found[at - 1] = is_there and redis.call('LRANGE', p .. 'moves:' .. ARGV[at], ARGV[1], -1) or {}
end
return found
""",
)
"""ARGV: where to begin in each list, and names. Returns the histories, oldest first."""

HOLDS = LuaScript(
    "local p = KEYS[1]",
    r"""
local is_sweeping = redis.call('EXISTS', p .. 'doomed') == 1
local found = {}
for at = 1, #ARGV do
  local is_there = redis.call('EXISTS', p .. 'object:' .. ARGV[at]) == 1
    and not (is_sweeping and redis.call('SISMEMBER', p .. 'doomed', ARGV[at]) == 1)
  found[at] = is_there and 1 or 0
end
return found
""",
)

LEASE = LuaScript(
    _COMMON,
    r"""
local name, holder, ttl = ARGV[1], ARGV[2], ARGV[3]
local token, till, owner
local lease = redis.call('HGET', p .. 'leases', name)
if lease then token, till, owner = lease:match('^(%d+) (%d+) (.*)$') end
local is_held = lease and tonumber(till) > now()
if is_held and owner ~= holder then return false end
if not is_held or redis.call('HGET', p .. 'fences', name) ~= token then
  redis.call('HINCRBY', p .. 'fences', name, 1)
  token = redis.call('HGET', p .. 'fences', name)
end
till = text(now() + ttl)
redis.call('HSET', p .. 'leases', name, token .. ' ' .. till .. ' ' .. holder)
return {token, till}
""",
)

LEASED = LuaScript(
    _COMMON,
    r"""
local lease = redis.call('HGET', p .. 'leases', ARGV[1])
if not lease then return false end
local token, till, owner = lease:match('^(%d+) (%d+) (.*)$')
if tonumber(till) <= now() then return false end
return {token, till, owner}
""",
)

RELEASE = LuaScript(
    _COMMON,
    r"""
local token, till, owner = (redis.call('HGET', p .. 'leases', ARGV[1]) or ''):match(
  '^(%d+) (%d+) (.*)$')
if token == ARGV[2] and owner == ARGV[3] then
  redis.call('HSET', p .. 'leases', ARGV[1], token .. ' 0 ' .. owner)
end
return 0
""",
)

EXPIRE = LuaScript(
    _COMMON,
    r"""
local prefix, rule, pause, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local is_family = prefix:match('^[^/]+/[^/]+/$')
local before = redis.call('HGET', p .. 'rules', prefix)
if before == rule and not is_family then return 0 end
local groups = {}
for _, name in ipairs(names_below(prefix)) do
  if is_gone(name) then purge(family(name), channel) else groups[family(name)] = true end
end
if rule == '' and not is_family then
  redis.call('HDEL', p .. 'rules', prefix)
else
  redis.call('HSET', p .. 'rules', prefix, rule == '' and '0' or rule)
  local slowest = tonumber(redis.call('HGET', p .. 'meta', 'pause') or pause)
  redis.call('HSET', p .. 'meta', 'pause', text(math.min(slowest, pause)))
end
for group in pairs(groups) do
  local own = redis.call('HGET', p .. 'rules', group)
  if is_family or not own then
    if rule == '' then redis.call('ZREM', p .. 'deadlines', group)
    else redis.call('ZADD', p .. 'deadlines', text(now() + rule), group) end
  end
end
return 0
""",
)
"""ARGV: a family or a scope, microseconds or nothing, the pause of collections, the channel."""

# Garbage collection. All but CLAIM end at once if the claim is lost.

CLAIM = LuaScript(
    "local p = KEYS[1]",
    r"""
if redis.call('EXISTS', p .. 'gc') == 1 then return 0 end
redis.call('UNLINK', p .. 'young', p .. 'building')
redis.call('SET', p .. 'gc', ARGV[1], 'PX', ARGV[2])
redis.call('HDEL', p .. 'meta', 'garbage')
return 1
""",
)

_CLAIMED = rf"""
if redis.call('GET', p .. 'gc') ~= ARGV[1] then return 'lost' end
redis.call('PEXPIRE', p .. 'gc', {CLAIM_MILLISECONDS})
"""

PURGE = LuaScript(
    _COMMON,
    _CLAIMED,
    r"""
local found = redis.call(
  'ZRANGEBYSCORE', p .. 'deadlines', '-inf', text(now()), 'LIMIT', 0, ARGV[3])
for _, group in ipairs(found) do purge(group, ARGV[2]) end
return #found
""",
)

FORGET = LuaScript(
    "local p = KEYS[1]",
    _CLAIMED,
    r"""
for at = 2, #ARGV, 3 do
  local name, key = ARGV[at], p .. 'moves:' .. ARGV[at]
  if redis.call('LINDEX', key, 0) == ARGV[at + 1] then
    redis.call('LTRIM', key, ARGV[at + 2], -1)
    if redis.call('EXISTS', key) == 0 and redis.call('HGET', p .. 'refs', name) == '' then
      redis.call('HDEL', p .. 'refs', name)
      redis.call('ZREM', p .. 'names', name)
    end
  end
end
return 0
""",
)
"""ARGV: the claim; then the name of each history, its oldest move, and how many to drop."""

YOUNG = LuaScript("local p = KEYS[1]", _CLAIMED, "return redis.call('SPOP', p .. 'young', ARGV[2])")

BUILD = LuaScript(
    "local p = KEYS[1]",
    _CLAIMED,
    r"""
redis.call(ARGV[2], p .. 'building', unpack(ARGV, 3))
return 0
""",
)
"""ARGV: the claim, SADD or SREM, hashes."""

CONDEMN = LuaScript(
    "local p = KEYS[1]",
    _CLAIMED,
    r"""
if #redis.call('SINTER', p .. 'young', p .. 'building') > 0 then return 0 end
if redis.call('EXISTS', p .. 'building') == 1 then
  redis.call('RENAME', p .. 'building', p .. 'doomed')
end
return 1
""",
)

SWEEP = LuaScript(
    "local p = KEYS[1]",
    _CLAIMED,
    r"""
local dead, size = redis.call('SPOP', p .. 'doomed', ARGV[2]), 0
for _, hash in ipairs(dead) do
  size = size + redis.call('STRLEN', p .. 'object:' .. hash)
  redis.call('UNLINK', p .. 'object:' .. hash)
end
if #dead > 0 then
  redis.call('ZREM', p .. 'index', unpack(dead))
  redis.call('HINCRBY', p .. 'meta', 'bytes', string.format('%.0f', -size))
end
return {#dead, size}
""",
)

YIELD = LuaScript(
    "local p = KEYS[1]",
    _CLAIMED,
    "return redis.call('UNLINK', p .. 'gc', p .. 'young', p .. 'building')",
)
"""Ends a collection."""
