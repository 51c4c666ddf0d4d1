package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// request is what is asked for one key after the other.
type request struct {
	method, path string
	body         string // has %s for the key; without a body the key is a header
}

var ping = request{method: fasthttp.MethodGet, path: "/ping"}

func hit(policies ...string) request {
	return request{
		method: fasthttp.MethodPost, path: "/v1/hits",
		body: fmt.Sprintf(`{"key":"%%s","policies":["%s"]}`, strings.Join(policies, `","`)),
	}
}

// write makes to the request for a key.
func (r request) write(to *fasthttp.Request, address, key string) {
	to.Header.SetMethod(r.method)
	to.SetRequestURI("http://" + address + r.path)
	if r.body == "" {
		to.Header.Set("X-Client-Key", key)
		return
	}
	to.Header.SetContentType("application/json")
	to.SetBodyString(fmt.Sprintf(r.body, key))
}

// status is what a key is answered in the end: it asks more often than the policies
// that are to be full allow.
func (r request) status(address string) (int, error) {
	request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	r.write(request, address, "key-1")
	for range 10 {
		if err := fasthttp.DoTimeout(request, response, 10*time.Second); err != nil {
			return 0, err
		}
	}
	return response.StatusCode(), nil
}
