package view

import "time"

// Role is a kind of work that the holder of a key may do.
type Role string

// Grant allows a role within a namespace. Each entry of Queues and IDs is a name, or a prefix that ends in an asterisk;
// an empty list allows all.
type Grant struct {
	Role      Role     `json:"role"`
	Namespace string   `json:"namespace"` // "*": every one, and the calls about the whole cluster
	Queues    []string `json:"queues,omitempty"`
	IDs       []string `json:"ids,omitempty"`
}

// APIKey describes an API key, without its text.
type APIKey struct {
	ID         string     `json:"id"` // the public part of the text
	Name       string     `json:"name"`
	Grants     []Grant    `json:"grants"`
	Quotas     *Quotas    `json:"quotas,omitempty"` // nil: none
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`   // nil: never
	LastUsedAt *time.Time `json:"last_used_at"` // to the hour; nil: never
}

// JWTKey is a key by which the cluster signs the tokens of webhooks.
type JWTKey struct {
	ID        string     `json:"kid"`
	Algorithm string     `json:"algorithm"` // EdDSA or RS256
	MadeAt    time.Time  `json:"made_at"`
	SignsAt   time.Time  `json:"signs_at"` // from when on it signs in place of older ones
	EndsAt    *time.Time `json:"ends_at"`  // when it is published no more; nil: there is no newer one
}

// Caller is the identity behind a call.
type Caller struct {
	Kind      string  `json:"kind"` // key, root key, token, certificate, or local where no keys are in force
	ID        string  `json:"id"`   // of the key; subject of a token or certificate
	Name      string  `json:"name"`
	Grants    []Grant `json:"grants"`
	Namespace string  `json:"namespace"` // of the caller's calls that name none
}

// Namespace is a part of the cluster with ids, queues and quotas of its own.
type Namespace struct {
	Name string `json:"name"`
	Quotas
	State     string  `json:"state"`               // active or deleting
	CreatedAt Instant `json:"created_at,omitzero"` // zero: the default namespace, which always exists
	Used      *Usage  `json:"used,omitempty"`      // only in the answer about one namespace
}

// Quotas are the limits of a namespace or a key in the whole cluster. Zero fields are no limits, or the service's own.
type Quotas struct {
	MaxPending         int64   `json:"max_pending,omitempty"` // tasks that are not finished
	MaxBytes           int64   `json:"max_bytes,omitempty"`   // of all tasks, dead letters included
	MaxPayload         int64   `json:"max_payload,omitempty"` // bytes of one payload
	SchedulesPerSecond float64 `json:"schedules_per_second,omitempty"`
	CallsPerSecond     float64 `json:"calls_per_second,omitempty"`
	MaxConsumers       int64   `json:"max_consumers,omitempty"` // streams and waiting lease calls
	MaxQueues          int64   `json:"max_queues,omitempty"`    // queues with a policy or a task
	Weight             int64   `json:"weight,omitempty"`        // its part of a node's capacity beside other namespaces
}

// Usage is how much of its quotas a namespace uses.
type Usage struct {
	Pending int64 `json:"pending"` // tasks that are not finished
	Dead    int64 `json:"dead"`    // dead letters
	Bytes   int64 `json:"bytes"`   // of both

	Queues    int64 `json:"queues"`    // queues with a policy or a task, finished ones included
	Consumers int64 `json:"consumers"` // streams and waiting lease calls

	// Calls admitted over the last second; 0 without a quota of them.
	SchedulesPerSecond float64 `json:"schedules_per_second"`
	CallsPerSecond     float64 `json:"calls_per_second"`
}

// Calendar tells on which days, and at which hours of them, work may be done. Rules of schedules name it. It has Hours,
// Closed or both.
type Calendar struct {
	Name     string          `json:"name"`
	TimeZone string          `json:"time_zone,omitempty"` // of the IANA database; empty: that of the rule
	Hours    []CalendarHours `json:"hours,omitempty"`     // united; empty: all hours
	Closed   []string        `json:"closed,omitempty"`    // dates, ranges of dates, and yearly dates: "--12-25"

	// The service sets the fields below.
	KnownUntil string `json:"known_until,omitempty"` // last date of an import whose recurrences have no end
	Revision   uint64 `json:"revision,omitempty"`

	// The answer to an import has the number of events that close no day, and why.
	Skipped int      `json:"skipped,omitempty"`
	Why     []string `json:"why,omitempty"`
}

// CalendarHours is the open hours on some days of the week.
type CalendarHours struct {
	Days  string   `json:"days,omitempty"` // "MON-FRI,SUN"; empty: every day
	Daily []string `json:"daily"`          // "09:00-17:30"
}
