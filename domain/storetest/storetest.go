package storetest

import (
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Store is what an adapter implements that keeps counters and log together.
type Store interface {
	domain.UnitOfWork
	domain.Counter
	domain.AuditLog
}

// QuotaStore is a store that keeps quotas and the log that their changes are in.
type QuotaStore interface {
	domain.Quotas
	domain.AuditLog
}

// Run runs the contract of all ports that a store has. open returns a handle on
// one and the same store at each call within a test, as another process would have
// it; it closes the handle when the test ends. A store that only one process can
// have open returns the same handle each time. If the store implements optional ports,
// those are tested too: [domain.Sweeper], [domain.WindowLister], [domain.Totaler],
// [domain.CallPruner] and [domain.Quotas].
func Run(t *testing.T, open func(t *testing.T) Store) {
	Counter(t, func(t *testing.T) domain.Counter { return open(t) })
	AuditLog(t, func(t *testing.T) domain.AuditLog { return open(t) })
	UnitOfWork(t, open)
	if _, ok := open(t).(QuotaStore); ok {
		Quotas(t, func(t *testing.T) QuotaStore { return open(t).(QuotaStore) })
	}
}

// Counter runs the contract of [domain.Counter], and of [domain.Sweeper] and
// [domain.WindowLister] if the store implements them. For open see [Run].
func Counter(t *testing.T, open func(t *testing.T) domain.Counter) {
	t.Run("Take", func(t *testing.T) { testTake(t, open(t)) })
	t.Run("Shadow", func(t *testing.T) { testShadow(t, open(t)) })
	t.Run("Look", func(t *testing.T) { testLook(t, open(t)) })
	t.Run("Windows", func(t *testing.T) { testWindows(t, open(t)) })
	t.Run("Carry", func(t *testing.T) { testCarry(t, open(t)) })
	t.Run("Numbers", func(t *testing.T) { testNumbers(t, open(t)) })
	t.Run("Keys", func(t *testing.T) { testKeys(t, open(t)) })
	t.Run("Batches", func(t *testing.T) { testBatches(t, open(t)) })
	t.Run("Concurrency", func(t *testing.T) { testConcurrency(t, open(t), open(t)) })
	t.Run("Context", func(t *testing.T) { testContext(t, open(t)) })
	t.Run("Reset", func(t *testing.T) { testReset(t, open(t), open(t)) })
	t.Run("Sweep", func(t *testing.T) {
		counter := open(t)
		if sweeper, ok := counter.(domain.Sweeper); ok {
			testSweep(t, counter, sweeper)
		} else {
			t.Log("the store forgets by itself: it is no Sweeper")
		}
	})
	t.Run("WindowLister", func(t *testing.T) {
		counter := open(t)
		if _, ok := counter.(domain.WindowLister); ok {
			testWindowLister(t, counter, open(t))
		} else {
			t.Log("the store does not tell which windows it holds: it is no WindowLister")
		}
	})
	t.Run("Model", func(t *testing.T) { testModel(t, open(t)) })
}

// AuditLog runs the contract of [domain.AuditLog], and of [domain.Totaler] and
// [domain.CallPruner] if the log implements them. For open see [Run].
func AuditLog(t *testing.T, open func(t *testing.T) domain.AuditLog) {
	t.Run("AuditLog", func(t *testing.T) { testAuditLog(t, open(t)) })
	t.Run("Filters", func(t *testing.T) { testFilters(t, open(t), open(t)) })
	t.Run("Pages", func(t *testing.T) { testPages(t, open(t), open(t)) })
	t.Run("Totals", func(t *testing.T) {
		log := open(t)
		if _, ok := log.(domain.Totaler); ok {
			testTotals(t, log, open(t))
		} else {
			t.Log("the log does not add up hits itself: it is no Totaler")
		}
	})
	t.Run("Prune", func(t *testing.T) {
		log := open(t)
		if _, ok := log.(domain.CallPruner); ok {
			testPrune(t, log, open(t))
		} else {
			t.Log("the log keeps all calls, or lets them go by itself: it is no CallPruner")
		}
	})
	t.Run("LongLog", func(t *testing.T) { testLongLog(t, open(t), open(t)) })
}

// UnitOfWork runs the contract of [domain.UnitOfWork] for a store that keeps
// counters and log in one transaction; [domain.Apart] is not one. For open see [Run].
func UnitOfWork(t *testing.T, open func(t *testing.T) Store) {
	t.Run("UnitOfWork", func(t *testing.T) { testUnitOfWork(t, open(t)) })
	t.Run("Units", func(t *testing.T) { testUnits(t, open(t), open(t)) })
}

// Quotas runs the contract of [domain.Quotas]. For open see [Run].
func Quotas(t *testing.T, open func(t *testing.T) QuotaStore) {
	t.Run("Quotas", func(t *testing.T) { testQuotas(t, open(t), open(t)) })
}
