package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"
	_ "github.com/mattn/go-sqlite3" // gorm.io/driver/sqlite alone would take an older one
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

func listen(ctx context.Context, app *fiber.App) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { app.Shutdown() })
	fmt.Printf("listens on http://%s\n", listener.Addr())
	return app.Listener(listener)
}

// canned is an answer of /ping as the server gives it.
type canned struct {
	status      int
	contentType string
	headers     [][2]string
	body        string
}

var allowedPing = canned{
	status: 200, contentType: "application/json",
	headers: [][2]string{
		{"X-Content-Type-Options", "nosniff"}, {"X-Request-ID", "0123456789abcdef0123456789abcdef"}, {"Cache-Control", "no-store"},
		{"X-RateLimit-Limit", "999999999"}, {"X-RateLimit-Remaining", "999999899"}, {"X-RateLimit-Reset", "1767312000"},
		{"RateLimit-Policy", `"default";q=999999999;w=86400`}, {"RateLimit", `"default";r=999999899;t=43200`},
	},
	body: `{"message":"pong","key":"key-500","policy":"default","limit":999999999,"count":100,"remaining":999999899,"reset_at":"2026-01-02T00:00:00Z"}`,
}

var refusedPing = canned{
	status: 429, contentType: "application/problem+json",
	headers: [][2]string{
		{"X-Content-Type-Options", "nosniff"}, {"X-Request-ID", "0123456789abcdef0123456789abcdef"}, {"Cache-Control", "no-store"},
		{"X-RateLimit-Limit", "5"}, {"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", "1767312000"},
		{"RateLimit-Policy", `"default";q=5;w=86400`}, {"RateLimit", `"default";r=0;t=43200`}, {"Retry-After", "43200"},
	},
	body: `{"type":"https://github.com/nene2-ft/ratelimitlog/problems/rate-limit-exceeded","title":"Too Many Requests","status":429,` +
		`"detail":"Rate limit of 5 requests per 86400s exceeded for key 'key-500'.","instance":"/ping","policy":"default","limit":5,` +
		`"window_seconds":86400,"retry_after":43200,"violated-policies":["default"]}`,
}

// serveBare answers what /ping answers, without deciding anything.
func serveBare(ctx context.Context, answer canned) error {
	return serveAfter(ctx, answer, func(context.Context, string) error { return nil })
}

// serveAfter answers what /ping answers, after doing something for the key.
func serveAfter(ctx context.Context, answer canned, do func(ctx context.Context, key string) error) error {
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	body := []byte(answer.body)
	app.Get("/ping", func(c *fiber.Ctx) error {
		if err := do(c.UserContext(), string(c.Request().Header.Peek("X-Client-Key"))); err != nil {
			return err
		}
		for _, header := range answer.headers {
			c.Set(header[0], header[1])
		}
		c.Set("Content-Type", answer.contentType)
		return c.Status(answer.status).Send(body)
	})
	return listen(ctx, app)
}

// serveHowTo is the pattern that the product grew from: each request is one
// transaction that counts with an upsert, reads the count back and logs the call.
func serveHowTo(ctx context.Context) error {
	db, err := gorm.Open(sqlite.Open("file:howto.db?_journal_mode=WAL&_synchronous=NORMAL&_txlock=immediate&_busy_timeout=5000"),
		&gorm.Config{Logger: logger.Discard, PrepareStmt: true})
	if err != nil {
		return err
	}
	pool, err := db.DB()
	if err != nil {
		return err
	}
	defer pool.Close()
	pool.SetMaxOpenConns(1) // one writer is what SQLite has; more only contend
	for _, statement := range []string{
		`CREATE TABLE rate_limit_windows (key TEXT NOT NULL, window_start TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (key, window_start))`,
		`CREATE TABLE api_calls (id INTEGER PRIMARY KEY, key TEXT NOT NULL, created_at TEXT NOT NULL)`,
	} {
		if err := db.Exec(statement).Error; err != nil {
			return err
		}
	}
	type rateLimitWindow struct {
		Key         string `gorm:"primaryKey"`
		WindowStart string `gorm:"primaryKey"`
		Count       int64
	}
	type apiCall struct {
		ID        int64
		Key       string
		CreatedAt string
	}
	const limit, windowSeconds = 999999999, 86400
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Get("/ping", func(c *fiber.Ctx) error {
		key, now := string(c.Request().Header.Peek("X-Client-Key")), time.Now().UTC()
		start := now.Truncate(windowSeconds * time.Second).Format(time.RFC3339)
		row := rateLimitWindow{Key: key, WindowStart: start, Count: 1}
		err := db.Transaction(func(tx *gorm.DB) error {
			err := tx.Clauses(clause.OnConflict{
				Columns:   []clause.Column{{Name: "key"}, {Name: "window_start"}},
				DoUpdates: clause.Assignments(map[string]any{"count": gorm.Expr("count + 1")}),
			}).Create(&row).Error
			if err != nil {
				return err
			}
			if err := tx.Where("key = ? AND window_start = ?", key, start).First(&row).Error; err != nil {
				return err
			}
			if row.Count > limit {
				return nil
			}
			return tx.Create(&apiCall{Key: key, CreatedAt: now.Format(time.RFC3339)}).Error
		})
		if err != nil {
			return err
		}
		if row.Count > limit {
			return fiber.ErrTooManyRequests
		}
		return c.JSON(fiber.Map{"message": "pong", "key": key, "count": row.Count, "limit": limit})
	})
	return listen(ctx, app)
}
