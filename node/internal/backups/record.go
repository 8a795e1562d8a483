package backups

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

const (
	confirmEvery = 30 * time.Second
	lostAfter    = 2 * time.Minute // without a confirmation
	retryAfter   = 5 * time.Minute // after a failure
	maxError     = 500             // bytes of an error in the record
)

// due returns the instant at which the next try begins, by the record.
func due(b *clusterpb.Backups, every time.Duration) time.Time {
	if running := b.GetRunning(); running != nil {
		return time.UnixMilli(running.SeenMs).Add(lostAfter)
	}
	switch kept := b.GetLastKept(); {
	case isFailing(b):
		return time.UnixMilli(b.LastFailed.SeenMs).Add(min(every, retryAfter))
	case kept != nil:
		return time.UnixMilli(kept.BegunMs).Add(every)
	}
	return time.Time{}
}

// isFailing reports whether the last backup failed.
func isFailing(b *clusterpb.Backups) bool {
	failed := b.GetLastFailed()
	return failed != nil && failed.BegunMs >= b.GetLastKept().GetBegunMs()
}

// begin returns the record in which a node has begun a try. A try that was running is lost.
func begin(b *clusterpb.Backups, node string, now time.Time) *clusterpb.Backups {
	next := clone(b)
	if lost := next.Running; lost != nil {
		lost.Error = "the node stopped or lost touch before the backup was kept"
		next.LastFailed = lost
	}
	next.Running = &clusterpb.BackupTry{Node: node, BegunMs: now.UnixMilli(), SeenMs: now.UnixMilli()}
	return next
}

// confirm returns the record in which the running try is still running.
func confirm(b *clusterpb.Backups, now time.Time) *clusterpb.Backups {
	next := clone(b)
	next.Running.SeenMs = now.UnixMilli()
	return next
}

// end returns the record after the running try, which kept a backup unless place is empty.
func end(b *clusterpb.Backups, now time.Time, place string, bytes uint64, err error) *clusterpb.Backups {
	next := clone(b)
	try := next.Running
	next.Running = nil
	try.SeenMs, try.Place, try.Bytes = now.UnixMilli(), place, bytes
	if err != nil {
		try.Error = strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxError)], "")
	}
	if place == "" {
		next.LastFailed = try
	} else {
		next.LastKept = try
	}
	return next
}

func clone(b *clusterpb.Backups) *clusterpb.Backups {
	if b == nil {
		return &clusterpb.Backups{}
	}
	return proto.CloneOf(b)
}

// owns reports whether the record has this try as the running one.
func owns(b *clusterpb.Backups, try *clusterpb.BackupTry) bool {
	running := b.GetRunning()
	return running != nil && running.Node == try.Node && running.BegunMs == try.BegunMs
}
