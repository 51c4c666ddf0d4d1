package httpapi

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
)

func BenchmarkPingRefused(b *testing.B) {
	store, err := gormstore.Open(b.Context(), "sqlite:"+filepath.Join(b.TempDir(), "bench.db"), gormstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	schedule, _ := domain.Fixed(24 * time.Hour)
	policy, _ := domain.NewPolicy(DefaultPolicy, 0, schedule)
	policies, _ := application.NewPolicies(policy)
	limiter, stop := application.NewLimiter(policies, application.Stores{Units: store, Counter: store}, application.Options{})
	defer stop()
	server := New(zap.NewNop(), limiter, store)
	handler := server.app.Handler()
	var ctx fasthttp.RequestCtx
	b.ReportAllocs()
	for b.Loop() {
		ctx.Request.Reset()
		ctx.Response.Reset()
		ctx.Request.SetRequestURI("/ping")
		ctx.Request.Header.Set("X-Client-Key", "key-500")
		handler(&ctx)
	}
	if ctx.Response.StatusCode() != 429 {
		b.Fatal(ctx.Response.StatusCode())
	}
}
func BenchmarkBare(b *testing.B) {
	server := New(zap.NewNop(), nil, nil)
	server.app.Get("/bare", func(c *fiber.Ctx) error {
		c.Set("X-Request-ID", "0123456789abcdef0123456789abcdef")
		c.Set("X-Content-Type-Options", "nosniff")
		c.Set("Cache-Control", "no-store")
		c.Set("X-RateLimit-Limit", "999999999")
		c.Set("X-RateLimit-Remaining", "999999899")
		c.Set("X-RateLimit-Reset", "1767312000")
		c.Set("RateLimit-Policy", `"default";q=999999999;w=86400`)
		c.Set("RateLimit", `"default";r=999999899;t=43200`)
		c.Set("Content-Type", "application/json")
		return c.Send([]byte("hallo"))
	})
	handler := server.app.Handler()
	var ctx fasthttp.RequestCtx
	b.ReportAllocs()
	for b.Loop() {
		ctx.Request.Reset()
		ctx.Response.Reset()
		ctx.Request.SetRequestURI("/bare")
		ctx.Request.Header.Set("X-Client-Key", "key-500")
		handler(&ctx)
	}
}
