package httpapi

import (
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// ping is the limited demo endpoint: it shows what its route decided.
func (s *Server) ping(c *fiber.Ctx, r asked) error {
	if r.decision == nil { // never without a limit
		return fiber.ErrNotFound
	}
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return appendPong(b, r.decision) })
	return nil
}

// appendPong appends the answer to a ping that was allowed. Of several policies it
// shows the one nearest to refusal.
func appendPong(b []byte, d *domain.Decision) []byte {
	p := d.Nearest()
	if p == nil { // all are in shadow
		p = &d.Policies[0]
	}
	b = problem.AppendString(append(b, `{"message":"pong","key":`...), d.Key)
	b = problem.AppendString(append(b, `,"policy":`...), p.Policy)
	b = problem.AppendUnits(append(b, `,"limit":`...), p.Limit)
	b = strconv.AppendInt(append(b, `,"count":`...), p.Count, 10)
	b = problem.AppendUnits(append(b, `,"remaining":`...), p.Remaining())
	b = p.Window.End.AppendFormat(append(b, `,"reset_at":"`...), time.RFC3339)
	return append(b, `"}`...)
}
