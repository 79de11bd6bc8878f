// Package redisinfo reads what a Redis server tells about itself.
package redisinfo

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Usage is what a server has done since it was started.
type Usage struct {
	Calls int64         // commands it has executed, those that scripts called included
	Bytes int64         // received and sent
	CPU   time.Duration // user and system, of the thread that carries out commands
}

// Read asks the server of client. Its own questions do not count in Calls.
func Read(ctx context.Context, client redis.Cmdable) (Usage, error) {
	info, err := client.InfoMap(ctx, "commandstats", "stats", "cpu").Result()
	if err != nil {
		return Usage{}, err
	}
	return parse(info)
}

func parse(info map[string]map[string]string) (u Usage, err error) {
	for name, stats := range info["Commandstats"] {
		calls, ok := strings.CutPrefix(strings.Split(stats, ",")[0], "calls=")
		n, err := strconv.ParseInt(calls, 10, 64)
		if !ok || err != nil {
			return u, fmt.Errorf("redisinfo: %s: %q", name, stats)
		}
		if name != "cmdstat_info" {
			u.Calls += n
		}
	}
	for _, name := range []string{"total_net_input_bytes", "total_net_output_bytes"} {
		n, err := strconv.ParseInt(info["Stats"][name], 10, 64)
		if err != nil {
			return u, fmt.Errorf("redisinfo: %s: %w", name, err)
		}
		u.Bytes += n
	}
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		text, ok := info["CPU"][name+"_main_thread"]
		if !ok { // a server that tells of all its threads together
			text = info["CPU"][name]
		}
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return u, fmt.Errorf("redisinfo: %s: %w", name, err)
		}
		u.CPU += time.Duration(seconds * float64(time.Second))
	}
	return u, nil
}

// Since returns what was done between before and u.
func (u Usage) Since(before Usage) Usage {
	return Usage{Calls: u.Calls - before.Calls, Bytes: u.Bytes - before.Bytes, CPU: u.CPU - before.CPU}
}

// Version returns the server's version.
func Version(ctx context.Context, client redis.Cmdable) (string, error) {
	info, err := client.InfoMap(ctx, "server").Result()
	return info["Server"]["redis_version"], err
}
