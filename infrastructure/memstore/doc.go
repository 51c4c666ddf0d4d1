// Package memstore keeps counters, log and quotas in the memory of the process:
// for programs that may forget when they end, for tests, and as a model for authors
// of adapters. [Store] implements every port of package domain.
//
// It is bounded. The log keeps the newest calls and lets the oldest go. Windows are
// never let go to make room, because whoever can make many keys could so make the
// store forget that he is blocked: once it holds as many windows as it may, a take
// that needs a new one fails with [ErrFull] and counts nothing, windows that exist
// count on, and [Store.Sweep] makes room. A limiter answers such a hit as it answers
// a store that is down. Quotas are an administrator's, and are not bounded.
package memstore
