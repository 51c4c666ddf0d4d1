package domain

import "net/netip"

// Request is what key sources and [ClientAddress] read of a request.
type Request interface {
	// Peer is the address at the other end of the connection; the zero Addr if it has none.
	Peer() netip.Addr
	// Header is the values of all header lines of that name, in their order, joined
	// with commas, and how many lines there are.
	Header(name string) (value string, lines int)
}
