package redisstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Store counts in Redis. It is safe for concurrent use.
type Store struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // the client if it is that of a cluster, else nil
	prefix  string
}

var _ domain.Counter = (*Store)(nil)

// timeout is how long a command may take whose context has no deadline of its own,
// and how long a goroutine may outlive a call whose context was cancelled.
const timeout = 5 * time.Second

// Open prepares a store on the server or cluster that dsn names:
//
//	redis://[user:password@]host[:port][/db]    rediss:// for TLS
//	redis://host1:7000,host2:7000               several hosts are a cluster,
//	redis://host:7000?cluster=true              and so is one, if it is said
//
// The parameter prefix begins the names of all keys, "ratelimitlog" by default.
// Stores with different prefixes share nothing. What a name, a password or a
// parameter has of "/?#@%" is written with a percent sign. A dsn that cannot be read
// is an *InvalidError that quotes none of it.
//
// The server need not be there yet: Open sends nothing, [Store.Ping] does.
func Open(dsn string) (*Store, error) { return open(dsn, nil) }

// open lets tests choose how to connect.
func open(dsn string, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*Store, error) {
	at, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	quiet()
	if !at.cluster {
		options := at.options()
		options.Dialer = dial
		return &Store{client: redis.NewClient(options), prefix: at.prefix}, nil
	}
	options := at.clusterOptions()
	options.Dialer = dial
	client := redis.NewClusterClient(options)
	return &Store{client: client, cluster: client, prefix: at.prefix}, nil
}

// A script that may have run must not run again, so the client tries nothing twice.
// What that of a cluster tries again all the same is up to the command, see [once].

func (l location) options() *redis.Options {
	return &redis.Options{
		Addr: l.hosts[0], DB: l.db, Username: l.user, Password: l.password, TLSConfig: l.tlsConfig(),
		MaxRetries: -1, DialerRetries: 1,
		ContextTimeoutEnabled: true, ReadTimeout: timeout, WriteTimeout: timeout, DialTimeout: timeout,
		Protocol: 2, MaintNotificationsConfig: maintenance(), PipelinePoolSize: -1,
	}
}

func (l location) clusterOptions() *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs: l.hosts, Username: l.user, Password: l.password, TLSConfig: l.tlsConfig(),
		MaxRetries: -1, DialerRetries: 1,
		ContextTimeoutEnabled: true, ReadTimeout: timeout, WriteTimeout: timeout, DialTimeout: timeout,
		Protocol: 2, MaintNotificationsConfig: maintenance(), PipelinePoolSize: -1,
		ClusterStateReloadInterval: 5 * time.Second, // how late a failover may be seen
	}
}

// tlsConfig names no server: the name to verify is that of the host dialled.
func (l location) tlsConfig() *tls.Config {
	if !l.tls {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}
}

// maintenance is not announced by any server but Redis Enterprise.
func maintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// quiet makes the client write no log of its own, which it would write to standard
// error for each connection that it cannot open: errors are returned. The client has
// one logger for the whole process.
var quiet = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Ping reports whether the server answers; of a cluster, each of its masters.
func (s *Store) Ping(ctx context.Context) error {
	err := await(ctx, func() error {
		if s.cluster != nil {
			return s.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() })
		}
		return s.client.Ping(ctx).Err()
	})
	if err != nil {
		return fmt.Errorf("ping Redis: %w", err)
	}
	return nil
}

// Close ends all connections.
func (s *Store) Close() error { return s.client.Close() }

// pipeline collects n commands that go to a server together. On a single server
// they are a transaction, so that they all run or, if the connection breaks or the
// server refuses one, none does. A cluster has no transactions across its nodes.
func (s *Store) pipeline(n int) redis.Pipeliner {
	if s.cluster != nil || n == 1 {
		return s.client.Pipeline()
	}
	return s.client.TxPipeline()
}

// await returns when do has, or when ctx ends. The client itself heeds a deadline of
// ctx, but not that it is cancelled while an answer is outstanding; do then goes on
// for the timeout at most, and what do uses must be left to it. No more of them wait
// for answers than there are connections.
func await(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
