local requests, at = {}, 0

function init(args)
  local keys, method, path, body = tonumber(args[1]), args[2], args[3], args[4]
  for i = 1, keys do
    local key = "key-" .. i
    if body == "" then
      requests[i] = wrk.format(method, path, {["Host"] = "bench", ["X-Client-Key"] = key})
    else
      requests[i] = wrk.format(method, path, {["Host"] = "bench", ["Content-Type"] = "application/json"}, body:format(key))
    end
  end
  at = math.random(keys)
end

function request()
  at = at % #requests + 1
  return requests[at]
end
