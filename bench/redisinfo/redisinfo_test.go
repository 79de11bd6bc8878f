package redisinfo

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestCallsOfScriptsCount(t *testing.T) {
	client := redistest.Real(t).Client(t)
	ctx := context.Background()
	before, err := Read(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	script := redis.NewScript(`redis.call("SET", KEYS[1], "1") return redis.call("GET", KEYS[1])`)
	for range 10 {
		if err := script.Eval(ctx, client, []string{"k"}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	after, err := Read(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	u := after.Since(before)
	if u.Calls != 30 { // EVAL, SET and GET
		t.Errorf("calls = %d, want 30", u.Calls)
	}
	if u.Bytes < 10*100 || u.CPU < 0 {
		t.Errorf("bytes = %d, CPU = %v", u.Bytes, u.CPU)
	}
}

func TestTheTimeIsThatOfTheThreadThatCarriesOutCommands(t *testing.T) {
	info := map[string]map[string]string{
		"Stats": {"total_net_input_bytes": "1", "total_net_output_bytes": "2"},
		"CPU":   {"used_cpu_user": "5", "used_cpu_sys": "3"},
	}
	if u, err := parse(info); err != nil || u.CPU != 8*time.Second {
		t.Errorf("all threads: %v, %v, want 8 s", u.CPU, err)
	}
	info["CPU"]["used_cpu_user_main_thread"], info["CPU"]["used_cpu_sys_main_thread"] = "2", "1"
	if u, err := parse(info); err != nil || u.CPU != 3*time.Second {
		t.Errorf("the main thread: %v, %v, want 3 s", u.CPU, err)
	}
}

func TestTheServerTellsItsVersion(t *testing.T) {
	if v, err := Version(context.Background(), redistest.Shared(t).Client(t)); v == "" || err != nil {
		t.Errorf("version %q, %v", v, err)
	}
}

func TestWhatIsNoNumberIsAnError(t *testing.T) {
	for _, info := range []map[string]map[string]string{
		{},
		{"Commandstats": {"cmdstat_get": "none"}},
		{"Stats": {"total_net_input_bytes": "1", "total_net_output_bytes": "2"}},
	} {
		if u, err := parse(info); err == nil {
			t.Errorf("%v gave %v", info, u)
		}
	}
}
