package fenced

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStoreRefusesWhatIsLower(t *testing.T) {
	s := Start(t)
	c, err := Dial(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, tc := range []struct {
		key   string
		fence int64
		want  Answer
	}{
		{"k", 5, Answer{true, 0, 1}},
		{"k", 5, Answer{true, 5, 2}},
		{"k", 4, Answer{false, 5, 3}},
		{"j", 4, Answer{true, 0, 4}},
		{"k", 6, Answer{true, 5, 5}},
	} {
		got, err := c.Write(tc.key, tc.fence)
		if err != nil || got != tc.want {
			t.Errorf("%d: write %s %d = %+v, %v; want %+v", i, tc.key, tc.fence, got, err, tc.want)
		}
	}
}
