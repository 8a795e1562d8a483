package segment

import (
	"slices"

	"github.com/belfryhq/belfry/history/historypb"
)

// The events of an entry differ in few fields. In a file, an event leaves out the fields that equal those of the event
// before, and names them in Event.Same. Events of earlier builds name none.

// leaveSame makes lean the event e without the fields that equal those of the event before, and before the event e.
func leaveSame(lean, e, before *historypb.Event) {
	lean.Same, lean.Number = 0, e.Number
	same := &lean.Same
	lean.Shard = leave(same, 1, e.Shard, &before.Shard)
	lean.Index = leave(same, 2, e.Index, &before.Index)
	lean.AtMs = leave(same, 4, e.AtMs, &before.AtMs)
	lean.Type = leave(same, 5, e.Type, &before.Type)
	lean.Namespace = leave(same, 6, e.Namespace, &before.Namespace)
	lean.Task = leave(same, 7, e.Task, &before.Task)
	lean.Queue = leave(same, 8, e.Queue, &before.Queue)
	lean.DueMs = leave(same, 10, e.DueMs, &before.DueMs)
	lean.LatenessMs = leave(same, 11, e.LatenessMs, &before.LatenessMs)
	lean.Attempt = leave(same, 12, e.Attempt, &before.Attempt)
	lean.WebhookId = leave(same, 13, e.WebhookId, &before.WebhookId)
	lean.Occurrence = leave(same, 14, e.Occurrence, &before.Occurrence)
	lean.Node = leave(same, 15, e.Node, &before.Node)
	lean.Status = leave(same, 16, e.Status, &before.Status)
	lean.Answer = leave(same, 17, e.Answer, &before.Answer)
	lean.BegunMs = leave(same, 18, e.BegunMs, &before.BegunMs)
	lean.Labels = nil
	if len(e.Labels) > 0 && slices.EqualFunc(e.Labels, before.Labels, equalLabels) {
		lean.Same |= 1 << 9
	} else {
		lean.Labels, before.Labels = e.Labels, e.Labels
	}
}

func leave[T comparable](same *uint32, field int, v T, before *T) T {
	var none T
	if v == *before && v != none {
		*same |= 1 << field
		return none
	}
	*before = v
	return v
}

// takeSame gives an event the fields that it has left out.
func takeSame(e, before *historypb.Event) {
	same := e.Same
	if e.Same = 0; same == 0 {
		return
	}
	inherit(same, 1, &e.Shard, before.Shard)
	inherit(same, 2, &e.Index, before.Index)
	inherit(same, 4, &e.AtMs, before.AtMs)
	inherit(same, 5, &e.Type, before.Type)
	inherit(same, 6, &e.Namespace, before.Namespace)
	inherit(same, 7, &e.Task, before.Task)
	inherit(same, 8, &e.Queue, before.Queue)
	inherit(same, 10, &e.DueMs, before.DueMs)
	inherit(same, 11, &e.LatenessMs, before.LatenessMs)
	inherit(same, 12, &e.Attempt, before.Attempt)
	inherit(same, 13, &e.WebhookId, before.WebhookId)
	inherit(same, 14, &e.Occurrence, before.Occurrence)
	inherit(same, 15, &e.Node, before.Node)
	inherit(same, 16, &e.Status, before.Status)
	inherit(same, 17, &e.Answer, before.Answer)
	inherit(same, 18, &e.BegunMs, before.BegunMs)
	inherit(same, 9, &e.Labels, before.Labels)
}

func inherit[T any](same uint32, field int, to *T, before T) {
	if same>>field&1 != 0 {
		*to = before
	}
}

func equalLabels(a, b *historypb.Label) bool { return a == b || a.Name == b.Name && a.Value == b.Value }
