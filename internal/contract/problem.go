package contract

// ProblemPrefix begins the type of every problem (RFC 9457). A slug follows it and never changes.
const ProblemPrefix = "urn:belfry:problem:"

// The slugs of the problems that clients distinguish. openapi.yaml lists all types.
const (
	TaskNotFound      = "task-not-found"
	ScheduleNotFound  = "schedule-not-found"
	QueueNotFound     = "queue-not-found"
	LeaseNotFound     = "lease-not-found"
	NodeNotFound      = "node-not-found"
	OperationNotFound = "operation-not-found"
	Impossible        = "impossible"
	TokenNotFound     = "token-not-found"
	AccessKeyNotFound = "key-not-found"
	NamespaceNotFound = "namespace-not-found"
	WrongState        = "wrong-state"
	QueueNotEmpty     = "queue-not-empty"
	CalendarNotFound  = "calendar-not-found"
	CalendarInUse     = "calendar-in-use"
	QueuesFull        = "queues-full"
	LeaseEnded        = "lease-ended"
	KeyForgotten      = "key-forgotten"
	EventsGone        = "events-gone"
	ConditionFailed   = "precondition-failed"
	TooLarge          = "too-large"
	KeyReused         = "key-reused"
	Overloaded        = "overloaded"
	MemoryFull        = "memory-full"
	NoRoom            = "no-room"
	Unauthenticated   = "unauthenticated"
	Forbidden         = "forbidden"
	QuotaExceeded     = "quota-exceeded"
)
