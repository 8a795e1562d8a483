package manifest

import (
	"slices"

	"github.com/belfryhq/belfry/internal/contract"
)

// Kind is the kind of thing that a document describes.
type Kind string

// The kinds, in the order in which they are applied: a schedule may name a calendar and a queue, and all three are in a
// namespace.
const (
	Namespace Kind = "namespace"
	Calendar  Kind = "calendar"
	Queue     Kind = "queue"
	Schedule  Kind = "schedule"
	Key       Kind = "key"
)

// Kinds lists the kinds in the order in which they are applied.
var Kinds = []Kind{Namespace, Calendar, Queue, Schedule, Key}

// HasNamespace reports whether things of a kind are in a namespace.
func (k Kind) HasNamespace() bool { return slices.Contains([]Kind{Calendar, Queue, Schedule}, k) }

var (
	callQuotas = []string{"max_payload", "schedules_per_second", "calls_per_second", "max_consumers"}
	window     = object(names("time_zone", "daily", "days", "calendar"))
)

// forms holds the members of each kind's spec.
var forms = map[Kind]contract.Members{
	Namespace: names(append([]string{"max_pending", "max_bytes", "max_queues", "weight"}, callQuotas...)...),
	Calendar:  with(names("time_zone", "closed"), "hours", each(object(names("days", "daily")))),
	Queue: with(with(names("max_in_flight", "max_per_second", "batch_max", "paused", "keep_done", "keep_dead",
		"group_in_flight", "group_per_second", "fifo", "fair", "group_weights"), "signing", object(names("secrets"))),
		"window", window, "target", strict(contract.Target), "retry", strict(contract.Retry),
		"on_delivered", strict(contract.OnDelivered), "on_dead", strict(contract.OnDead)),
	Schedule: with(names("misfire", "misfire_window", "overlap", "paused", "note"), "repeat", object(names("cron",
		"every", "anchor", "time_zone", "start", "end", "count", "except", "calendar", "jitter")), "task", task),
	Key: with(names("expires_at"), "grants", each(object(names("role", "namespace", "queues", "ids"))),
		"quotas", object(names(callQuotas...))),
}

// Fields returns the names of the members of a kind's spec.
func Fields(k Kind) (fields []string) {
	for name := range forms[k] {
		fields = append(fields, name)
	}
	slices.Sort(fields)
	return fields
}

// names returns members of these names with any values.
func names(list ...string) contract.Members {
	m := contract.Members{}
	for _, name := range list {
		m[name] = func(r *contract.Reader, _ string, _ bool) error { return r.Skip() }
	}
	return m
}

// with adds members to others: a name, and how its value is read.
func with(m contract.Members, more ...any) contract.Members {
	for i := 0; i < len(more); i += 2 {
		m[more[i].(string)] = more[i+1].(contract.Member)
	}
	return m
}

func object(m contract.Members) contract.Member {
	return func(r *contract.Reader, full string, _ bool) error { return m.Object(r, full, false) }
}

func each(one contract.Member) contract.Member {
	return func(r *contract.Reader, full string, _ bool) error {
		return r.Array(full, func(int) error { return one(r, full, false) })
	}
}

// strict returns a member whose value has the members that the API knows.
func strict(f contract.Field) contract.Member {
	return func(r *contract.Reader, _ string, _ bool) error { return r.SkipMember(f) }
}

// task passes the task of a schedule.
var task contract.Member = func(r *contract.Reader, full string, _ bool) error {
	var seen contract.Set
	return within(full, r.Object(full, &contract.SeriesTaskObject, &seen, func(f contract.Field) error {
		if f == contract.Window {
			return window(r, f.String(), false)
		}
		return r.SkipMember(f)
	}))
}
