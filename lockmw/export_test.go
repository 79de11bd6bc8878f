package lockmw

// Waiting returns how many calls of Acquire wait for key in this process.
func Waiting(l *Locker, key string) int {
	l.waiters.mu.Lock()
	defer l.waiters.mu.Unlock()
	if ln := l.waiters.lines[key]; ln != nil {
		return ln.length
	}
	return 0
}
