// Package domain holds what a rate limiter is about: policies and their
// windows, hits and the decisions they come to, the calls that are remembered,
// and the ports that a store implements.
//
// The words are used everywhere alike, in code, JSON, columns and docs:
//
//   - policy: a named limit, so many units per window
//   - key: who is limited, opaque bytes
//   - hit: one request to be decided, with a cost in units, against one or more policies
//   - window: a half-open span of time [start, end)
//   - count: units attempted in a window; refused: units of these that were refused
//   - used: count − refused
//   - decision: what a hit came to
//   - call: one remembered decision, a row of api_calls
//
// The package imports the standard library only, reads no clock and starts no
// goroutine. To write a storage adapter read counter.go, auditlog.go and
// unitofwork.go, in this order.
package domain
