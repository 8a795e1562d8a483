package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The reasons for a refusal. Errors of Verify wrap one of them.
var (
	ErrMalformed = errors.New("the request is not a delivery")
	ErrSignature = errors.New("no signature of the request is right")
	ErrTimestamp = errors.New("the request was not sent just now")
	// ErrStale means that a newer attempt of the task, with a higher fence, has reached the receiver before.
	ErrStale = errors.New("the sender has been superseded")
)

// Config configures a Verifier. Secrets is required; the other fields have defaults.
type Config struct {
	Secrets   []string         // the queue's, each "whsec_" and base64; two during a change of the secret
	Tolerance time.Duration    // largest difference of webhook-timestamp from the clock; 0: 5 minutes
	Fences    Fences           // nil: NewMemoryFences(100_000), for this process alone
	MaxBody   int64            // the largest body that Handler accepts, in bytes; 0: 16 MiB
	Now       func() time.Time // nil: time.Now
}

const (
	defaultTolerance = 5 * time.Minute
	defaultFences    = 100_000
	defaultMaxBody   = 16 << 20
)

// Verifier verifies deliveries. Its methods are safe for concurrent use.
type Verifier struct {
	cfg     Config
	secrets [][]byte
}

// New returns a verifier. Its error never quotes a secret.
func New(cfg Config) (*Verifier, error) {
	v := &Verifier{cfg: cfg}
	for i, secret := range cfg.Secrets {
		key, err := keyOf(secret)
		if err != nil {
			return nil, fmt.Errorf("webhook: Config.Secrets[%d] %w", i, err)
		}
		v.secrets = append(v.secrets, key)
	}
	switch {
	case len(v.secrets) == 0:
		return nil, errors.New("webhook: Config.Secrets is empty")
	case cfg.Tolerance < 0:
		return nil, errors.New("webhook: Config.Tolerance is negative")
	case cfg.MaxBody < 0:
		return nil, errors.New("webhook: Config.MaxBody is negative")
	}
	if v.cfg.Tolerance == 0 {
		v.cfg.Tolerance = defaultTolerance
	}
	if v.cfg.Fences == nil {
		v.cfg.Fences = NewMemoryFences(defaultFences)
	}
	if v.cfg.MaxBody == 0 {
		v.cfg.MaxBody = defaultMaxBody
	}
	if v.cfg.Now == nil {
		v.cfg.Now = time.Now
	}
	return v, nil
}

const secretPrefix = "whsec_"

func keyOf(secret string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok {
		return nil, errors.New("does not begin with " + secretPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) == 0 {
		return nil, errors.New("is not base64 after " + secretPrefix)
	}
	return key, nil
}

// Delivery is a verified request.
type Delivery struct {
	ID     string    // webhook-id: the same for all attempts of a task, and for batches of the same events
	SentAt time.Time // webhook-timestamp, whole seconds
	Batch  bool      // several tasks in one request; each event may have its own result in the answer
	Events []Event   // one event if Batch is false
	Body   []byte
}

// Event is one task in a delivery.
type Event struct {
	ID      string // the task's webhook-id
	Task    string // the task's own id
	Source  string // "/v1/queues/" and the queue, after "/v1/namespaces/" and the namespace if it is not the default one
	Attempt int    // 1, 2, …
	Fence   uint64
	Due     time.Time
	// Stale means that the sender of this event of a batch has been superseded, so that the event must not be carried out.
	// A stale request of one task is refused instead.
	Stale bool
}

// Verify checks a request by its header and its whole body. The error wraps ErrMalformed, ErrSignature, ErrTimestamp or
// ErrStale, or is an error of Config.Fences. In the last case the request cannot be judged now, and should be answered
// with 503.
func (v *Verifier) Verify(ctx context.Context, header http.Header, body []byte) (*Delivery, error) {
	d := &Delivery{ID: header.Get("webhook-id"), Body: body}
	stamp := header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	switch {
	case d.ID == "" || strings.Contains(d.ID, "."): // a dot would make the signed text ambiguous
		return nil, fmt.Errorf("%w: webhook-id is absent, or has a dot", ErrMalformed)
	case err != nil || seconds < 0 || strconv.FormatInt(seconds, 10) != stamp:
		return nil, fmt.Errorf("%w: webhook-timestamp is not a number of seconds", ErrMalformed)
	case !v.isSigned(d.ID, stamp, body, header.Values("webhook-signature")):
		return nil, ErrSignature
	}
	d.SentAt = time.Unix(seconds, 0).UTC()
	if off := v.cfg.Now().Sub(d.SentAt); off.Abs() > v.cfg.Tolerance {
		return nil, fmt.Errorf("%w: webhook-timestamp is %v from this clock", ErrTimestamp, off.Round(time.Second))
	}
	if err := d.read(header); err != nil {
		return nil, err
	}
	if err := v.raise(ctx, d); err != nil {
		return nil, err
	}
	return d, nil
}

// raise compares the fence of each event with the highest one seen for its task, and marks stale events. A stale
// delivery of one task is an error.
func (v *Verifier) raise(ctx context.Context, d *Delivery) error {
	for i := range d.Events {
		e := &d.Events[i]
		current, err := v.cfg.Fences.Raise(ctx, e.Task, e.Fence)
		if err != nil {
			return fmt.Errorf("fence of task %s: %w", e.Task, err)
		}
		e.Stale = !current
	}
	if !d.Batch && d.Events[0].Stale {
		return fmt.Errorf("%w: fence %d of task %s", ErrStale, d.Events[0].Fence, d.Events[0].Task)
	}
	return nil
}
