package domain

import (
	"fmt"
	"net/netip"
	"strings"
)

// ClientAddress finds out the address that a request comes from. The zero value takes
// the other end of the connection.
//
// Behind proxies the address is in a header, which anybody can write. It is
// believed as far as it was written by trusted proxies: from the end of the list
// backwards past trusted addresses, to the first that is not trusted.
type ClientAddress struct {
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
func CheckClientHeader(name string) error { return checkToken("header", name) }

// Check reports with an *InvalidError what is wrong with the settings.
func (c *ClientAddress) Check() error {
	if c.IPv6Prefix != 0 && (c.IPv6Prefix < 32 || c.IPv6Prefix > 128) {
		return &InvalidError{"ipv6_prefix", fmt.Sprintf("is %d, it must be 32 to 128", c.IPv6Prefix)}
	}
	return nil
}

// Key is the key of the client that a request comes from: "ip:" and its address,
// of IPv6 the prefix. Requests without an address share one.
func (c *ClientAddress) Key(r Request) string {
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
func (c *ClientAddress) Addr(r Request) netip.Addr {
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
	hops := strings.Split(list, ",")
	if strings.EqualFold(header, "Forwarded") {
		hops = forwardedNodes(list)
	}
	for i := len(hops) - 1; i >= 0; i-- {
		next, ok := parseHop(strings.Trim(hops[i], " \t"))
		if !ok {
			return addr // it says nothing that can be believed: the last hop that could
		}
		if addr = next; !c.trusts(addr) {
			return addr
		}
	}
	return addr // all are trusted: the first of them
}

func (c *ClientAddress) trusts(addr netip.Addr) bool {
	for _, prefix := range c.Trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// parseHop reads an address, maybe with a port, of IPv6 maybe in brackets.
func parseHop(hop string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(hop); err == nil {
		return plain(addr), true
	}
	if at, err := netip.ParseAddrPort(hop); err == nil {
		return plain(at.Addr()), true
	}
	inside, ok := strings.CutPrefix(hop, "[")
	if !ok {
		return netip.Addr{}, false
	}
	inside, ok = strings.CutSuffix(inside, "]")
	addr, err := netip.ParseAddr(inside)
	return plain(addr), ok && err == nil && addr.Is6()
}

// forwardedNodes are the nodes of the "for" parameters of a Forwarded header
// (RFC 7239 section 4), one for each element of the list: "" where an element has
// none or one that is no address. None at all if the header is malformed, since
// then nobody can tell who wrote what.
func forwardedNodes(list string) (nodes []string) {
	node, found := "", false
	for {
		list = strings.TrimLeft(list, " \t")
		end := strings.IndexAny(list, "=;,\" ")
		if end <= 0 || list[end] != '=' {
			return nil // a parameter is name=value
		}
		name, value, quoted := list[:end], "", false
		list = list[end+1:]
		if quoted = strings.HasPrefix(list, `"`); quoted {
			var ok bool
			if value, list, ok = cutQuoted(list); !ok {
				return nil
			}
		} else {
			end = strings.IndexAny(list+",", ";, \t")
			value, list = list[:end], list[end:]
			if strings.Contains(value, `"`) {
				return nil
			}
		}
		if strings.EqualFold(name, "for") {
			if found {
				return nil // an element has one
			}
			node, found = value, true
			if !quoted && strings.ContainsAny(value, ":[]") || strings.Count(value, ":") > 1 && !strings.HasPrefix(value, "[") {
				node = "" // a port and IPv6 must be quoted, and IPv6 in brackets
			}
		}
		switch list = strings.TrimLeft(list, " \t"); {
		case list == "":
			return append(nodes, node)
		case list[0] == ',':
			nodes, node, found = append(nodes, node), "", false
		case list[0] != ';':
			return nil
		}
		list = list[1:]
	}
}

// cutQuoted cuts a quoted string (RFC 9110 section 5.6.4) off the beginning of s.
func cutQuoted(s string) (value, rest string, ok bool) {
	var unquoted []byte
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return string(unquoted), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		unquoted = append(unquoted, s[i])
	}
	return "", "", false
}

func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
