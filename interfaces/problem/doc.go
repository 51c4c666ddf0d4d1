// Package problem says how errors and decisions look over HTTP: status, headers
// and problem details (RFC 9457). It knows no framework, so that the server and
// every middleware answer alike.
package problem
