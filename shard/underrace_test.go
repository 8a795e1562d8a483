//go:build race

package shard

import "runtime"

// The tests run on one processor under the race detector. The timers of a synctest bubble share one context of the
// detector, and it crashes if two threads use that at once (https://go.dev/issue/78156). Such a use needs no fault of
// the tests: a goroutine runs a timer itself if the instant has come before it waits. The detector compares the order
// of events, and so finds races on one processor too.
func init() { runtime.GOMAXPROCS(1) }
