package faults

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/workload"
	"github.com/belfryhq/belfry/deploy/receiver"
)

const (
	slowAnswer = 400 * time.Millisecond
	hugeReply  = 8 << 20
)

// receiverKinds returns kinds that make the receiver of all deliveries hostile for a while. Only deliveries may suffer:
// calls go on, and no task is lost.
func receiverKinds() []Kind {
	kind := func(name string, mood func(hold time.Duration) workload.Mood) Kind {
		name = "receiver " + name
		return Kind{Name: name, Group: "receiver", Weight: 1, Strike: func(ctx context.Context, on Target) error {
			return misbehave(ctx, on, name, mood(on.Hold))
		}}
	}
	status := func(m workload.Mood) func(time.Duration) workload.Mood {
		return func(time.Duration) workload.Mood { return m }
	}
	return []Kind{
		{Name: history.OnePath, Group: "receiver", Weight: 2, Strike: failOnePath},
		kind("is slow", status(workload.Mood{Slow: slowAnswer})),
		kind("hangs, then resets", func(hold time.Duration) workload.Mood {
			return workload.Mood{Slow: hold, Answer: receiver.Reset}
		}),
		kind("resets connections", status(workload.Mood{Answer: receiver.Reset})),
		kind("answers 500", status(workload.Mood{Answer: http.StatusInternalServerError})),
		kind("answers 429", status(workload.Mood{Answer: http.StatusTooManyRequests, RetryAfter: time.Second})),
		kind("replies without end", status(workload.Mood{Reply: hugeReply})),
	}
}

// theReceiver is the claim of each receiver fault, because the receiver has one mood at a time.
const theReceiver = "receiver"

// pathHold is the shortest time for which one path fails: the others may be held up in the first seconds.
const pathHold = 12 * time.Second

// failOnePath lets one path of the receiver refuse, fail or hang for a while.
func failOnePath(ctx context.Context, on Target) error {
	on.Hold = max(on.Hold, pathHold)
	moods := []workload.Mood{
		{Answer: http.StatusUnprocessableEntity}, {Answer: http.StatusNotFound}, {Answer: http.StatusInternalServerError},
		{Slow: on.Hold, Answer: receiver.Reset},
	}
	mood := moods[on.Rand.IntN(len(moods))]
	mood.Path = workload.Path(on.Rand.Int64N(workload.Paths))
	return misbehave(ctx, on, history.OnePath, mood)
}

func misbehave(ctx context.Context, on Target, kind string, mood workload.Mood) error {
	if on.Receiver == nil {
		return ErrBusy
	}
	release, ok := on.Stand.Claim(theReceiver)
	if !ok {
		return ErrBusy
	}
	defer release()
	fault := on.Recorder.Strike(history.Fault{Kind: kind, Detail: detailOf(on.Hold, mood), Path: mood.Path})
	on.Receiver.Behave(mood)
	Wait(ctx, on.Hold)
	on.Recorder.Mending(fault)
	on.Receiver.Behave(workload.Mood{})
	on.Recorder.Mended(fault)
	return nil
}

func detailOf(hold time.Duration, mood workload.Mood) string {
	detail := "for " + hold.Round(time.Millisecond).String()
	switch {
	case mood.Path == "":
		return detail
	case mood.Answer > 0:
		return fmt.Sprintf("%s, %s answers %d", detail, mood.Path, mood.Answer)
	}
	return fmt.Sprintf("%s, %s hangs", detail, mood.Path)
}
