package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/belfryhq/belfry/internal/contract"
)

// What a caller most often asks of an error, by errors.Is.
var (
	ErrNotFound     = errors.New("no such task")
	ErrConflict     = errors.New("the task's state does not allow the call")
	ErrPrecondition = errors.New("the condition did not hold")
	ErrKeyReused    = errors.New("the idempotency key was used with another call")
	ErrOverloaded   = errors.New("too many calls")
	ErrNoRoom       = errors.New("the service's disks are nearly full")
	// ErrUnknown: the call may or may not have happened. A repeat with the same key finds out.
	ErrUnknown = errors.New("it is unknown whether the call happened")
)

// Error is the service's refusal of a call: a problem of RFC 9457.
type Error struct {
	Status     int           // the HTTP status, or the status of one line of a batch
	Type       string        // a stable name of the problem
	Title      string        // the same for every problem of this type
	Detail     string        // what was wrong this time
	Field      string        // the field that is wrong; empty if it is about none
	Limit      string        // the limit that it breaks; empty if it breaks none
	Committed  string        // of 5xx: "no" or "unknown"
	State      State         // of a conflict: the task's
	Attempts   int           // of a conflict: the task's
	Task       *Task         // of a failed IfAbsent: the task that is there
	RetryAfter time.Duration // when the service asks to be called again; 0: it does not say
}

func (e *Error) Error() string {
	text := e.Detail
	switch {
	case text == "" && e.Title != "":
		text = e.Title
	case text == "":
		text = strings.ToLower(http.StatusText(e.Status))
	}
	if e.Field != "" && !strings.HasPrefix(text, e.Field) {
		text = e.Field + ": " + text
	}
	if e.Limit != "" {
		text += " (limit " + e.Limit + ")"
	}
	return fmt.Sprintf("%d %s", e.Status, text)
}

// Is makes the error one of the package's named ones, by its type. Only ErrUnknown goes by the status: whatever stands
// between the client and the service, a 5xx that does not say otherwise leaves the outcome open.
func (e *Error) Is(target error) bool {
	if target == ErrUnknown {
		return e.Status >= 500 && e.Committed != "no"
	}
	slug, ours := strings.CutPrefix(e.Type, contract.ProblemPrefix)
	return ours && target != nil && named(slug) == target
}

// named returns the package's error of a type of problem; nil if there is none.
func named(slug string) error {
	switch slug {
	case contract.TaskNotFound, contract.QueueNotFound, contract.LeaseNotFound:
		return ErrNotFound
	case contract.WrongState, contract.LeaseEnded, contract.QueueNotEmpty, contract.QueuesFull, contract.KeyForgotten:
		return ErrConflict
	case contract.ConditionFailed:
		return ErrPrecondition
	case contract.KeyReused:
		return ErrKeyReused
	case contract.Overloaded, contract.MemoryFull:
		return ErrOverloaded
	case contract.NoRoom:
		return ErrNoRoom
	}
	return nil
}

// transient tells whether the same call may do better a little later. A changing call carries a key, so that even
// one whose outcome is unknown may be sent again.
func (e *Error) transient() bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// callError is a call that failed after all its attempts.
type callError struct {
	method, path string
	attempts     int
	last         error
	ended        error // the context's; nil: the call did not run out of time
	unknown      bool  // an attempt may have done what it was to do
}

func (e *callError) Error() string {
	times := ""
	if e.attempts > 1 {
		times = fmt.Sprintf(" (%d attempts)", e.attempts)
	}
	why := ""
	if e.ended != nil && !errors.Is(e.last, e.ended) {
		why = ending(e.ended) + "; before that: "
	}
	return fmt.Sprintf("%s %s%s: %s%v", e.method, readable(e.path), times, why, e.last)
}

// readable is a path with its characters in place of their bytes in percent signs, as far as they can be shown.
func readable(path string) string {
	text, err := url.PathUnescape(path)
	if err != nil || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return path
	}
	return text
}

// ending says why a call was not tried any longer.
func ending(ended error) string {
	if errors.Is(ended, context.DeadlineExceeded) {
		return "its time is up"
	}
	return ended.Error()
}

func (e *callError) Unwrap() []error {
	if e.ended == nil {
		return []error{e.last}
	}
	return []error{e.last, e.ended}
}

// end takes the failure of an attempt that ran out of the call's time. What went wrong before says more.
func (e *callError) end(err, ended error) {
	before := e.last
	e.add(err)
	e.ended = ended
	if before != nil {
		e.last = before
	}
}

func (e *callError) Is(target error) bool { return target == ErrUnknown && e.unknown }

// add takes the failure of one more attempt. A refusal for good settles what attempts before it left open: all carry
// one key, so had one of them happened, this one would have been told its answer.
func (e *callError) add(err error) {
	e.attempts++
	e.last = err
	var refusal *Error
	var sent *sentError
	switch {
	case errors.As(err, &refusal) && refusal.Status < 500 && !refusal.transient():
		e.unknown = false
	case errors.As(err, &refusal):
		e.unknown = e.unknown || errors.Is(err, ErrUnknown) || errors.As(err, &sent)
	default:
		e.unknown = e.unknown || errors.Is(err, ErrUnknown) || !neverSent(err)
	}
}

// neverSent: there was nothing to send, or not even a connection was made.
func neverSent(err error) bool {
	var op *net.OpError
	var sent *sentError
	var unsent *unsentError
	var unsendable *unsendableError
	if errors.As(err, &sent) {
		return false
	}
	return errors.As(err, &unsendable) || errors.As(err, &unsent) || errors.As(err, &op) && op.Op == "dial"
}

// sentError: the call went out, if perhaps not in the try that err is of. When a kept connection is lost, net/http
// sends a call with an idempotency key again by itself, and tells only what came of that: "connection refused", say, or
// a refusal, which says nothing about the first time.
type sentError struct{ err error }

func (e *sentError) Error() string { return e.err.Error() }
func (e *sentError) Unwrap() error { return e.err }

// unsentError: the call was not sent, because of err.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// unsendableError: what the caller gave makes no request.
type unsendableError struct{ err error }

func (e *unsendableError) Error() string { return e.err.Error() }
func (e *unsendableError) Unwrap() error { return e.err }

// garbledError: the service answered, with something else than it should.
type garbledError struct{ err error }

func (e *garbledError) Error() string { return "cannot read the answer: " + e.err.Error() }
func (e *garbledError) Unwrap() error { return e.err }

// retryable: all failures of the network, torn answers among them, and the service's own "not now".
func retryable(err error) bool {
	var refusal *Error
	var unsendable *unsendableError
	var garbled *garbledError
	if errors.As(err, &refusal) {
		return refusal.transient()
	}
	return !errors.As(err, &unsendable) && !errors.As(err, &garbled)
}

// read reads a problem. Its limit may be a number or words, and its task may be of a newer service.
func (e *Error) read(r *contract.Reader) error {
	return r.Known("problem", func(f contract.Field) error {
		switch f {
		case contract.Type:
			return readText(r, f, &e.Type)
		case contract.Title:
			return readText(r, f, &e.Title)
		case contract.Status:
			return readNumber(r, f, &e.Status)
		case contract.Detail:
			return readText(r, f, &e.Detail)
		case contract.FieldName:
			return readText(r, f, &e.Field)
		case contract.Limit:
			return e.readLimit(r, f)
		case contract.Committed:
			return readText(r, f, &e.Committed)
		case contract.State:
			return readState(r, f, &e.State)
		case contract.Attempts:
			return readNumber(r, f, &e.Attempts)
		case contract.Task:
			return e.readTask(r)
		case contract.RetryAfter:
			var seconds uint32
			err := readNumber(r, f, &seconds)
			e.RetryAfter = time.Duration(seconds) * time.Second
			return err
		}
		return r.Skip()
	})
}

func (e *Error) readLimit(r *contract.Reader, f contract.Field) error {
	if r.Peek() == '"' {
		return readText(r, f, &e.Limit)
	}
	text, err := r.Value()
	e.Limit = string(text)
	return err
}

func (e *Error) readTask(r *contract.Reader) error {
	text, err := r.Value()
	task := new(Task)
	if err == nil && whole(text, task.read) == nil {
		e.Task = task
	} // else the refusal stands without it
	return err
}

const maxProblemBytes = 1 << 20 // more than a task of the largest payload takes

// readError makes an Error of an answer that is no success. A body that is no problem, of some proxy perhaps, becomes
// the detail.
func readError(resp *http.Response) *Error {
	body, readErr := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	e := new(Error)
	if readErr != nil || whole(body, e.read) != nil {
		e = &Error{Detail: strings.TrimSpace(string(body))}
	}
	e.Status = resp.StatusCode
	if after := parseRetryAfter(resp.Header.Get("Retry-After")); after > 0 {
		e.RetryAfter = after
	}
	return e
}

// parseRetryAfter reads whole seconds, the form that the service uses; anything else counts as not given.
func parseRetryAfter(value string) time.Duration {
	seconds, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
