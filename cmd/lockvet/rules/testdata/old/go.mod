module example.com/old

go 1.26.0

require (
	github.com/bsm/redislock v0.5.0
	github.com/go-redsync/redsync v1.4.2
	github.com/go-redsync/redsync/v3 v3.0.0
	gopkg.in/redsync.v1 v1.0.1
)

require (
	github.com/garyburd/redigo v0.0.0-20150301180006-535138d7bcd7 // indirect
	github.com/go-redis/redis/v7 v7.2.0 // indirect
	github.com/gomodule/redigo v2.0.0+incompatible // indirect
	github.com/hashicorp/errwrap v1.0.0 // indirect
	github.com/hashicorp/go-multierror v1.1.0 // indirect
)
