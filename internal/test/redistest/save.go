package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// FailToSave has the server try to save its data, and returns when that has
// failed. While stop-writes-on-bgsave-error is set, as it is by default, the
// server refuses writes with MISCONF from then on.
func (s *Server) FailToSave(ctx context.Context) error {
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	defer client.Close()
	name, err := client.ConfigGet(ctx, "dbfilename").Result()
	if err != nil {
		return err
	}
	// No file takes the place of a folder that is not empty.
	if err := os.MkdirAll(filepath.Join(s.dir, name["dbfilename"], "not-empty"), 0o700); err != nil {
		return err
	}
	// Without a save point a failed save is of no consequence.
	if err := client.ConfigSet(ctx, "save", "3600 1000000").Err(); err != nil {
		return err
	}
	for !strings.Contains(client.Info(ctx, "persistence").Val(), "rdb_last_bgsave_status:err") {
		_ = client.Do(ctx, "BGSAVE").Err() // refused while another one runs
		select {
		case <-ctx.Done():
			return fmt.Errorf("redistest: %s goes on saving: %w", s.Addr(), context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}
