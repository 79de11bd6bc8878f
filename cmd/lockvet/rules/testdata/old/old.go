// Package old takes locks of versions that have been replaced.
package old

import (
	"errors"
	"time"

	"github.com/bsm/redislock"
	redsync2 "github.com/go-redsync/redsync"
	redsync3 "github.com/go-redsync/redsync/v3"
	redsync1 "gopkg.in/redsync.v1"
)

var (
	client *redislock.Client
	redis  redislock.RedisClient
	first  *redsync1.Redsync
	second *redsync2.Redsync
	third  *redsync3.Redsync
)

func work() error { return nil }

func obtained() error {
	lock, err := client.Obtain("42", time.Second, nil) // want `line 33 is reached without lock.Release`
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return lock.Release()
}

func obtainedByPackage() error {
	lock, err := redislock.Obtain(redis, "42", time.Second, nil) // want `line 44 is reached without lock.Release`
	if err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return lock.Release()
}

func lockedFirst() error {
	mutex := first.NewMutex("42")
	if err := mutex.Lock(); err != nil { // want `line 55 is reached without mutex.Unlock`
		return err
	}
	if err := work(); err != nil {
		return err
	}
	if !mutex.Unlock() {
		return errors.New("lost")
	}
	return nil
}

func lockedSecond() error {
	mutex := second.NewMutex("42")
	if err := mutex.Lock(); err != nil { // want `line 69 is reached without mutex.Unlock`
		return err
	}
	if err := work(); err != nil {
		return err
	}
	mutex.Unlock()
	return nil
}

func lockedThird() error {
	mutex := third.NewMutex("42")
	if err := mutex.Lock(); err != nil { // want `line 81 is reached without mutex.Unlock`
		return err
	}
	if err := work(); err != nil {
		return err
	}
	_, err := mutex.Unlock()
	return err
}

func errorThrownAway() error {
	mutex := first.NewMutex("42")
	mutex.Lock() // want `line 91 is reached without mutex.Unlock`
	if err := work(); err != nil {
		return err
	}
	mutex.Unlock()
	return nil
}

func lockOrder(id string) (*redsync1.Mutex, error) { // want lockOrder:`result 0, with .Unlock, if result 1 says so`
	mutex := first.NewMutex(id)
	if err := mutex.Lock(); err != nil {
		return nil, err
	}
	return mutex, nil
}

func handedOver() error {
	mutex, err := lockOrder("42") // want `line 111 is reached without mutex.Unlock`
	if err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	mutex.Unlock()
	return nil
}

// From here on all is well.

func obtainedRight() error {
	lock, err := client.Obtain("42", time.Second, nil)
	if err != nil {
		return err
	}
	defer lock.Release()
	return work()
}

func lockedRight() error {
	mutex := first.NewMutex("42")
	if err := mutex.Lock(); err != nil {
		return err
	}
	defer mutex.Unlock()
	return work()
}

func errorThrownAwayRight() error {
	mutex := third.NewMutex("42")
	mutex.Lock()
	defer mutex.Unlock()
	return work()
}

func handedOverRight() error {
	mutex, err := lockOrder("42")
	if err != nil {
		return err
	}
	defer mutex.Unlock()
	return work()
}
