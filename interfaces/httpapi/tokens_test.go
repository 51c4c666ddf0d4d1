package httpapi

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestAFloodOfWrongTokensFromManyAddressesShutsNobodyOut(t *testing.T) {
	guard, err := newGuard(Tokens{Admin: "right"}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	guard.now = func() time.Time { return now }
	app := fiber.New()
	check := func(token, from string) int {
		request := &fasthttp.RequestCtx{}
		request.Request.Header.Set("Authorization", "Bearer "+token)
		c := app.AcquireCtx(request)
		defer app.ReleaseCtx(c)
		var p asProblem
		if errors.As(guard.check(c, admin, from), &p) {
			return p.Status
		}
		return 200
	}
	for i := range 20 {
		if got := check("wrong", "ip:192.0.2.1"); got != 401 {
			t.Fatalf("wrong token %d: %d", i+1, got)
		}
	}
	for i := range 3 * wrongTokensClients {
		check("wrong", fmt.Sprint("ip:", i))
	}
	if n := len(guard.wrong); n > wrongTokensClients+1 {
		t.Errorf("%d addresses are remembered", n)
	}
	for _, c := range []struct {
		token, from string
		want        int
	}{
		{"right", "ip:192.0.2.1", 429}, // the flood has not freed it
		{"right", "ip:198.51.100.7", 200}, {"wrong", "ip:198.51.100.7", 429}, {"right", "ip:198.51.100.7", 200},
	} {
		if got := check(c.token, c.from); got != c.want {
			t.Errorf("a %s token from %s: %d, want %d", c.token, c.from, got, c.want)
		}
	}
	now = now.Add(wrongTokensSpan)
	if got := check("right", "ip:192.0.2.1"); got != 200 {
		t.Errorf("a minute later: %d", got)
	}
	if got := check("wrong", "ip:198.51.100.7"); got != 401 || len(guard.wrong) != 1 {
		t.Errorf("a minute later: %d, %d addresses", got, len(guard.wrong))
	}
}

func TestTokensOfTwoRolesMustDiffer(t *testing.T) {
	_, err := newGuard(Tokens{Admin: "same", Client: "same"}, zap.NewNop())
	if invalid := (*domain.InvalidError)(nil); !errors.As(err, &invalid) || invalid.Error() != "admin-token must not be the client token too" {
		t.Errorf("err = %v", err)
	}
}
