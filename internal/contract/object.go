package contract

// Object lists the members that an object of a request may have, and the members that get a refusal of their own.
type Object struct {
	Prefix string // precedes the members' names in errors, like "target."
	Takes  Set
	// A member in one of these sets is refused with a text of its own. A member in none of them is refused as unknown.
	Elsewhere Set      // members that other calls take
	Answered  answered // the members that only answers have
	Unpatched Set      // members of a task that a patch cannot change
}

// The sets of members that calls take.
const (
	SpecFields = Set(1<<Queue | 1<<Payload | 1<<PayloadBase64 | 1<<ContentType | 1<<Target | 1<<Retry |
		1<<ExpiresAfter | 1<<Labels | 1<<Window | 1<<Group | 1<<Priority)
	TaskFields  = SpecFields | 1<<FireAt | 1<<Delay | 1<<Jitter
	PutFields   = TaskFields | 1<<ID
	TouchFields = Set(1<<Delay | 1<<NoLaterThan | 1<<OrSchedule)
	PatchFields = Set(1<<FireAt | 1<<Delay | 1<<Payload | 1<<PayloadBase64 | 1<<ContentType | 1<<Target | 1<<Retry |
		1<<Labels | 1<<Window | 1<<Group | 1<<Priority)
	HeadFields  = Set(1<<Op | 1<<ID | 1<<Key | 1<<IfMatch | 1<<IfNoneMatch)
	LineFields  = HeadFields | PutFields | TouchFields
	RetryFields = Set(1<<MaxAttempts | 1<<MinBackoff | 1<<MaxBackoff | 1<<Delays)

	policyFields = Set(1<<Queue | 1<<Target | 1<<Retry | 1<<MaxInFlight | 1<<MaxPerSecond | 1<<Paused | 1<<KeepDone |
		1<<KeepDead | 1<<BatchMax | 1<<Signing | 1<<Window | 1<<GroupInFlight | 1<<FIFO | 1<<Fair | 1<<GroupWeights)
	settleFields = Set(1<<Ack | 1<<Nack | 1<<Extend | 1<<Release)
)

// The objects of requests.
var (
	PutObject         = ofTask(PutFields)
	PostObject        = ofTask(TaskFields)
	TouchObject       = ofTask(TouchFields)
	EmptyObject       = ofTask(0) // for a call whose body has no members
	LineObject        = ofTask(LineFields)
	PatchObject       = ofPatch(PatchFields)
	PatchLineObject   = ofPatch(HeadFields | PatchFields)
	TargetObject      = Object{Prefix: "target.", Takes: 1<<URL | 1<<Headers | 1<<Timeout}
	RetryObject       = Object{Prefix: "retry.", Takes: RetryFields}
	PolicyObject      = Object{Takes: policyFields, Answered: ofQueues}
	SigningObject     = Object{Prefix: "signing.", Takes: 1 << Secrets}
	LeaseObject       = Object{Takes: 1<<Max | 1<<Wait | 1<<Lease}
	SettleObject      = Object{Takes: settleFields}
	StreamObject      = Object{Takes: settleFields | 1<<Credit}
	OperationObject   = Object{Takes: 1 << Preview}
	DrainObject       = Object{Takes: 1<<Preview | 1<<Leaders}
	ReplicationObject = Object{Takes: 1<<Preview | 1<<Replication}
	MoveSlotsObject   = Object{Takes: 1<<Preview | 1<<Slots | 1<<To}
	BalanceObject     = Object{Takes: 1<<Preview | 1<<To}
	SeriesTaskObject  = ofTask(SpecFields) // the task of a schedule
)

func ofTask(takes Set) Object {
	return Object{Takes: takes, Elsewhere: LineFields, Answered: ofTasks}
}

func ofPatch(takes Set) Object {
	o := ofTask(takes)
	o.Unpatched = PutFields
	return o
}

// admit returns the field with the given name and adds the field to seen. It refuses a member that the object does not
// take or already has.
func (o *Object) admit(seen *Set, name []byte) (Field, error) {
	f := FieldOf(name)
	bit := Set(1) << f
	if o.Takes&^*seen&bit != 0 {
		*seen |= bit
		return f, nil
	}
	return f, o.refusal(f, name)
}

// answered names a kind of objects, and with it the members that only answers have.
type answered int

const (
	ofTasks answered = iota + 1
	ofQueues
)

func (a answered) has(f Field) bool {
	switch f {
	case State, Attempts, NextAttemptAt, LastError, Revision, Shard, CreatedAt, WebhookID, Outcome, Previous, History,
		LeaseEndsAt, Receipt, Attempt, Fence, Schedule, Occurrence, Scheduled, WaitsFor:
		return a == ofTasks
	case Counts, Version, WindowOpen, WindowOpensAt:
		return a == ofQueues
	}
	return false
}

func (o *Object) refusal(f Field, name []byte) error {
	full := o.Prefix + string(name)
	switch {
	case o.Takes.Has(f):
		return Twice(full)
	case o.Answered.has(f):
		return &MemberError{Name: full, Detail: "is set by the service and cannot be sent"}
	case o.Unpatched.Has(f):
		return &MemberError{Name: full, Detail: "cannot be patched; PUT the task anew"}
	case f == Repeat:
		return &MemberError{Name: full, Detail: "is not a field of a task, which fires once: PUT /v1/schedules/{id} makes " +
			"a schedule, which repeats"}
	case o.Elsewhere.Has(f) && f == ID:
		return &MemberError{Name: full, Detail: "is not sent here: it stands in the path, or POST /v1/tasks makes one"}
	case o.Elsewhere.Has(f):
		return &MemberError{Name: full, Detail: "is not a field of this call"}
	}
	return &MemberError{Name: full, Detail: "is not a field that is known"}
}
