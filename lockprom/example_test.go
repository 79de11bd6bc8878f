package lockprom_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/lockprom"
)

func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	mux := http.NewServeMux()

	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()), lockprom.New(prometheus.DefaultRegisterer))
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("GET /metrics", promhttp.Handler())

	fmt.Println(locks.Close(context.Background()), client.Close()) // when the service ends
	// Output: <nil> <nil>
}
