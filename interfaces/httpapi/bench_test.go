package httpapi

import (
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// BenchmarkPingRefused is the handler's part of a refusal that memory answers.
func BenchmarkPingRefused(b *testing.B) {
	server := newTestServer(b, 0, time.Minute)
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
