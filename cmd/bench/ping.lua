local requests, at = {}, 0

function init(args)
  local keys = tonumber(args[1])
  for i = 1, keys do
    requests[i] = wrk.format("GET", "/ping", {["Host"] = "bench", ["X-Client-Key"] = "key-" .. i})
  end
  at = math.random(keys)
end

function request()
  at = at % #requests + 1
  return requests[at]
end
