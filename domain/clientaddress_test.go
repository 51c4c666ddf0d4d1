package domain_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// fakeRequest is a request as a transport shows it.
type fakeRequest struct {
	peer    netip.Addr
	headers [][2]string
}

// newRequest has headers given as name, value, name, value.
func newRequest(peer string, headers ...string) *fakeRequest {
	r := &fakeRequest{}
	if at, err := netip.ParseAddrPort(peer); err == nil {
		r.peer = at.Addr()
	}
	for i := 0; i < len(headers); i += 2 {
		r.headers = append(r.headers, [2]string{headers[i], headers[i+1]})
	}
	return r
}

func (r *fakeRequest) Peer() netip.Addr { return r.peer }

func (r *fakeRequest) Header(name string) (string, int) {
	var values []string
	for _, header := range r.headers {
		if strings.EqualFold(header[0], name) {
			values = append(values, header[1])
		}
	}
	return strings.Join(values, ","), len(values)
}

func trusted(t *testing.T, texts ...string) (prefixes []netip.Prefix) {
	t.Helper()
	for _, text := range texts {
		prefix, err := domain.ParseTrusted(text)
		if err != nil {
			t.Fatal(err)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes
}

func TestTheClientIsTheRightMostUntrustedAddress(t *testing.T) { // cases 59, 61, 62, 64, 65, 67
	list := domain.ClientAddress{Trusted: trusted(t, "10.0.0.0/8", "2001:db8:ffff::/48", "127.0.0.1")}
	forwarded, cdn := list, list
	forwarded.Header, cdn.Header = "Forwarded", "CF-Connecting-IP"
	const proxy, xff = "10.0.0.1:4000", "X-Forwarded-For"
	for _, c := range []struct {
		name    string
		clients domain.ClientAddress
		request *fakeRequest
		want    string
	}{
		{"no proxies are trusted", domain.ClientAddress{}, newRequest(proxy, xff, "1.2.3.4"), "ip:10.0.0.1"},
		{"an untrusted peer", list, newRequest("192.0.2.1:1", xff, "1.2.3.4"), "ip:192.0.2.1"},
		{"an untrusted peer and loopback", cdn, newRequest("192.0.2.1:1", "CF-Connecting-IP", "127.0.0.1"), "ip:192.0.2.1"},
		{"a trusted peer without the header", list, newRequest(proxy), "ip:10.0.0.1"},
		{"a chain", list, newRequest(proxy, xff, "1.2.3.4, 203.0.113.50, 10.0.0.7"), "ip:203.0.113.50"},
		{"two lines", list, newRequest(proxy, xff, "9.9.9.9", xff, "203.0.113.50, 10.0.0.1"), "ip:203.0.113.50"},
		{"two lines, the last one alone", list, newRequest(proxy, xff, "203.0.113.50, 10.0.0.1", xff, "9.9.9.9"), "ip:9.9.9.9"},
		{"all trusted", list, newRequest(proxy, xff, "10.0.0.3, 10.0.0.2"), "ip:10.0.0.3"},
		{"blanks and tabs", list, newRequest(proxy, xff, " 1.1.1.1 ,\t203.0.113.50\t , 10.0.0.7 "), "ip:203.0.113.50"},
		{"a port", list, newRequest(proxy, xff, "203.0.113.7:5001"), "ip:203.0.113.7"},
		{"another port", list, newRequest(proxy, xff, "203.0.113.7:5002"), "ip:203.0.113.7"},
		{"brackets and a port", list, newRequest(proxy, xff, "[2001:db8::1]:443"), "ip:2001:db8::/64"},
		{"brackets", list, newRequest(proxy, xff, "[2001:db8::2]"), "ip:2001:db8::/64"},
		{"none of both", list, newRequest(proxy, xff, "2001:DB8:0:0:0:0:0:3"), "ip:2001:db8::/64"},
		{"another subnet", list, newRequest(proxy, xff, "2001:db8:0:1::1"), "ip:2001:db8:0:1::/64"},
		{"a zone", domain.ClientAddress{}, &fakeRequest{peer: netip.MustParseAddr("fe80::1%eth0")}, "ip:fe80::/64"},
		{"IPv4 in IPv6", domain.ClientAddress{}, newRequest("[::ffff:192.0.2.1]:1"), "ip:192.0.2.1"},
		{"IPv4 in IPv6 in hexadecimal", list, newRequest(proxy, xff, "::ffff:c000:202"), "ip:192.0.2.2"},
		{"a trusted peer, IPv4 in IPv6", list, newRequest("[::ffff:10.0.0.1]:1", xff, "203.0.113.50"), "ip:203.0.113.50"},
		{"a trusted hop, IPv4 in IPv6", list, newRequest(proxy, xff, "203.0.113.50, ::ffff:10.0.0.9"), "ip:203.0.113.50"},
		{"NAT64 is not unwrapped", list, newRequest(proxy, xff, "64:ff9b::102:304"), "ip:64:ff9b::/64"},
		{"a trusted IPv6 peer", list, newRequest("[2001:db8:ffff::1]:1", xff, "203.0.113.50"), "ip:203.0.113.50"},
		{"what is no address stops the search", list, newRequest(proxy, xff, "203.0.113.50, bogus, 10.0.0.7"), "ip:10.0.0.7"},
		{"an empty element too", list, newRequest(proxy, xff, "203.0.113.50,,10.0.0.7"), "ip:10.0.0.7"},
		{"an empty header", list, newRequest(proxy, xff, ""), "ip:10.0.0.1"},
		{"a bad port", list, newRequest(proxy, xff, "203.0.113.50:x"), "ip:10.0.0.1"},
		{"the header of a CDN", cdn, newRequest(proxy, "cf-connecting-ip", "203.0.113.50", xff, "1.2.3.4"), "ip:203.0.113.50"},
		{"no address at all", list, newRequest("@"), "ip:none"},

		{"Forwarded", forwarded, newRequest(proxy, "Forwarded", `for=1.2.3.4, For=203.0.113.50;proto=https;by=10.0.0.1`, xff, "9.9.9.9"), "ip:203.0.113.50"},
		{"Forwarded, quoted IPv6", forwarded, newRequest(proxy, "Forwarded", `proto=http;for="[2001:db8::1]:4711"`), "ip:2001:db8::/64"},
		{"Forwarded, quoted with port", forwarded, newRequest(proxy, "Forwarded", `for="203.0.113.50:80"`), "ip:203.0.113.50"},
		{"Forwarded, a comma in quotes", forwarded, newRequest(proxy, "Forwarded", `for=203.0.113.50;host="a,b", for=10.0.0.2`), "ip:203.0.113.50"},
		{"Forwarded, quotes left open by the client", forwarded, newRequest(proxy, "Forwarded", `for="1.2.3.4`, "Forwarded", `for=203.0.113.50`), "ip:10.0.0.1"},
		{"Forwarded, an element within quotes", forwarded, newRequest(proxy, "Forwarded", `for=203.0.113.50;host="e\", for=9.9.9.9;x=\""`), "ip:203.0.113.50"},
		{"Forwarded, a parameter within quotes", forwarded, newRequest(proxy, "Forwarded", `for=203.0.113.50;host="a;for=9.9.9.9;b=c"`), "ip:203.0.113.50"},
		{"Forwarded, a node with escapes", forwarded, newRequest(proxy, "Forwarded", `for="\203.0.113.50"`), "ip:203.0.113.50"},
		{"Forwarded, malformed", forwarded, newRequest(proxy, "Forwarded", `for=1.2.3.4 for=203.0.113.50`), "ip:10.0.0.1"},
		{"Forwarded, no value", forwarded, newRequest(proxy, "Forwarded", `for`), "ip:10.0.0.1"},
		{"Forwarded, an empty element", forwarded, newRequest(proxy, "Forwarded", `for=203.0.113.50,`), "ip:10.0.0.1"},
		{"Forwarded, empty", forwarded, newRequest(proxy, "Forwarded", ``), "ip:10.0.0.1"},
		{"Forwarded, unknown", forwarded, newRequest(proxy, "Forwarded", `for=1.2.3.4, for=unknown`), "ip:10.0.0.1"},
		{"Forwarded, obfuscated", forwarded, newRequest(proxy, "Forwarded", `for=1.2.3.4, for=_hidden`), "ip:10.0.0.1"},
		{"Forwarded, IPv6 that is not quoted", forwarded, newRequest(proxy, "Forwarded", `for=[2001:db8::1]`), "ip:10.0.0.1"},
		{"Forwarded, IPv6 without brackets", forwarded, newRequest(proxy, "Forwarded", `for="2001:db8::1"`), "ip:10.0.0.1"},
		{"Forwarded, two nodes", forwarded, newRequest(proxy, "Forwarded", `for=1.2.3.4;for=5.6.7.8`), "ip:10.0.0.1"},
		{"Forwarded, no node", forwarded, newRequest(proxy, "Forwarded", `proto=https`), "ip:10.0.0.1"},
		{"Forwarded is not looked at by default", list, newRequest(proxy, "Forwarded", `for=1.2.3.4`), "ip:10.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.clients.Key(c.request); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestIPv6AddressesAreGroupedByPrefix(t *testing.T) { // case 65
	for bits, want := range map[int]string{0: "ip:2001:db8:1:2::/64", 48: "ip:2001:db8:1::/48", 56: "ip:2001:db8:1::/56", 128: "ip:2001:db8:1:2::9"} {
		clients := domain.ClientAddress{IPv6Prefix: bits}
		if got := clients.Key(newRequest("[2001:db8:1:2::9]:1")); got != want {
			t.Errorf("%d bits: %s, want %s", bits, got, want)
		}
	}
	for _, bits := range []int{-1, 1, 31, 129} {
		if err := (&domain.ClientAddress{IPv6Prefix: bits}).Check(); err == nil {
			t.Errorf("%d bits are taken", bits)
		}
	}
}

func TestTrustedProxiesAreAddressesAndRanges(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8": "10.0.0.0/8", "127.0.0.1": "127.0.0.1/32", "::1": "::1/128", "2001:db8::/32": "2001:db8::/32",
		"::ffff:10.0.0.0/104": "10.0.0.0/8", "::ffff:10.0.0.1": "10.0.0.1/32",
	} {
		if got, err := domain.ParseTrusted(text); err != nil || got.String() != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "no address", "10.0.0.0/33": "no address", "10.0.0/8": "no address", "proxy.example": "no address", "fe80::1%eth0": "no address", "10.0.0.1:80": "no address",
		"10.0.0.1/8": "write 10.0.0.0/8", "0.0.0.0/0": "trusts everybody", "::/0": "trusts everybody", "::ffff:0.0.0.0/96": "trusts everybody",
	} {
		if got, err := domain.ParseTrusted(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
}
