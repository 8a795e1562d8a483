// Parts measures what the parts of a task's life cost in processor time: at the leader, at a follower, and at the node
// that takes the call. `belfry plan` makes plans with the figures (costs.go), under the names that are printed.
//
// It runs three nodes with one shard, as processes, and reads what each has used from /proc (so it needs Linux) before
// and after a step. Steps differ in what share of the work they do, and a few equations tell the parts: a lone caller
// makes an entry of every task, a batch makes few; a call through a follower leaves the leader without HTTP.
// Processor time hardly depends on what else runs on the machine, but caches do: measure on a quiet one.
//
// With --memory it tells instead what a replica takes in memory that has no tasks, from clusters of one shard and of
// many.
//
//	go build -o bin/ ./cmd/belfry && go run -C bench ./cmd/parts --belfry ../bin/belfry
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
)

func main() {
	var cfg config
	flag.StringVar(&cfg.binary, "belfry", "./belfry", "the program that is measured")
	flag.IntVar(&cfg.tasks, "tasks", 20000, "tasks in a step; a lone caller makes a tenth")
	flag.IntVar(&cfg.payload, "payload", 200, "bytes")
	flag.DurationVar(&cfg.idle, "idle", defaultIdle, "how long the idle nodes are watched")
	ofMemory := flag.Bool("memory", false, "measure memory instead")
	flag.Parse()
	measure := measure
	if *ofMemory {
		measure = memory
	}
	if err := measure(context.Background(), cfg); err != nil {
		fmt.Fprintln(os.Stderr, "parts:", err)
		os.Exit(1)
	}
}
