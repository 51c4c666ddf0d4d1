// Package ratelimitlog is a rate limiter that remembers every decision. It puts
// the parts together; what they are and mean is in the packages domain and
// application.
//
// [NewLimiter] gives a limiter to embed in a Go program, [NewServer] the HTTP
// server that the command ratelimitlog runs. Both are made by google/wire from
// wire.go, which lists every part.
package ratelimitlog
