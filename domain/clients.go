package domain

import (
	"fmt"
	"net/netip"
	"strings"
)

// Clients finds out the address that a request comes from. The zero value takes
// the other end of the connection.
//
// Behind proxies the address is in a header, which anybody can write. It is
// believed as far as it was written by trusted proxies: from the end of the list
// backwards past trusted addresses, to the first that is not trusted.
type Clients struct {
	// Trusted are the addresses of proxies.
	Trusted []netip.Prefix
	// Header is X-Forwarded-For if it is empty, or Forwarded (RFC 7239), or another
	// header that a proxy sets to an address or a list of them.
	Header string
	// IPv6Prefix is how many bits of an IPv6 address make a client, 32 to 128. 0
	// means 64: that much is one subscriber's at least.
	IPv6Prefix int
}

// ParseTrusted reads the addresses of trusted proxies: one address, or a range
// like 10.0.0.0/8. What cannot be read is an *InvalidError, and so is a range of
// all addresses: then every client could claim to be any other.
func ParseTrusted(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		addr, addrErr := netip.ParseAddr(text)
		if addrErr != nil || addr.Zone() != "" {
			return netip.Prefix{}, &InvalidError{"trusted_proxies", fmt.Sprintf("has %q, which is no address and no range like 10.0.0.0/8", text)}
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	if addr := prefix.Addr(); addr.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
	}
	switch {
	case prefix.Masked() != prefix:
		return netip.Prefix{}, &InvalidError{"trusted_proxies", fmt.Sprintf("has %q, whose address goes beyond the prefix; write %s", text, prefix.Masked())}
	case prefix.Bits() == 0:
		return netip.Prefix{}, &InvalidError{"trusted_proxies", fmt.Sprintf("has %q, which trusts everybody", text)}
	}
	return prefix, nil
}

// CheckClientHeader reports with an *InvalidError what keeps name from being a
// header that addresses are taken from.
func CheckClientHeader(name string) error { return checkHeaderName(name) }

// Check reports with an *InvalidError what is wrong with the settings.
func (c *Clients) Check() error {
	if c.IPv6Prefix != 0 && (c.IPv6Prefix < 32 || c.IPv6Prefix > 128) {
		return &InvalidError{"ipv6_prefix", fmt.Sprintf("is %d, it must be 32 to 128", c.IPv6Prefix)}
	}
	return nil
}

// Key is the key of the client that a request comes from: "ip:" and its address,
// of IPv6 the prefix. Requests without an address share one.
func (c *Clients) Key(r Request) string {
	addr := c.Addr(r)
	switch {
	case !addr.IsValid():
		return addressPrefix + "none"
	case addr.Is4():
		return addressPrefix + addr.String()
	}
	bits := c.IPv6Prefix
	if bits == 0 {
		bits = 64
	}
	prefix, err := addr.Prefix(bits)
	if err != nil || bits == 128 {
		return addressPrefix + addr.String()
	}
	return addressPrefix + prefix.String()
}

// Addr is the address of the client that a request comes from, IPv4 in IPv6
// unwrapped and without a zone; the zero Addr if the connection has none.
func (c *Clients) Addr(r Request) netip.Addr {
	addr := plain(r.Peer())
	if !c.trusts(addr) {
		return addr
	}
	header := c.Header
	if header == "" {
		header = "X-Forwarded-For"
	}
	list, lines := r.Header(header)
	if lines == 0 {
		return addr
	}
	hop := listHop
	if strings.EqualFold(header, "Forwarded") {
		hop = forwardedHop
	}
	for more := true; more; {
		var element string
		list, element, more = cutLast(list)
		next, ok := hop(element)
		if !ok {
			return addr // it says nothing that can be believed: the last hop that could
		}
		if addr = next; !c.trusts(addr) {
			return addr
		}
	}
	return addr // all are trusted: the first of them
}

func (c *Clients) trusts(addr netip.Addr) bool {
	for _, prefix := range c.Trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// cutLast cuts the last element off a list; more says that there is something before it.
func cutLast(list string) (before, last string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch list[i] {
		case '"':
			quoted = !quoted
		case ',':
			if !quoted {
				return list[:i], strings.Trim(list[i+1:], " \t"), true
			}
		}
	}
	return "", strings.Trim(list, " \t"), false
}

// listHop reads an element of X-Forwarded-For: an address, maybe with a port, of
// IPv6 maybe in brackets.
func listHop(element string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(element); err == nil {
		return plain(addr), true
	}
	if at, err := netip.ParseAddrPort(element); err == nil {
		return plain(at.Addr()), true
	}
	inside, ok := strings.CutPrefix(element, "[")
	if !ok {
		return netip.Addr{}, false
	}
	inside, ok = strings.CutSuffix(inside, "]")
	addr, err := netip.ParseAddr(inside)
	return plain(addr), ok && err == nil && addr.Is6()
}

// forwardedHop reads the node of the "for" parameter of an element of Forwarded
// (RFC 7239 section 4). Unknown and obfuscated nodes are no address.
func forwardedHop(element string) (netip.Addr, bool) {
	node, found := "", false
	for pair := range strings.SplitSeq(element, ";") { // the nodes have no ";" in them
		name, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
		if !strings.EqualFold(name, "for") {
			continue
		}
		if found {
			return netip.Addr{}, false
		}
		node, found = value, true
	}
	if quoted, ok := strings.CutPrefix(node, `"`); ok {
		if node, ok = strings.CutSuffix(quoted, `"`); !ok {
			return netip.Addr{}, false
		}
	} else if strings.ContainsAny(node, ":[]") {
		return netip.Addr{}, false // must be quoted
	}
	if strings.Contains(node, ":") && strings.Count(node, ":") != 1 && !strings.HasPrefix(node, "[") {
		return netip.Addr{}, false // IPv6 must be in brackets
	}
	return listHop(node)
}

func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
