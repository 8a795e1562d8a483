package contract

// Object lists the members that an object of a request may have, and the members that get a refusal of their own.
type Object struct {
	Prefix string // precedes the members' names in errors, like "target."
	Takes  Set
	// A member in one of these sets is refused with a text of its own. A member in none of them is refused as unknown.
	Elsewhere Set  // members that other calls take
	Unpatched Set  // members of a task that a patch cannot change
	ofTask    bool // members that only answers with a task have
}

// The sets of members that calls take.
const (
	TaskFields  = SpecFields | 1<<FireAt | 1<<Delay | 1<<Jitter
	PutFields   = TaskFields | 1<<ID
	PatchFields = SpecFields&^(1<<Queue|1<<ExpiresAfter) | 1<<FireAt | 1<<Delay
	TouchFields = Set(1<<Delay | 1<<NoLaterThan | 1<<OrSchedule | 1<<Payload | 1<<PayloadBase64 | 1<<Append)
	HeadFields  = Set(1<<Op | 1<<ID | 1<<Key | 1<<IfMatch | 1<<IfNoneMatch)
	LineFields  = HeadFields | PutFields | TouchFields

	settleFields = Set(1<<Ack | 1<<Nack | 1<<Extend | 1<<Release)
)

// The objects of requests that are read often, and of those about tasks. Other objects are Members.
var (
	PutObject        = ofTask(PutFields)
	PostObject       = ofTask(TaskFields)
	TouchObject      = ofTask(TouchFields)
	EmptyObject      = ofTask(0) // for a call whose body has no members
	LineObject       = ofTask(LineFields)
	PatchObject      = ofPatch(PatchFields)
	PatchLineObject  = ofPatch(HeadFields | PatchFields)
	SeriesTaskObject = ofTask(SpecFields) // the task of a schedule
	FollowUpObject   = Object{Takes: SpecFields | 1<<Delay | 1<<KeepAnswer, ofTask: true}
	TargetObject     = Object{Prefix: "target.", Takes: 1<<URL | 1<<Method | 1<<Auth | 1<<Headers | 1<<Timeout}
	RetryObject      = Object{Prefix: "retry.", Takes: 1<<MaxAttempts | 1<<MinBackoff | 1<<MaxBackoff | 1<<Delays}
	SettleObject     = Object{Takes: settleFields}
	StreamObject     = Object{Takes: settleFields | 1<<Credit}
)

func ofTask(takes Set) Object { return Object{Takes: takes, Elsewhere: LineFields, ofTask: true} }

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

// setByService reports whether only answers have a member of a task.
func setByService(f Field) bool {
	switch f {
	case State, Attempts, NextAttemptAt, LastError, Revision, Shard, CreatedAt, WebhookID, Outcome, Previous, History,
		LeaseEndsAt, Receipt, Attempt, Fence, Schedule, Occurrence, Scheduled, WaitsFor:
		return true
	}
	return false
}

func (o *Object) refusal(f Field, name []byte) error {
	full := o.Prefix + string(name)
	switch {
	case o.Takes.Has(f):
		return Twice(full)
	case o.ofTask && setByService(f):
		return SetByService(nil, full, false)
	case o.Unpatched.Has(f):
		return &MemberError{Name: full, Detail: "cannot be patched; PUT the task anew"}
	case o.ofTask && f == Repeat:
		return &MemberError{Name: full, Detail: "is not a field of a task, which fires once: PUT /v1/schedules/{id} makes " +
			"a schedule, which repeats"}
	case o.Elsewhere.Has(f) && f == ID:
		return &MemberError{Name: full, Detail: "is not sent here: it stands in the path, or POST /v1/tasks makes one"}
	case o.Elsewhere.Has(f):
		return &MemberError{Name: full, Detail: "is not a field of this call"}
	}
	return &MemberError{Name: full, Detail: "is not a field that is known"}
}
