package subject

import (
	"context"
	"time"
)

// Task is a task to schedule.
type Task struct {
	ID      string    // unique in a run; of letters, digits and dashes
	Due     time.Time // in whole milliseconds
	Payload []byte    // JSON of exactly the workload's size; shared by many tasks, so read-only
}

// Subject is a service that can be measured.
type Subject interface {
	// Name returns the name in the tables, such as "Redis sorted set, always".
	Name() string
	// Promise returns the durability of an acknowledgement.
	Promise() Promise
	// Missing describes the missing prerequisites on this machine and how to install them. Empty: none.
	Missing() string
	// Start starts the service fresh and empty, ready for calls. dir is an existing, empty folder for its data and
	// logs. The context bounds the start, not the service's life.
	Start(ctx context.Context, dir string) (Service, error)
}

// Promise is the durability of an acknowledged write.
type Promise struct {
	Nodes      int    `json:"nodes"`      // processes that form the service
	Replicated bool   `json:"replicated"` // a majority of the processes has an acknowledged write
	Fsync      string `json:"fsync"`      // one of the constants below
}

// Instants at which a write is synced to disk.
const (
	FsyncEachWrite  = "each write" // before the acknowledgement
	FsyncEachSecond = "each second"
	FsyncNone       = "none" // when the operating system decides
)

// Service is a running subject. Its methods are not safe for concurrent use; several callers may be used concurrently.
type Service interface {
	// Caller makes one of many concurrent callers. It has a connection of its own if the peer's client works best so,
	// else a shared one.
	Caller(ctx context.Context) (Caller, error)
	// PIDs returns the ids of the running processes, for memory and processor time.
	PIDs() []int
	// Stop ends the service and returns when only its folder is left. Its callers are closed before.
	Stop() error
}

// Caller schedules tasks. One goroutine uses it at a time.
type Caller interface {
	// Schedule returns nil when the service has acknowledged the task.
	Schedule(ctx context.Context, task Task) error
	Close() error
}
