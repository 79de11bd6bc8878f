package httpdoor

// A fact is what was found out about a value that a key function has asked for. Each asks for what is
// around its array again for each element, and to look through a query of a megabyte takes a hundred
// milliseconds: so a client must not have it done 64 times.
type fact struct {
	source, name string
	text         string
	ok           bool
	err          error
}

// facts are those of one request. The first two, which are all that most keys need, cost no allocation.
type facts struct {
	first [2]fact
	n     int
	more  []fact
}

// find returns what is known of a value, or nil.
func (f *facts) find(source, name string) *fact {
	for i := range f.first[:f.n] {
		if known := &f.first[i]; known.source == source && known.name == name {
			return known
		}
	}
	for i := range f.more {
		if known := &f.more[i]; known.source == source && known.name == name {
			return known
		}
	}
	return nil
}

func (f *facts) add(found fact) {
	if f.n < len(f.first) {
		f.first[f.n] = found
		f.n++
		return
	}
	f.more = append(f.more, found)
}
