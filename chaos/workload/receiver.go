package workload

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/deploy/receiver"
)

// Receiver takes what is delivered, records it, and only then answers, some of it so slowly that a fault finds attempts
// in flight.
type Receiver struct {
	URL string

	rec    *history.Recorder
	server *http.Server
	ended  chan error
}

// Loopback is the host on which a receiver listens that the nodes reach without a network of their own.
const Loopback = "127.0.0.1"

// Listen starts a receiver on a free port of a host address of this machine.
func Listen(ctx context.Context, rec *history.Recorder, host string) (*Receiver, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	r := &Receiver{URL: "http://" + l.Addr().String() + "/hook", rec: rec, ended: make(chan error, 1)}
	r.server = &http.Server{Handler: receiver.Handler(r.take), ReadHeaderTimeout: 10 * time.Second}
	go func() { r.ended <- r.server.Serve(l) }()
	return r, nil
}

func (r *Receiver) take(a receiver.Arrival) int {
	p := decode(a.Body)
	hold := time.Duration(p.Hold) * time.Millisecond
	status := http.StatusOK
	if a.Attempt <= p.Fail {
		status = http.StatusInternalServerError
	}
	r.rec.Arrive(history.Arrival{
		At: r.rec.Instant(a.At), ID: a.TaskID, WebhookID: a.WebhookID, Attempt: a.Attempt, Fence: a.Fence,
		Due: history.At(a.Due), Body: fingerprint(a.Body), Wrote: p.Op, Answer: status, Held: hold,
	})
	return r.answerAfter(hold, status)
}

func (r *Receiver) answerAfter(hold time.Duration, status int) int {
	if hold > 0 {
		timer := time.NewTimer(hold)
		defer timer.Stop()
		<-timer.C
	}
	return status
}

// Close stops receiving.
func (r *Receiver) Close() error {
	err := r.server.Close()
	if ended := <-r.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
