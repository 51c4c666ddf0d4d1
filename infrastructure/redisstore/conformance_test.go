package redisstore_test

import (
	"os/exec"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/domain/storetest"
)

func TestConformanceOfAServer(t *testing.T) {
	n := newNamespace(t)
	storetest.Counter(t, func(t *testing.T) domain.Counter { return n.open(t) })
}

func TestConformanceOfACluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, "redis-server")
	storetest.Counter(t, func(t *testing.T) domain.Counter {
		return open(t, "redis://"+nodes[0].address()+","+nodes[1].address())
	})
	for _, node := range nodes { // one that knows a single node finds the others
		store := open(t, "redis://"+node.address()+"?cluster=true")
		if err := store.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestConformanceOfValkey(t *testing.T) {
	if _, err := exec.LookPath("valkey-server"); err != nil {
		t.Skipf("skipped, because valkey-server is not installed: %v", err)
	}
	server := startServer(t, "valkey-server")
	storetest.Counter(t, func(t *testing.T) domain.Counter { return open(t, "redis://"+server.address()) })
}
