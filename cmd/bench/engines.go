package main

import (
	"context"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

// benchSchema is where everything that a measurement writes to PostgreSQL is.
const benchSchema = "ratelimitlog_bench"

const (
	redisScript    = "one INCR script for each request, Redis"
	postgresUpsert = "one upsert for each request, PostgreSQL"
	postgresLogged = "one upsert and one log row for each request, PostgreSQL"
)

// engines are scenarios on the servers that were named, each beside the usual way
// to limit there.
func engines(o options) (scenarios []scenario) {
	always := []string{"--limit", "999999999", "--window", "1d"}
	if o.redis != "" {
		scenarios = append(scenarios,
			scenario{name: redisScript, role: "redis-script", dsn: o.redis, asked: ping, status: 200, against: redisScript},
			scenario{name: "ping, allowed, Redis", args: append([]string{"--dsn", withParameter(o.redis, "prefix", benchSchema)}, always...), asked: ping, status: 200, against: redisScript},
		)
	}
	if o.postgres != "" {
		inSchema := withParameter(o.postgres, "search_path", benchSchema)
		scenarios = append(scenarios,
			scenario{name: postgresUpsert, role: "postgres-upsert", dsn: inSchema, asked: ping, status: 200, against: postgresUpsert},
			scenario{name: postgresLogged, role: "postgres-logged", dsn: inSchema, asked: ping, status: 200, against: postgresUpsert},
			scenario{name: "ping, allowed, PostgreSQL", args: append([]string{"--dsn", inSchema, "--migrate"}, always...), asked: ping, status: 200, against: postgresUpsert},
		)
	}
	return scenarios
}

func withParameter(dsn, name, value string) string {
	at, err := url.Parse(dsn)
	if err != nil {
		return dsn
	}
	query := at.Query()
	query.Set(name, value)
	at.RawQuery = query.Encode()
	return at.String()
}

// prepareSchema makes an empty schema and returns what removes it.
func prepareSchema(dsn, schema string) (func(), error) {
	db, err := openPostgres(dsn)
	if err != nil {
		return nil, err
	}
	drop := `DROP SCHEMA IF EXISTS ` + schema + ` CASCADE`
	if err := db.Exec(drop).Error; err != nil {
		return nil, err
	}
	return func() { db.Exec(drop) }, db.Exec(`CREATE SCHEMA ` + schema).Error
}

// cleanRedis removes what the measurements left.
func cleanRedis(dsn string) {
	options, err := redis.ParseURL(dsn)
	if err != nil {
		return
	}
	client := redis.NewClient(options)
	defer client.Close()
	ctx := context.Background()
	for keys := client.Scan(ctx, 0, benchSchema+"*", 1000).Iterator(); keys.Next(ctx); {
		client.Del(ctx, keys.Val())
	}
}

func openPostgres(dsn string) (*gorm.DB, error) {
	return gorm.Open(postgres.Open(dsn), &gorm.Config{Logger: logger.Discard, PrepareStmt: true, SkipDefaultTransaction: true})
}

// serveRedisScript counts each request with one call of a script.
func serveRedisScript(ctx context.Context, dsn string) error {
	options, err := redis.ParseURL(dsn)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer client.Close()
	script := redis.NewScript(`local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end return n`)
	return serveAfter(ctx, allowedPing, func(ctx context.Context, key string) error {
		return script.Run(ctx, client, []string{benchSchema + "-script:" + key}, 60).Err()
	})
}

type benchWindow struct {
	Key         string    `gorm:"primaryKey"`
	WindowStart time.Time `gorm:"primaryKey"`
	Count       int64
}

type benchCall struct {
	ID        int64
	Key       string
	CreatedAt time.Time
}

// servePostgresUpsert counts each request with one upsert, and with logged also
// writes a row of a log, in one transaction with it.
func servePostgresUpsert(ctx context.Context, dsn string, logged bool) error {
	db, err := openPostgres(dsn)
	if err != nil {
		return err
	}
	pool, err := db.DB()
	if err != nil {
		return err
	}
	defer pool.Close()
	pool.SetMaxOpenConns(32)
	pool.SetMaxIdleConns(32)
	if err := db.AutoMigrate(&benchWindow{}, &benchCall{}); err != nil {
		return err
	}
	upsert := func(db *gorm.DB, key string, now time.Time) error {
		row := benchWindow{Key: key, WindowStart: now.Truncate(24 * time.Hour), Count: 1}
		return db.Clauses(clause.OnConflict{
			Columns:   []clause.Column{{Name: "key"}, {Name: "window_start"}},
			DoUpdates: clause.Assignments(map[string]any{"count": gorm.Expr("bench_windows.count + 1")}),
		}, clause.Returning{Columns: []clause.Column{{Name: "count"}}}).Create(&row).Error
	}
	return serveAfter(ctx, allowedPing, func(ctx context.Context, key string) error {
		now := time.Now().UTC()
		if !logged {
			return upsert(db.WithContext(ctx), key, now)
		}
		return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if err := upsert(tx, key, now); err != nil {
				return err
			}
			return tx.Create(&benchCall{Key: key, CreatedAt: now}).Error
		})
	})
}
