package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
)

// family finds what belongs to a key without a lock: keys are few and come once, hits are
// many.
type family[K comparable, V any] struct {
	most   int // keys that are told apart, 0 for all
	rest   K   // what stands for those beyond
	create func(K) V

	known atomic.Pointer[map[K]V] // replaced, never changed
	mu    sync.Mutex              // held by who replaces it
}

func newFamily[K comparable, V any](most int, rest K, create func(K) V) *family[K, V] {
	f := &family[K, V]{most: most, rest: rest, create: create}
	f.known.Store(&map[K]V{})
	return f
}

func (f *family[K, V]) of(key K) V {
	if v, ok := (*f.known.Load())[key]; ok {
		return v
	}
	return f.add(key)
}

func (f *family[K, V]) add(key K) V {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := *f.known.Load()
	if v, ok := known[key]; ok {
		return v
	}
	if f.most > 0 && len(known) >= f.most {
		key = f.rest
		if v, ok := known[key]; ok {
			return v
		}
	}
	v, more := f.create(key), maps.Clone(known)
	more[key] = v
	f.known.Store(&more)
	return v
}
