// Package storetest is the conformance kit for storage adapters: one call runs the
// whole contract of the ports of package domain against a store, another measures it.
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Store { return open(t) })
//	}
//
//	func BenchmarkStore(b *testing.B) {
//		storetest.Benchmark(b, func(b *testing.B) storetest.Store { return open(b) })
//	}
//
// A store that has some of the ports calls [Counter], [AuditLog], [UnitOfWork] or
// [Quotas] for these. The kit draws its own keys, so that the store need not be
// empty, and never waits for the wall clock. Its windows lie in tomorrow, for the
// sake of stores that forget by their own clock.
//
// What each test catches is in docs/adapters.md. The kit is tested against stores
// that are broken on purpose.
package storetest
