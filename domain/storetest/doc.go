// Package storetest is the conformance kit for storage adapters: one call runs the
// whole contract of the ports of package domain against a store.
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Store { return open(t) })
//	}
//
// It draws its own keys, so that the store need not be empty, and it never waits
// for the wall clock.
package storetest
