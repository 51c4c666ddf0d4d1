package application

// FullWindows is how many used-up windows are remembered.
func (l *Limiter) FullWindows() int {
	l.refusals.mu.Lock()
	defer l.refusals.mu.Unlock()
	return len(l.refusals.known)
}

// PendingRefusals is how many refusals wait to be counted, alike ones as one.
func (l *Limiter) PendingRefusals() (n int) {
	l.refusals.mu.Lock()
	defer l.refusals.mu.Unlock()
	for _, window := range l.refusals.dirty {
		n += len(window.pending)
	}
	return n
}

// Drawing draws samples of the log with random.
func (o Options) Drawing(random func() float64) Options {
	o.random = random
	return o
}
