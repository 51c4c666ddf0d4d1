package httpapi

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// Tokens are what callers prove their role with, as Authorization: Bearer. The
// admin's opens everything. Without a token of the admin or the audit, what is
// theirs is closed; without one of the client, what is the client's is open.
type Tokens struct {
	Admin, Audit, Client string
}

// role is what a caller may do.
type role int

const (
	client role = iota
	audit
	admin
)

var roleNames = [...]string{"client", "audit", "admin"}

// Wrong tokens are answered 401 so often per client address and span, then 429.
const (
	wrongTokens     = 20
	wrongTokensSpan = time.Minute
	// wrongTokensClients is how many addresses are told apart within a span. All
	// beyond share one count, so that a flood of addresses fills no memory and frees
	// nobody; that count is held against wrong tokens only, so that it shuts nobody out.
	wrongTokensClients = 8192
)

// guard checks tokens.
type guard struct {
	hashes [3][]byte // of the tokens by role, nil if there is none
	log    *zap.Logger
	now    func() time.Time

	mu    sync.Mutex
	span  time.Time      // when the span ends
	wrong map[string]int // by client
}

func newGuard(tokens Tokens, log *zap.Logger) (*guard, error) {
	g := &guard{log: log, now: time.Now, wrong: map[string]int{}}
	for r, token := range []string{client: tokens.Client, audit: tokens.Audit, admin: tokens.Admin} {
		if token == "" {
			continue
		}
		for i := range len(token) {
			if token[i] <= ' ' || token[i] > '~' { // it could not be sent
				return nil, &domain.InvalidError{Field: roleNames[r] + "-token", Reason: fmt.Sprintf("must be visible ASCII characters, byte %d is not", i)}
			}
		}
		g.hashes[r] = hash(token)
		for other := range r {
			if bytes.Equal(g.hashes[other], g.hashes[r]) {
				return nil, &domain.InvalidError{Field: roleNames[r] + "-token", Reason: fmt.Sprintf("must not be the %s token too", roleNames[other])}
			}
		}
	}
	return g, nil
}

func hash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// only lets h answer those who prove the role.
func (s *Server) only(needed role, h handler) handler {
	return func(c *fiber.Ctx, r asked) error {
		clients := s.limiter.ClientAddress()
		r.client = clients.Key(request{c})
		if err := s.guard.check(c, needed, r.client); err != nil {
			return err
		}
		return h(c, r)
	}
}

// check returns the problem that keeps a request of a client from the role, or nil.
func (g *guard) check(c *fiber.Ctx, needed role, from string) error {
	if g.hashes[needed] == nil && needed == client {
		return nil
	}
	if g.hashes[needed] == nil && g.hashes[admin] == nil {
		return refuse(fiber.StatusForbidden, fmt.Sprintf("This needs the %s token, and the server has none: it is closed.", roleNames[needed]), 0)
	}
	if wait := g.shut(from); wait > 0 {
		return tooMany(wait)
	}
	value, lines := request{c}.Header(fiber.HeaderAuthorization)
	token := domain.BearerToken(value)
	if lines != 1 || token == "" {
		set(c, fiber.HeaderWWWAuthenticate, `Bearer realm="ratelimitlog"`)
		return refuse(fiber.StatusUnauthorized, fmt.Sprintf("This needs the %s token, sent as Authorization: Bearer.", roleNames[needed]), 0)
	}
	sent, known := hash(token), false
	for r, want := range g.hashes {
		if want == nil || subtle.ConstantTimeCompare(sent, want) == 0 {
			continue
		}
		if role(r) == needed || role(r) == admin {
			return nil
		}
		known = true
	}
	if known {
		set(c, fiber.HeaderWWWAuthenticate, `Bearer realm="ratelimitlog", error="insufficient_scope"`)
		return refuse(fiber.StatusForbidden, fmt.Sprintf("This needs the %s token; the one that was sent is another's.", roleNames[needed]), 0)
	}
	if wait := g.note(from); wait > 0 {
		return tooMany(wait)
	}
	set(c, fiber.HeaderWWWAuthenticate, `Bearer realm="ratelimitlog", error="invalid_token"`)
	return refuse(fiber.StatusUnauthorized, "The token is not right.", 0)
}

func tooMany(wait int64) error {
	return refuse(fiber.StatusTooManyRequests, "Too many wrong tokens came from this address.", wait)
}

func refuse(status int, detail string, retryAfter int64) error {
	p := problem.Of(status)
	p.Detail, p.RetryAfter = detail, retryAfter
	return asProblem(p)
}

// shut is how many seconds a client must wait that sent too many wrong tokens, else 0.
func (g *guard) shut(from string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wrong[from] < wrongTokens {
		return 0
	}
	return g.wait()
}

// note counts a wrong token. It returns how many seconds to wait if there were too
// many already, else 0.
func (g *guard) note(from string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.now(); !now.Before(g.span) {
		clear(g.wrong)
		g.span = now.Add(wrongTokensSpan)
	}
	if _, known := g.wrong[from]; !known && len(g.wrong) >= wrongTokensClients {
		from = "others"
	}
	if g.wrong[from] >= wrongTokens {
		return g.wait()
	}
	if g.wrong[from]++; g.wrong[from] == wrongTokens {
		g.log.Warn("too many wrong tokens", zap.String("client", from), zap.Int("count", wrongTokens))
	}
	return 0
}

// wait is how many seconds of the span are left, 0 if it is over.
func (g *guard) wait() int64 {
	return max(int64((g.span.Sub(g.now())+time.Second-1)/time.Second), 0)
}
