package httpapi

import (
	"bytes"
	"net"
	"net/netip"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// request is what key sources read of a request. Fiber is not asked for the
// client's address: it believes headers that it should not.
type request struct{ c *fiber.Ctx }

var _ domain.Request = request{}

func (r request) Peer() netip.Addr {
	if addr, ok := r.c.Context().RemoteAddr().(*net.TCPAddr); ok {
		return addr.AddrPort().Addr()
	}
	return netip.Addr{}
}

func (r request) Header(name string) (value string, lines int) {
	values := r.c.Request().Header.PeekAll(name)
	if len(values) == 1 {
		return string(values[0]), 1
	}
	return string(bytes.Join(values, []byte(","))), len(values)
}

// origin describes the request. Its path lives only as long as c.
func origin(c *fiber.Ctx, id string) domain.Origin {
	return domain.Origin{Method: method(c), Path: utils.UnsafeString(c.Request().URI().PathOriginal()), RequestID: id}
}

// change describes a request of an administrator, who has proved to be one.
func change(c *fiber.Ctx, path string, r asked) domain.Origin {
	return domain.Origin{Method: method(c), Path: path, RequestID: r.id, Actor: "admin " + r.client}
}

// method is the request's method, "" if Fiber does not know it.
func method(c *fiber.Ctx) string {
	for _, known := range fiber.DefaultMethods {
		if c.Method() == known {
			return known // a constant: Fiber's own string does not outlive the request
		}
	}
	return ""
}
