package keyfunc

// FilterNames are the names of all filters, in the order of the table.
func FilterNames() []string { return filterNames() }
