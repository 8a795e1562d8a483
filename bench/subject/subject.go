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
type Subject struct {
	Name    string       // in the tables, such as "Redis sorted set, always"
	Promise Promise      // durability of an acknowledgement
	Need    func() error // names the missing programs, with the command of their installation; nil: none is needed
	// Start starts the service fresh and empty, ready for calls. dir is an existing, empty folder for its data and
	// logs. The context bounds the start, not the service's life.
	Start func(ctx context.Context, dir string) (Service, error)
}

// Missing describes the missing prerequisites on this machine and how to install them. Empty: none.
func (s Subject) Missing() string {
	if s.Need != nil {
		if err := s.Need(); err != nil {
			return err.Error()
		}
	}
	return ""
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

// Abilities of some callers.
type (
	// BatchScheduler schedules many tasks in one call. A nil error means that all are acknowledged.
	BatchScheduler interface {
		ScheduleBatch(ctx context.Context, tasks []Task) error
	}

	// Replacer schedules tasks whose ids may exist already. A new task replaces the old one entirely. A nil error means
	// that all are acknowledged.
	Replacer interface {
		Replace(ctx context.Context, tasks []Task) error
	}

	// Repeater stores a schedule that repeats, and replaces the one of the same id. Occurrence n of the schedule, from 1
	// on, is a task with the id "ID@n". A nil error means that the schedule is acknowledged.
	Repeater interface {
		Repeat(ctx context.Context, schedule Schedule) error
	}

	// Canceller cancels a task that is not yet due. Cancelling a missing task is an error.
	Canceller interface {
		Cancel(ctx context.Context, id string) error
	}

	// BatchCanceller cancels many tasks in one call. A nil error means that all are cancelled.
	BatchCanceller interface {
		CancelBatch(ctx context.Context, ids []string) error
	}

	// Toucher postpones a task, as a heartbeat does.
	Toucher interface {
		Touch(ctx context.Context, id string, due time.Time) error
	}

	// Consumer receives due tasks and acknowledges them until the context ends; then Consume returns nil. Consume calls
	// got at the arrival of a task, before the acknowledgement, with the instant of the arrival. got is safe for
	// concurrent use.
	Consumer interface {
		Consume(ctx context.Context, got func(id string, at time.Time)) error
	}
)

// Abilities of some services.
type (
	// Pusher sends each task to a URL when the task is due, as an HTTP POST whose header ce-subject is the task's id.
	// PushTo affects the tasks that are scheduled from now on. Consumers take the tasks of a service without PushTo.
	Pusher interface {
		PushTo(url string) error
	}

	// Killer kills all processes of the service with SIGKILL, and starts them again on the same data. Restart returns
	// as soon as the processes have started; calls may fail for a while. After a restart, the callers are closed and
	// made anew.
	Killer interface {
		KillAll() error
		Restart(ctx context.Context) error
	}

	// LeaderKiller kills the leader, or the process that leads the most, with SIGKILL.
	LeaderKiller interface {
		KillLeader() error
	}

	// LeaderStopper stops the process that leads the most, as an operator does for an upgrade, and returns when it has
	// ended.
	LeaderStopper interface {
		StopLeader() error
	}

	// ReadyAwaiter waits until every running process reports that it is ready, as an operator does before stopping the
	// next one.
	ReadyAwaiter interface {
		AwaitReady(ctx context.Context) error
	}

	// Snapshotter counts the snapshots that the processes have written since their start: all of them, and those of the
	// part of the state with the fewest.
	Snapshotter interface {
		Snapshots(ctx context.Context) (all, fewest int, err error)
	}

	// ScheduleCounter counts the repeating schedules on the process with the fewest. Processes without the duty to hold
	// all of them do not count.
	ScheduleCounter interface {
		Schedules(ctx context.Context) (int, error)
	}

	// Recorder writes the processes' last moments to files, as execution traces, and returns where. Keep returns an
	// empty path if the service runs without recorders.
	Recorder interface {
		Keep(ctx context.Context, name string) (where string, err error)
	}

	// Queuer makes a caller that schedules to one queue and consumes only from it.
	Queuer interface {
		QueueCaller(ctx context.Context, queue string) (Caller, error)
	}

	// Tenants gives each tenant a namespace of its own. All of them share the service's capacity.
	Tenants interface {
		// TenantCaller makes a caller of a tenant, with a connection of its own. Its tasks are sent to the URL, or wait
		// for consumers if there is none. The caller is a Consumer.
		TenantCaller(ctx context.Context, tenant, url string) (Caller, error)
		// Storm begins to put a load on the service for a tenant, from a process of the lowest priority. It returns
		// once the load has begun, or once it is ready for the storm's instant.
		Storm(ctx context.Context, tenant string, s Storm) (Storming, error)
	}

	// Storming is a storm under way. End ends it, and returns the number of tasks that were acknowledged.
	Storming interface {
		End() (tasks int, err error)
	}
)

// Schedule is a schedule that repeats.
type Schedule struct {
	ID      string        // as a task's
	First   time.Time     // due instant of the first occurrence, in whole milliseconds
	Every   time.Duration // from one occurrence to the next
	Payload []byte        // as a task's
}

// Storm is a load without a pause.
type Storm struct {
	Kind        StormKind
	Connections int       // that call at the same time
	Batch       int       // tasks in a call of StormBatches
	Tasks       int       // of StormDue and StormSilent
	Payload     int       // bytes
	At          time.Time // when the tasks of StormDue are due
	Quota       int       // schedules a second that the service admits from the tenant; 0: no limit
}

// StormKind is a kind of load.
type StormKind string

// The kinds of storms.
const (
	StormBatches StormKind = "batches" // batches of far-off tasks, which are replaced again and again
	StormCalls   StormKind = "calls"   // one far-off task a call, likewise
	StormDue     StormKind = "due"     // tasks that are due at one instant, for a receiver that answers at once
	StormSilent  StormKind = "silent"  // tasks that are due at once, for a receiver that never answers
)

// Ended returns the error of a failed [Consumer]: nil if the consumer failed because its context has ended, else err.
func Ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
