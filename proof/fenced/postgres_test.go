package fenced

import (
	"testing"

	"github.com/lockmw/kit/internal/test/dbserver"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func TestPostgresRefusesWhatIsLate(t *testing.T) {
	server := dbserver.Postgres()
	t.Cleanup(func() { server.Stop(t.Failed()) })
	d, err := OpenDatabase(server.Source(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	mini := redistest.Embedded(t)
	locks := testenv.Open(t, mini.Client(t))
	acquire := func(key string) *lockmw.Lease {
		_, lease, err := locks.Acquire(t.Context(), key, lockmw.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	early, other := acquire("k"), acquire("j")
	mini.FlushAll()
	late, over := acquire("k"), acquire("i")
	if err := over.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct {
		lease *lockmw.Lease
		want  Answer
	}{
		{early, Answer{true, 0, 1}},
		{early, Answer{true, 0, 2}},
		{late, Answer{true, 0, 3}},
		{early, Answer{false, late.Fence(), 0}},
		{other, Answer{true, 0, 1}},
		{late, Answer{true, 0, 4}},
		{over, Answer{false, 0, 0}},
	} {
		if got, err := d.Write(t.Context(), tc.lease, tc.lease.Key()); err != nil || got != tc.want {
			t.Errorf("%d: %s = %+v, %v; want %+v", i, tc.lease, got, err, tc.want)
		}
	}
}
