package contract

import "math/bits"

// Field is a member of the API's JSON objects. Members with the same name are the same Field in every object.
type Field uint8

// The members that an Object may take come first, up to Credit, so that a Set has a bit for each.
const (
	Op Field = iota
	ID
	Key
	IfMatch
	IfNoneMatch
	Queue
	FireAt
	Delay
	Jitter
	Payload
	PayloadBase64
	ContentType
	Target
	Retry
	ExpiresAfter
	Labels
	Window
	Group
	Priority
	NoLaterThan
	OrSchedule
	Append
	OnDelivered
	OnDead
	KeepAnswer // of a follow-up

	// Members of a target and of a retry policy.
	URL
	Method
	Auth
	Headers
	Timeout
	MaxAttempts
	MinBackoff
	MaxBackoff
	Delays

	// Members of a queue.
	MaxInFlight
	MaxPerSecond
	BatchMax
	GroupInFlight
	GroupPerSecond
	FIFO
	Fair
	GroupWeights
	Paused
	KeepDone
	KeepDead
	Signing
	Secrets

	// Members of a lease, a settle, and a line of a stream.
	Receipt
	Max
	Wait
	Lease
	Ack
	Nack
	Extend
	Release
	Reason
	Credit

	// Members of a task that the service sets.
	State
	Attempts
	NextAttemptAt
	LastError
	Revision
	Shard
	CreatedAt
	WebhookID
	Outcome
	Previous
	History
	LeaseEndsAt
	Attempt
	Fence

	// Members of answers only: a queue, a line of a batch, a result of a settle, an ended attempt, a problem, a count.
	Counts
	Status
	Problem
	Results
	StartedAt
	EndedAt
	Node
	Error
	Type
	Title
	Detail
	FieldName
	Limit
	Committed
	RetryAfter
	Quota
	Used
	Task
	Tasks
	Queues
	NextCursor
	Count
	Scheduled
	Ready
	Firing
	Leased
	Retrying
	Delivered
	Dead
	Cancelled
	Due1m
	Due1h
	Due1d
	OldestOverdue
	Version
	WaitsFor
	WindowOpen
	WindowOpensAt

	// Members of a schedule, of the rule in it, and of its occurrences. Requests name some of them too, but their objects
	// are Members, which need no Set.
	Schedule
	Schedules
	Occurrence
	Repeat
	Cron
	Every
	Anchor
	TimeZone
	Start
	End
	Except
	Misfire
	MisfireWindow
	Overlap
	Note
	Last
	NextAt
	Running
	Waiting
	Started
	Passed
	Ended
	TZData
	Calendar
	Number
	Next
	Due
	Local
	ClockChange
	Origin
	Why
	BeganAt
	Late

	// Members of a broken receiver in a queue.
	Broken
	Receiver
	Path
	Since

	// Members of the proof of a target.
	JWT
	Audience
	Claims
	Algorithm
	ClientCertificate

	Unknown // a name that no object has
)

var names = [...]string{
	Op: "op", ID: "id", Key: "key", IfMatch: "if_match", IfNoneMatch: "if_none_match", Queue: "queue",
	FireAt: "fire_at", Delay: "delay", Jitter: "jitter", Payload: "payload", PayloadBase64: "payload_base64",
	ContentType: "content_type", Target: "target", Retry: "retry", ExpiresAfter: "expires_after", Labels: "labels",
	Window: "window", Group: "group", Priority: "priority",
	NoLaterThan: "no_later_than", OrSchedule: "or_schedule", Append: "append",
	OnDelivered: "on_delivered", OnDead: "on_dead", KeepAnswer: "keep_answer",

	State: "state", Attempts: "attempts", NextAttemptAt: "next_attempt_at", LastError: "last_error",
	Revision: "revision", Shard: "shard", CreatedAt: "created_at", WebhookID: "webhook_id", Outcome: "outcome",
	Previous: "previous", History: "history", LeaseEndsAt: "lease_ends_at", Receipt: "receipt", Attempt: "attempt",
	Fence: "fence",

	URL: "url", Method: "method", Auth: "auth", Headers: "headers", Timeout: "timeout",
	MaxAttempts: "max_attempts", MinBackoff: "min_backoff", MaxBackoff: "max_backoff", Delays: "delays",

	MaxInFlight: "max_in_flight", MaxPerSecond: "max_per_second", BatchMax: "batch_max", Paused: "paused",
	GroupInFlight: "group_in_flight", GroupPerSecond: "group_per_second", GroupWeights: "group_weights",
	FIFO: "fifo", Fair: "fair",
	KeepDone: "keep_done", KeepDead: "keep_dead", Signing: "signing", Secrets: "secrets", Counts: "counts",

	Max: "max", Wait: "wait", Lease: "lease", Ack: "ack", Nack: "nack", Extend: "extend", Release: "release",
	Reason: "reason", Credit: "credit",

	Status: "status", Problem: "problem", Results: "results", StartedAt: "started_at", EndedAt: "ended_at",
	Node: "node", Error: "error", Type: "type", Title: "title", Detail: "detail", FieldName: "field", Limit: "limit",
	Committed: "committed", RetryAfter: "retry_after", Quota: "quota", Used: "used", Task: "task", Tasks: "tasks",
	Queues: "queues", NextCursor: "next_cursor", Count: "count",

	Scheduled: "scheduled", Ready: "ready", Firing: "firing", Leased: "leased", Retrying: "retrying",
	Delivered: "delivered", Dead: "dead", Cancelled: "cancelled", Due1m: "due_1m", Due1h: "due_1h", Due1d: "due_1d",
	OldestOverdue: "oldest_overdue", Version: "version", WaitsFor: "waits_for", WindowOpen: "window_open",
	WindowOpensAt: "window_opens_at",

	Schedule: "schedule", Schedules: "schedules", Occurrence: "occurrence", Repeat: "repeat", Cron: "cron",
	Every: "every", Anchor: "anchor", TimeZone: "time_zone", Start: "start", End: "end", Except: "except",
	Misfire: "misfire", MisfireWindow: "misfire_window", Overlap: "overlap", Note: "note", Last: "last",
	NextAt: "next_at", Running: "running", Waiting: "waiting", Started: "started", Passed: "passed", Ended: "ended",
	TZData: "tz_data", Calendar: "calendar", Number: "number", Next: "next", Due: "due", Local: "local",
	ClockChange: "clock_change",
	Origin:      "origin", Why: "why", BeganAt: "began_at", Late: "late",

	Broken: "broken", Receiver: "receiver", Path: "path", Since: "since",

	JWT: "jwt", Audience: "audience", Claims: "claims", Algorithm: "algorithm",
	ClientCertificate: "client_certificate",

	Unknown: "unknown",
}

// String returns the member's name.
func (f Field) String() string { return names[f] }

// FieldOf returns the field with the given name, or Unknown if there is none.
func FieldOf(name []byte) Field {
	for i := slot(name); ; i = (i + 1) % uint(len(slots)) {
		f := slots[i]
		if f == Unknown || names[f] == string(name) {
			return f
		}
	}
}

// slots holds each field at the slot of its name's hash, or at the next free one. Unknown marks a free slot. A search
// in slots takes about half the time of a search in a map.
var slots = newSlots()

func newSlots() (table [256]Field) {
	for i := range table {
		table[i] = Unknown
	}
	for f := range Unknown {
		i := slot(names[f])
		for table[i] != Unknown {
			i = (i + 1) % uint(len(table))
		}
		table[i] = f
	}
	return table
}

func slot[T string | []byte](name T) uint {
	if len(name) == 0 {
		return 0
	}
	return (uint(len(name))*31 + uint(name[0])*7 + uint(name[len(name)-1])*67 + uint(name[len(name)/2])*11) % 256
}

// Set is a set of the fields from Op to Credit, with one bit for each.
type Set uint64

// Has reports whether f is in the set.
func (s Set) Has(f Field) bool { return s&(1<<f) != 0 }

// SpecFields are the members of a task that are neither its id nor a time. A merge patch takes them too, unless
// PatchFields leaves them out.
const SpecFields = Set(1<<Queue | 1<<Payload | 1<<PayloadBase64 | 1<<ContentType | 1<<Target | 1<<Retry |
	1<<ExpiresAfter | 1<<Labels | 1<<Window | 1<<Group | 1<<Priority | 1<<OnDelivered | 1<<OnDead)

// First returns the first field of a set that is not empty.
func (s Set) First() Field { return Field(bits.TrailingZeros64(uint64(s))) }
