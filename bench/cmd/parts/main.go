// Parts measures the processor time of each part of a task's life: on the leader, on a follower, and on the node that
// takes the call. `belfry plan` computes plans from these figures (costs.go), under the names that Parts prints.
//
// Parts runs three nodes with one shard, as processes. It reads each node's processor time from /proc before and after
// a step, so it needs Linux. The steps divide the work differently, and a few linear equations separate the parts:
//   - A single caller makes one log entry for every task; a batch makes few entries.
//   - A call through a follower takes the HTTP work off the leader.
//
// Other load on the machine hardly affects processor time, but caches do: measure on a quiet machine.
//
// With --memory, Parts measures the memory of a replica without tasks instead, from clusters with one shard and with
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
