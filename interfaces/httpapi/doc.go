// Package httpapi is the HTTP server, on Fiber. A handler decodes, calls the
// limiter once and encodes; what an error looks like is package problem's.
//
// Strings that Fiber hands out live as long as the handler. What goes to the
// limiter is copied first.
package httpapi
