package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
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

// The errors that callers most often check, with errors.Is.
var (
	ErrNotFound     = errors.New("no such task")
	ErrConflict     = errors.New("the task's state does not allow the call")
	ErrPrecondition = errors.New("the condition did not hold")
	ErrKeyReused    = errors.New("the idempotency key was used with another call")
	ErrOverloaded   = errors.New("too many calls")
	ErrNoRoom       = errors.New("the service's disks are nearly full")
	// ErrUnauthenticated means that the call had no key, or one that is wrong, expired or revoked.
	ErrUnauthenticated = errors.New("no valid key")
	ErrForbidden       = errors.New("the key does not allow the call")
	// ErrQuotaExceeded means that a quota of the namespace or the key is used up; Error.Quota and Error.Limit name it.
	ErrQuotaExceeded = errors.New("a quota is exceeded")
	ErrImpossible    = errors.New("the operation cannot be carried out as things are")
	// ErrUnknown means that the call may or may not have happened. A repeat with the same key finds out.
	ErrUnknown = errors.New("it is unknown whether the call happened")
)

// Error is the service's refusal of a call: a problem of RFC 9457.
type Error struct {
	Status     int           // the HTTP status, or the status of one line of a batch
	Type       string        // a stable name of the problem
	Title      string        // the same for every problem of this type
	Detail     string        // the fault of this call
	Field      string        // the faulty field; empty: none
	Limit      string        // the broken limit; empty: none
	Quota      string        // the exceeded quota, such as max_pending; empty: none
	Used       string        // how much of the quota is used
	Committed  string        // of 5xx: "no" or "unknown"
	State      State         // the task's state, for a conflict
	Attempts   int           // the task's attempts, for a conflict
	Task       *Task         // the existing task, for a failed IfAbsent
	Schedule   *Schedule     // the existing schedule, for a failed IfAbsent
	RetryAfter time.Duration // delay that the service asks for; 0: none
	Count      int           // tasks that a call about many certainly changed before it broke off
}

func (e *Error) Error() string {
	text := e.Detail
	switch {
	case text == "" && e.Title != "":
		text = e.Title
	case text == "":
		text = strings.ToLower(http.StatusText(e.Status))
	}
	switch {
	case e.Field == "" || strings.HasPrefix(text, e.Field):
	case strings.HasPrefix(text, "is ") || strings.HasPrefix(text, "has "):
		text = e.Field + " " + text
	default:
		text = e.Field + ": " + text
	}
	if e.Limit != "" {
		text += " (limit " + e.Limit + ")"
	}
	return fmt.Sprintf("%d %s", e.Status, text)
}

// Is reports whether the error is one of the package's named errors, by its type. ErrUnknown depends on the status
// instead: a 5xx leaves the outcome open unless it reports otherwise, since a proxy may have answered.
func (e *Error) Is(target error) bool {
	if target == ErrUnknown {
		return e.Status >= 500 && e.Committed != "no"
	}
	slug, ours := strings.CutPrefix(e.Type, contract.ProblemPrefix)
	return ours && target != nil && named(slug) == target
}

// named returns the package's error for a type of problem, or nil if there is none.
func named(slug string) error {
	switch slug {
	case contract.TaskNotFound, contract.ScheduleNotFound, contract.QueueNotFound, contract.LeaseNotFound,
		contract.NodeNotFound, contract.OperationNotFound, contract.TokenNotFound, contract.AccessKeyNotFound,
		contract.NamespaceNotFound, contract.CalendarNotFound:
		return ErrNotFound
	case contract.WrongState, contract.LeaseEnded, contract.QueueNotEmpty, contract.CalendarInUse, contract.QueuesFull,
		contract.KeyForgotten:
		return ErrConflict
	case contract.EventsGone:
		return ErrGone
	case contract.Impossible:
		return ErrImpossible
	case contract.ConditionFailed:
		return ErrPrecondition
	case contract.KeyReused:
		return ErrKeyReused
	case contract.Overloaded, contract.MemoryFull:
		return ErrOverloaded
	case contract.NoRoom:
		return ErrNoRoom
	case contract.Unauthenticated:
		return ErrUnauthenticated
	case contract.Forbidden:
		return ErrForbidden
	case contract.QuotaExceeded:
		return ErrQuotaExceeded
	}
	return nil
}

// transient reports whether the same call may succeed a little later. A changing call carries a key, so that it may be
// repeated even if its outcome is unknown. A quota without RetryAfter is one that time does not free.
func (e *Error) transient() bool {
	switch e.Status {
	case http.StatusTooManyRequests:
		return e.RetryAfter > 0 || !errors.Is(e, ErrQuotaExceeded)
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// callError is the error of a call that failed after all its attempts.
type callError struct {
	method   string // of HTTP, or the verb of a line in a batch
	about    string // the path of the request, or the task's id or the receipt in a line of a batch
	attempts int
	last     error
	ended    error // the context's error; nil: the time was not up
	unknown  bool  // an attempt may have changed the task
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
	return fmt.Sprintf("%s %s%s: %s%s", e.method, readable(e.about), times, why, reason(e.last))
}

// readable returns a path with its percent-encoding decoded, or the path itself if the result is not printable. A name
// that is empty, has a space or is not printable is quoted.
func readable(about string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	if !strings.HasPrefix(about, "/") {
		if about == "" || strings.ContainsFunc(about, func(r rune) bool { return r == ' ' || hidden(r) }) {
			return strconv.Quote(about)
		}
		return about
	}
	text, err := url.PathUnescape(about)
	if err != nil || strings.ContainsFunc(text, hidden) {
		return about
	}
	return text
}

// reason returns the text of a failed attempt. The method and the path in an error of net/http are left out, since the
// text of the call has them, and so is the node's address if the network's error has it.
func reason(err error) string {
	var failed *url.Error
	if !errors.As(err, &failed) {
		return err.Error()
	}
	var op *net.OpError
	if errors.As(failed.Err, &op) && op.Addr != nil {
		return failed.Err.Error()
	}
	node, malformed := url.Parse(failed.URL)
	if malformed != nil {
		return err.Error()
	}
	return node.Scheme + "://" + node.Host + ": " + failed.Err.Error()
}

// ending words the reason why a call was not tried any longer.
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

// repeated reports whether err is the failure of a call after more than one attempt.
func repeated(err error) bool {
	var failed *callError
	return errors.As(err, &failed) && failed.attempts > 1
}

// end adds the failure of an attempt that ran out of the call's time. An earlier failure is kept as the last one, since
// it is more informative.
func (e *callError) end(err, ended error) {
	before := e.last
	e.add(err)
	e.ended = ended
	if before != nil {
		e.last = before
	}
}

func (e *callError) Is(target error) bool { return target == ErrUnknown && e.unknown }

// add adds the failure of one more attempt. A final refusal settles whether earlier attempts happened: all attempts
// carry one key, so if one had happened, this attempt would have got its answer.
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

// neverSent reports whether the call was certainly not sent: it could not be encoded, or no connection was made.
func neverSent(err error) bool {
	var op *net.OpError
	var sent *sentError
	var unsent *unsentError
	var unsendable *unsendableError
	if errors.As(err, &sent) {
		return false
	}
	return errors.As(err, &unsendable) || errors.As(err, &unsent) || errors.As(err, &op) && op.Op == "dial" ||
		noHandshake(err)
}

// noHandshake reports whether the node's certificate was refused, or the node speaks no TLS. Only another node may do
// better.
func noHandshake(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch)
}

// sentError marks that the call was sent, perhaps in an earlier try than that of err. When a kept connection is lost,
// net/http repeats a call with an idempotency key by itself. It returns only the last try's error, like "connection
// refused" or a refusal, which tells nothing about the first try.
type sentError struct{ err error }

func (e *sentError) Error() string { return e.err.Error() }
func (e *sentError) Unwrap() error { return e.err }

// unsentError marks that the call was not sent, because of err.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// unsendableError marks that the caller's values cannot be encoded as a request.
type unsendableError struct{ err error }

func (e *unsendableError) Error() string { return e.err.Error() }
func (e *unsendableError) Unwrap() error { return e.err }

// garbledError marks an answer that the client cannot read.
type garbledError struct{ err error }

func (e *garbledError) Error() string { return "cannot read the answer: " + e.err.Error() }
func (e *garbledError) Unwrap() error { return e.err }

// retryable reports whether a call may be repeated after err: after every failure of the network, broken answers
// included, and after transient refusals.
func retryable(err error) bool {
	var refusal *Error
	var unsendable *unsendableError
	var garbled *garbledError
	if errors.As(err, &refusal) {
		return refusal.transient()
	}
	return !errors.As(err, &unsendable) && !errors.As(err, &garbled)
}

// read reads a problem. Its limit may be a number or words, and its task may come from a newer service.
func (e *Error) read(r *contract.Reader) error {
	var seconds uint32
	err := readObject(r, "problem", []member{
		{contract.Type, &e.Type, 0}, {contract.Title, &e.Title, 0}, {contract.Status, &e.Status, 0},
		{contract.Detail, &e.Detail, 0}, {contract.FieldName, &e.Field, 0}, {contract.Limit, (*limitText)(&e.Limit), 0},
		{contract.Committed, &e.Committed, 0}, {contract.State, &e.State, 0}, {contract.Attempts, &e.Attempts, 0},
		{contract.Task, &e.Task, 0}, {contract.RetryAfter, &seconds, 0}, {contract.Quota, &e.Quota, 0},
		{contract.Used, (*limitText)(&e.Used), 0}, {contract.Count, &e.Count, 0}, {contract.Schedule, &e.Schedule, 0},
	})
	e.RetryAfter = time.Duration(seconds) * time.Second
	return err
}

// limitText is the limit of a problem, or how much of it is used: a string or a number in the answer.
type limitText string

func (l *limitText) read(r *contract.Reader, name string) error {
	if r.Peek() == '"' {
		return readText(r, name, l)
	}
	text, err := r.Value()
	*l = limitText(text)
	return err
}

// readProblemTask reads the task of a problem. It leaves out a task that it cannot read.
func readProblemTask(r *contract.Reader, out **Task) error {
	text, err := r.Value()
	task := new(Task)
	if err == nil && whole(text, task.read) == nil {
		*out = task
	}
	return err
}

// readProblemSchedule reads a problem's schedule. It leaves out a schedule that it cannot read.
func readProblemSchedule(r *contract.Reader, out **Schedule) error {
	text, err := r.Value()
	schedule := new(Schedule)
	if err == nil && json.Unmarshal(text, schedule) == nil {
		*out = schedule
	}
	return err
}

const maxProblemBytes = 1 << 20 // more than the largest task

// readError returns the Error of an answer with a status other than 2xx. A body that is no problem, of a proxy perhaps,
// becomes the detail.
func readError(resp *http.Response) *Error {
	if detail := redirected(resp); detail != "" && resp.StatusCode < 400 {
		return &Error{Status: resp.StatusCode, Detail: detail}
	}
	body, readErr := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	if resp.Request != nil {
		body = redact(body, resp.Request.Header.Get("Authorization"))
	}
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

// parseRetryAfter reads whole seconds, the form that the service uses. Any other form counts as absent.
func parseRetryAfter(value string) time.Duration {
	seconds, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
