package subject

import (
	"context"
	"time"
)

// What some callers can do.
type (
	// BatchScheduler schedules many tasks in one call. Without error all are acknowledged.
	BatchScheduler interface {
		ScheduleBatch(ctx context.Context, tasks []Task) error
	}

	// Replacer schedules tasks whose ids may be there already, which are then replaced whole. Without error all are
	// acknowledged.
	Replacer interface {
		Replace(ctx context.Context, tasks []Task) error
	}

	// Canceller takes back a task that is not yet due. A task that is not there is an error.
	Canceller interface {
		Cancel(ctx context.Context, id string) error
	}

	// BatchCanceller takes back many in one call. Without error all are cancelled.
	BatchCanceller interface {
		CancelBatch(ctx context.Context, ids []string) error
	}

	// Toucher makes a task due again later, as a heartbeat does.
	Toucher interface {
		Touch(ctx context.Context, id string, due time.Time) error
	}

	// Consumer receives due tasks and acknowledges them until the context ends, which is no error. It calls got at once
	// when a task is there, with the instant at which it was, before it acknowledges; got is safe for concurrent use.
	Consumer interface {
		Consume(ctx context.Context, got func(id string, at time.Time)) error
	}
)

// What some services can do.
type (
	// Pusher sends the tasks that are scheduled from now on to a URL when they are due, as an HTTP POST a task whose
	// header ce-subject is the task's id. Without it they are consumed.
	Pusher interface {
		PushTo(url string) error
	}

	// Killer kills all processes of the service with SIGKILL, and starts them again on the same data. Restart returns as
	// soon as the processes are started; calls may fail for a while. Callers made before are then closed and made anew.
	Killer interface {
		KillAll() error
		Restart(ctx context.Context) error
	}

	// LeaderKiller kills with SIGKILL the process that leads, or the one that leads most.
	LeaderKiller interface {
		KillLeader() error
	}

	// LeaderStopper stops the process that leads most as an operator does for an upgrade, and returns when it is gone.
	LeaderStopper interface {
		StopLeader() error
	}

	// ReadyAwaiter waits until every process that runs says that it is ready, as an operator does before the next is
	// stopped.
	ReadyAwaiter interface {
		AwaitReady(ctx context.Context) error
	}

	// Snapshotter tells how many snapshots of their state its processes have written since they were started, and how
	// many of those the part of the state has of which the fewest were written.
	Snapshotter interface {
		Snapshots(ctx context.Context) (all, fewest int, err error)
	}

	// Recorder writes down what its processes did in the last moments, as execution traces, and says where. Empty: it was
	// not started with recorders.
	Recorder interface {
		Keep(ctx context.Context, name string) (where string, err error)
	}

	// Queuer makes a caller whose tasks go to a queue of this name, and which consumes from it alone.
	Queuer interface {
		QueueCaller(ctx context.Context, queue string) (Caller, error)
	}
)

// Ended is what a [Consumer] returns that has failed: nothing, if its context has ended, which is why it failed.
func Ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
