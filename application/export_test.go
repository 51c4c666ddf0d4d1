package application

// FullWindows is how many used-up windows are remembered.
func (l *Limiter) FullWindows() int {
	l.refusals.mu.Lock()
	defer l.refusals.mu.Unlock()
	return len(l.refusals.full)
}
