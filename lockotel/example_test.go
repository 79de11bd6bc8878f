package lockotel_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/lockotel"
)

func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})

	locks, err := lockmw.New(client, lockotel.New()) // the global providers
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(locks.Close(context.Background()), client.Close()) // when the service ends
	// Output: <nil> <nil>
}
