package main

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

const barWidth = 40

// follow shows on f how done grows to total: a bar on a terminal, else a line
// for every quarter. The returned func stops it and waits for its end.
func follow(f *os.File, name string, total int, done *atomic.Int64) (stop func()) {
	show := quarters(f, name)
	if terminal(f) {
		show = bar(f, name)
	}
	start := time.Now()
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				show(int(done.Load())*100/total, time.Since(start), false)
			case <-quit:
				show(int(done.Load())*100/total, time.Since(start), true)
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

// terminal reports whether f can redraw a line.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

func bar(f *os.File, name string) func(percent int, took time.Duration, last bool) {
	return func(percent int, took time.Duration, last bool) {
		full := percent * barWidth / 100
		fmt.Fprintf(f, "\r%-13s [%s%s] %3d %% %8s", name,
			strings.Repeat("#", full), strings.Repeat(".", barWidth-full), percent, took.Round(100*time.Millisecond))
		if last {
			fmt.Fprintln(f)
		}
	}
}

func quarters(f *os.File, name string) func(percent int, took time.Duration, last bool) {
	shown := 0
	return func(percent int, took time.Duration, _ bool) {
		if quarter := percent / 25; quarter > shown {
			shown = quarter
			fmt.Fprintf(f, "%s: %d %% after %v\n", name, quarter*25, took.Round(100*time.Millisecond))
		}
	}
}
