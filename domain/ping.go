package domain

// PingPath is the path of the demo endpoint.
const PingPath = "/ping"

// pingFallback is the key of everybody who sends none to the demo endpoint.
const pingFallback = "127.0.0.1"

// PingRoute limits the demo endpoint by [DefaultPolicy] and the header
// X-Client-Key. The client chooses its key, which therefore protects nothing, and
// those that send none share one.
func PingRoute() Route {
	return Route{
		Path: PingPath, Methods: []string{"GET"}, Key: KeySource{keyHeader, "X-Client-Key"}, Fallback: DefaultFallback(PingPath),
		Policies: []string{DefaultPolicy},
	}
}

// DefaultFallback is the fallback of routes of a path that name none: the client's
// address, and on [PingPath] the constant 127.0.0.1.
func DefaultFallback(path string) KeySource {
	if (manners{}).read(path).path == PingPath {
		return KeySource{keyConstant, pingFallback}
	}
	return KeySource{}
}
