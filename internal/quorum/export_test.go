package quorum

// Settle waits until all nodes have answered what was asked, those too whose answers
// nobody waits for. What is given back in the background may be under way still.
func (s *Store) Settle() { s.calls.Wait() }
