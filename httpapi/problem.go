package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/quota"
)

// kind is one sort of problem. Its slug ends the problem's type and never changes.
type kind struct {
	slug   string
	title  string
	status int
}

// The kinds of problems. openapi.yaml lists their types.
var (
	malformedJSON     = kind{"malformed-json", "The body is not the JSON that this call takes.", 400}
	invalidField      = kind{"invalid-field", "A field, parameter or header is wrong.", 400}
	noDelay           = kind{"no-delay", "There is no delay to start again.", 400}
	unauthenticated   = kind{"unauthenticated", "The call shows no credentials that are in force.", 401}
	foreignOrigin     = kind{"foreign-origin", "The call's web page or host name is not allowed.", 403}
	forbidden         = kind{"forbidden", "The caller's grants do not reach so far.", 403}
	unknownRoute      = kind{"unknown-route", "There is no such route.", 404}
	taskNotFound      = kind{contract.TaskNotFound, "There is no such task.", 404}
	keyNotFound       = kind{"key-not-found", "There is no such key.", 404}
	namespaceNotFound = kind{"namespace-not-found", "There is no such namespace.", 404}
	scheduleNotFound  = kind{contract.ScheduleNotFound, "There is no such schedule.", 404}
	calendarNotFound  = kind{contract.CalendarNotFound, "There is no such calendar.", 404}
	queueNotFound     = kind{contract.QueueNotFound, "There is no such queue.", 404}
	nodeNotFound      = kind{contract.NodeNotFound, "The cluster has no such node.", 404}
	operationNotFound = kind{contract.OperationNotFound, "There is no such operation.", 404}
	impossible        = kind{contract.Impossible, "The operation cannot be carried out as things are.", 409}
	tokenNotFound     = kind{contract.TokenNotFound, "There is no such one-time token.", 404}
	leaseNotFound     = kind{contract.LeaseNotFound, "The queue has no such lease.", 404}
	methodNotAllowed  = kind{"method-not-allowed", "The route does not take this method.", 405}
	bodyTimeout       = kind{"body-timeout", "The body did not arrive in time.", 408}
	wrongState        = kind{contract.WrongState, "The task's state does not allow the call.", 409}
	wrongOccurrence   = kind{contract.WrongState, "The schedule's occurrences do not allow the call.", 409}
	queueNotEmpty     = kind{contract.QueueNotEmpty, "The queue has tasks.", 409}
	calendarInUse     = kind{contract.CalendarInUse, "Schedules use the calendar.", 409}
	queuesFull        = kind{contract.QueuesFull, "As many queues have a policy as may.", 409}
	leaseEnded        = kind{contract.LeaseEnded, "The receipt's lease has ended.", 409}
	eventsGone        = kind{contract.EventsGone, "The events are no longer kept.", 410}
	keyForgotten      = kind{contract.KeyForgotten, "What the key's call was answered is no longer remembered.", 409}
	conditionFailed   = kind{contract.ConditionFailed, "The condition does not hold.", 412}
	tooLarge          = kind{contract.TooLarge, "The body or its payload is over the limit.", 413}
	unsupportedMedia  = kind{"unsupported-media-type", "The body is not of the type that this call takes.", 415}
	keyReused         = kind{contract.KeyReused, "The idempotency key was used with another call.", 422}
	tooManyAttempts   = kind{"too-many-attempts", "Too many wrong credentials came from this address.", 429}
	overloaded        = kind{contract.Overloaded, "Too many calls are waiting.", 429}
	memoryFull        = kind{contract.MemoryFull, "The memory for tasks is used up.", 429}
	quotaExceeded     = kind{contract.QuotaExceeded, "A quota of the namespace or the key is used up.", 429}
	quotaTooSmall     = kind{contract.QuotaExceeded, "A quota of the namespace or the key does not allow the call.", 403}
	internalError     = kind{"internal", "Something went wrong inside.", 500}
	notCommitted      = kind{"not-committed", "The call was not carried out and will not be.", 503}
	notReady          = kind{"not-ready", "The node is not ready.", 503}
	noRoom            = kind{contract.NoRoom, "The disks are nearly full.", 507}
	outcomeUnknown    = kind{"outcome-unknown", "It is not known whether the call was carried out.", 504}
)

// problem is an answer of RFC 9457. It is an error, so that any function can refuse with one.
type problem struct {
	kind
	detail    string
	field     string // the faulty field, as the caller wrote it
	limit     string // the broken limit
	quota     string // the name of the quota, on quotaExceeded and quotaTooSmall
	used      string // of the quota
	committed string // "no" or "unknown", on 5xx of calls
	// The next two describe the task, on wrongState.
	state    string
	attempts uint32

	done *uint64 // changes that a broken-off call on many tasks certainly made

	// present is what stands in the way, under the name of a member: on conditionFailed the task or schedule that should
	// be absent, on queueNotEmpty the counts of the queue. Nil: nothing, or it was not requested.
	present interface{ append(b []byte) []byte }
	member  contract.Field

	hides bool // the problem hides from the caller whether something exists

	retryAfter int    // seconds; 0: no header
	allow      string // of methodNotAllowed
}

func (p *problem) Error() string {
	text := p.slug + ": " + p.detail
	if p.field != "" {
		text = p.slug + ": " + p.field + " " + p.detail
	}
	return text
}

func fieldProblem(field, detail, limit string) *problem {
	return &problem{kind: invalidField, field: contract.Clip(field), detail: detail, limit: limit}
}

// wholeParam reads a whole number from least to most in the text of a parameter.
func wholeParam(name, text string, least, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n < least || n > most {
		return 0, fieldProblem(name, fmt.Sprintf("is %q", contract.Clip(text)), fmt.Sprintf("%d to %d", least, most))
	}
	return n, nil
}

// reason words an error of the cluster for a caller. Callers do not know the words of Go and gRPC for a deadline or a
// lost connection.
func reason(err error) string { return plainWords.Replace(err.Error()) }

var plainWords = strings.NewReplacer(
	context.DeadlineExceeded.Error(), "the time was up", context.Canceled.Error(), "the caller left",
	"rpc error: code = ", "", " desc = ", " ",
	"transport: Error while dialing: ", "", //nolint:misspell // as gRPC spells it
	"unexpected EOF", "the connection broke",
)

// problemOf returns the problem for any error of a call. Its committed field tells whether an unanswered write may have
// happened.
func problemOf(err error) *problem {
	var p *problem
	var field *task.FieldError
	var member *contract.MemberError
	var syntax *contract.SyntaxError
	var granted *access.FieldError
	var memory *task.MemoryError
	var full *task.QueuesFullError
	var cannot *task.ImpossibleError
	var exceeded *quota.Exceeded
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &field):
		return fieldProblem(field.Field, field.Detail, field.Limit)
	case errors.As(err, &granted):
		return fieldProblem(granted.Field, granted.Detail, granted.Limit)
	case errors.As(err, &member):
		return fieldProblem(member.Name, member.Detail, member.Limit)
	case errors.As(err, &syntax):
		return &problem{kind: malformedJSON, detail: syntax.Error()}
	case errors.As(err, &cannot):
		return &problem{kind: impossible, detail: cannot.Reason}
	case errors.Is(err, task.ErrNoNode):
		return &problem{kind: nodeNotFound, detail: err.Error()}
	case errors.As(err, &exceeded):
		return quotaProblem(exceeded)
	case errors.Is(err, task.ErrOverloaded):
		return &problem{kind: overloaded, detail: "try again later", retryAfter: 1}
	case errors.As(err, &memory):
		return &problem{kind: memoryFull, limit: memory.Limit, retryAfter: 5,
			detail: "node " + memory.Node + " holds as many tasks as its memory allows; nothing is taken that needs more " +
				"of it, and cancels, settles and changes of a time are"}
	case errors.As(err, &full):
		return &problem{kind: queuesFull, limit: full.Limit,
			detail: "this queue has no policy yet: delete that of another one first, or use this one without; policies that " +
				"are there can be changed"}
	case errors.Is(err, task.ErrNoRoom):
		return &problem{kind: noRoom, committed: "no", retryAfter: 10,
			detail: "nothing is taken that needs more room; cancels, settles and changes of a time are"}
	case errors.Is(err, task.ErrNotProposed):
		return &problem{kind: notCommitted, detail: reason(err), committed: "no", retryAfter: 1}
	case errors.Is(err, task.ErrUnknown), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &problem{kind: outcomeUnknown, detail: reason(err), committed: "unknown", retryAfter: 1}
	}
	return &problem{kind: internalError, detail: "the node's log says more", committed: "unknown", retryAfter: 1}
}

// quotaProblem words a quota that refuses a call. Without a time to try again, waiting never helps.
func quotaProblem(e *quota.Exceeded) *problem {
	p := &problem{kind: quotaExceeded, detail: e.Error(), quota: e.Quota.String(), limit: quota.Number(e.Limit),
		used: quota.Number(e.Used), retryAfter: int(math.Ceil(e.RetryAfter.Seconds()))}
	if e.RetryAfter <= 0 {
		p.kind = quotaTooSmall
	}
	return p
}

// readProblem returns the problem for an error of a call that changes nothing. Its committed field is never "unknown".
func readProblem(err error) *problem {
	p := problemOf(err)
	if p.kind == outcomeUnknown {
		p = &problem{kind: notCommitted, detail: "the read was not answered in time: " + reason(err), retryAfter: 1}
	}
	if p.committed != "" || p.kind == notCommitted {
		p.committed = "no"
	}
	return p
}

const (
	noSuchTask     = "no task has this id, and no tombstone of one is kept"
	noSuchSchedule = "no schedule has this id"
)

// appendProblem appends the problem as a JSON object.
func appendProblem(b []byte, p *problem) []byte {
	begin := len(b)
	b = contract.AppendText(b, contract.Type, contract.ProblemPrefix+p.slug)
	b = contract.AppendText(b, contract.Title, p.title)
	b = contract.AppendUint(b, contract.Status, uint64(p.status))
	b = contract.AppendTextIf(b, contract.Detail, p.detail)
	b = contract.AppendTextIf(b, contract.FieldName, p.field)
	b = contract.AppendTextIf(b, contract.Limit, p.limit)
	b = contract.AppendTextIf(b, contract.Quota, p.quota)
	b = contract.AppendTextIf(b, contract.Used, p.used)
	b = contract.AppendTextIf(b, contract.Committed, p.committed)
	b = contract.AppendTextIf(b, contract.State, p.state)
	if p.kind == wrongState {
		b = contract.AppendUint(b, contract.Attempts, uint64(p.attempts))
	}
	if p.retryAfter > 0 { // as in the header, which a batch line lacks
		b = contract.AppendUint(b, contract.RetryAfter, uint64(p.retryAfter))
	}
	if p.done != nil {
		b = contract.AppendUint(b, contract.Count, *p.done)
	}
	if p.present != nil {
		b = p.present.append(contract.AppendName(b, p.member))
	}
	return contract.Close(b, begin)
}

// write answers with the problem. An error of the write means that the connection has ended, and is ignored.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.kind == unauthenticated {
		h.Set("WWW-Authenticate", "Bearer")
	}
	body := append(appendProblem(nil, p), '\n')
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.status)
	_, _ = w.Write(body)
}

const nameRule = "[A-Za-z0-9][A-Za-z0-9._:~-]{0,199}"
