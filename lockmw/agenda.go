package lockmw

// An agenda is a heap of tenures, those due first on top.
type agenda []*tenure

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].renewal.due.Before(a[j].renewal.due) }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].renewal.index, a[j].renewal.index = i, j
}
func (a *agenda) Push(x any) {
	t := x.(*tenure)
	t.renewal.index = len(*a)
	*a = append(*a, t)
}
func (a *agenda) Pop() any {
	old := *a
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	return t
}
