package wire

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
)

// BenchmarkTurns takes a key by SET NX and gives it back by a script that compares.
func BenchmarkTurns(b *testing.B) {
	const release = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
	client := redistest.Real(b).Client(b)
	sha := client.ScriptLoad(b.Context(), release).Val()
	for _, goroutines := range []int{2, 4, 8, 16, 24, 64, 512} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			p := New(Options{Size: 8, Silence: time.Second, Dial: func(ctx context.Context) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", client.Options().Addr)
			}})
			defer p.Close()
			var number atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(max(goroutines/runtime.GOMAXPROCS(0), 1))
			b.RunParallel(func(pb *testing.PB) {
				key := fmt.Sprint("key ", number.Add(1), strings.Repeat("k", 20))
				token := fmt.Sprint(key, " of somebody")
				c := new(Call)
				for pb.Next() {
					c.Commands = AppendCommand(c.Commands[:0], 6)
					for _, s := range []string{"SET", key, token, "NX", "PX", "30000"} {
						c.Commands = AppendString(c.Commands, s)
					}
					c.Replies, c.Deadline = 1, time.Now().Add(time.Second)
					if _, err := p.Do(context.Background(), c); err != nil || string(c.Reply) != "+OK\r\n" {
						b.Fatal(err, string(c.Reply))
					}
					c.Commands = AppendCommand(c.Commands[:0], 5)
					for _, s := range []string{"EVALSHA", sha, "1", key, token} {
						c.Commands = AppendString(c.Commands, s)
					}
					c.Deadline = time.Now().Add(time.Second)
					if _, err := p.Do(context.Background(), c); err != nil || string(c.Reply) != ":1\r\n" {
						b.Fatal(err, string(c.Reply))
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
		})
	}
}
