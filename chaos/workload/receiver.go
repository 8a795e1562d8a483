package workload

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/deploy/receiver"
)

// Receiver takes deliveries, records them, and only then answers. Some answers are so slow that a fault finds attempts
// in flight.
type Receiver struct {
	URL string

	server *http.Server
	ended  chan error
	mood   atomic.Pointer[Mood]
	into   atomic.Pointer[ledger]

	mu        sync.Mutex // guards strangers
	strangers []string   // ids of deliveries that the ledger does not take
}

// ledger is a recorder of arrivals, for ids with a prefix.
type ledger struct {
	rec    *history.Recorder
	prefix string
}

// Listen starts a receiver on a free port of host, an address of this machine.
func Listen(ctx context.Context, rec *history.Recorder, host string) (*Receiver, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	return Serve(rec, l), nil
}

// root is the path of a receiver's URL.
const root = "/hook"

// below returns the part of a request's path below the receiver's URL.
func below(path string) string { return strings.TrimPrefix(path, root) }

// Serve starts a receiver of the connections to a listener, which it closes in the end.
func Serve(rec *history.Recorder, l net.Listener) *Receiver {
	r := &Receiver{URL: "http://" + l.Addr().String() + root, ended: make(chan error, 1)}
	r.Record(rec, "")
	r.Behave(Mood{})
	r.server = &http.Server{Handler: r.moody(receiver.RequestHandler(r.take)), ReadHeaderTimeout: 10 * time.Second}
	go func() { r.ended <- r.server.Serve(l) }()
	return r
}

// Record turns to another recorder, for ids that begin with prefix. From now on all other ids are strangers: their
// tasks had been settled when the former recorder was closed, so none should arrive.
func (r *Receiver) Record(rec *history.Recorder, prefix string) { r.into.Store(&ledger{rec, prefix}) }

// Strangers returns the ids of the strangers that have arrived.
func (r *Receiver) Strangers() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.strangers...)
}

// take records all attempts of a request and returns their answers after the longest hold among them. It answers
// strangers with 200 and does not record them.
func (r *Receiver) take(came []receiver.Arrival) []int {
	into := r.into.Load()
	arrivals, statuses := make([]history.Arrival, 0, len(came)), make([]int, len(came))
	var hold time.Duration
	for i, a := range came {
		statuses[i] = http.StatusOK
		if !strings.HasPrefix(a.TaskID, into.prefix) {
			r.stranger(a.TaskID)
			continue
		}
		p, mood := load.Decode(a.Body), r.moodFor(below(a.Path))
		statuses[i] = answerTo(p, a.Attempt, mood)
		hold = max(hold, p.HoldFor()+mood.Slow)
		arrivals = append(arrivals, history.Arrival{
			At: into.rec.Instant(a.At), ID: a.TaskID, Namespace: namespaceIn(a.Source), WebhookID: a.WebhookID,
			Attempt: a.Attempt, Fence: a.Fence,
			Due: history.At(a.Due), Scheduled: instantOrZero(a.Scheduled), Group: a.Header.Get("belfry-group"),
			Path: below(a.Path),
			Body: history.Fingerprint(a.Body), Wrote: p.Op, Answer: max(statuses[i], 0),
		})
	}
	for i := range arrivals {
		arrivals[i].Held = hold
	}
	into.rec.Arrive(arrivals...)
	answerAfter(hold)
	return statuses
}

// namespaceIn returns the namespace in the source of an event, /v1/namespaces/{ns}/queues/{queue}. It returns "" for
// the default namespace, whose sources do not name it.
func namespaceIn(source string) string {
	rest, named := strings.CutPrefix(source, "/v1/namespaces/")
	if !named {
		return ""
	}
	namespace, _, _ := strings.Cut(rest, "/")
	return namespace
}

func (r *Receiver) stranger(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strangers = append(r.strangers, id)
}

func answerTo(p load.Payload, attempt int, m Mood) int {
	switch {
	case m.Answer != 0:
		return m.Answer
	case p.Gone:
		return http.StatusGone
	case attempt <= p.Fail:
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

func answerAfter(hold time.Duration) {
	if hold > 0 {
		timer := time.NewTimer(hold)
		defer timer.Stop()
		<-timer.C
	}
}

// Close stops receiving.
func (r *Receiver) Close() error {
	err := r.server.Close()
	if ended := <-r.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// Mood is how a receiver treats requests, beside the orders in payloads. The zero value is friendly.
type Mood struct {
	Path       string        // of the requests, below the receiver's URL; empty: all are treated so
	Slow       time.Duration // wait before each answer
	Answer     int           // answer in place of any other: a status, or receiver.Reset; 0: none
	RetryAfter time.Duration // Retry-After of each answer, in whole seconds; 0: none
	Reply      int           // bytes in each answer's body
}

// Behave puts the receiver into a mood, for requests from now on.
func (r *Receiver) Behave(m Mood) { r.mood.Store(&m) }

// moodFor returns how the receiver treats requests of a path below its URL.
func (r *Receiver) moodFor(path string) Mood {
	if m := r.mood.Load(); m.Path == "" || m.Path == path {
		return *m
	}
	return Mood{}
}

// moody adds the Retry-After and the body of the mood to the answers of next.
func (r *Receiver) moody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		m := r.moodFor(below(req.URL.Path))
		if m.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(m.RetryAfter/time.Second)))
		}
		next.ServeHTTP(w, req)
		for left := m.Reply; left > 0; left -= len(filler) {
			if _, err := w.Write(filler); err != nil {
				return // the sender has read enough, or the connection was taken away
			}
		}
	})
}

var filler = bytes.Repeat([]byte("more than anybody asked for\n"), 1<<10)
