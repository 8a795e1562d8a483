package subject

import (
	"context"
	"time"
)

// Task is one to be scheduled.
type Task struct {
	ID      string    // unique in a run; of letters, digits and dashes
	Due     time.Time // in whole milliseconds
	Payload []byte    // JSON, of exactly the size that the workload says; shared by many tasks, so not to be changed
}

// Subject is a service that can be measured.
type Subject interface {
	// Name is how it stands in the tables: "Redis sorted set, always".
	Name() string
	// Promise is what its acknowledgement is worth.
	Promise() Promise
	// Missing says what it needs that this machine does not have, and how to get it. Empty: nothing.
	Missing() string
	// Start starts it fresh and empty, ready to be called, with its data and logs in a folder that exists and is empty.
	// The context bounds the start, not the service's life.
	Start(ctx context.Context, dir string) (Service, error)
}

// Promise is what an acknowledgement is worth.
type Promise struct {
	Nodes      int    `json:"nodes"`      // processes that form the service
	Replicated bool   `json:"replicated"` // acknowledged means: a majority of them has it
	Fsync      string `json:"fsync"`      // one of the constants below
}

// When an acknowledged write is on the disk.
const (
	FsyncEachWrite  = "each write" // before it is acknowledged
	FsyncEachSecond = "each second"
	FsyncNone       = "none" // when the operating system likes
)

// Service is a subject that runs. Its methods are not called concurrently, its callers' are.
type Service interface {
	// Caller makes one of many concurrent callers: with a connection of its own where the peer's client wants that, else
	// shared.
	Caller(ctx context.Context) (Caller, error)
	// PIDs are those of its processes that run, for memory and CPU.
	PIDs() []int
	// Stop returns when everything of it is gone but the folder. Its callers are closed before.
	Stop() error
}

// Caller schedules. It is used by one goroutine at a time.
type Caller interface {
	// Schedule returns without error when the service has acknowledged the task.
	Schedule(ctx context.Context, task Task) error
	Close() error
}
