package workload

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
)

// receive starts a receiver that answers at once at any path but badPath, and makes the service push to it from now on.
// stop closes the receiver.
func (r *run) receive(ctx context.Context, got got) (stop func() error, err error) {
	pusher, err := able[subject.Pusher](r.service, "send webhooks")
	if err != nil {
		return nil, err
	}
	url, stop, err := listen(ctx, got)
	if err != nil {
		return nil, err
	}
	if err := pusher.PushTo(url); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// listen starts a receiver on loopback. stop closes it.
func listen(ctx context.Context, got got) (url string, stop func() error, err error) {
	return subject.Serve(ctx, receiver(got))
}

func receiver(got got) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/"+badPath {
			answerBadly(w, r)
			return
		}
		got(r.Header.Get("Ce-Subject"), time.Now())
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
}

// arrivals starts consumers, or a receiver of webhooks. stop ends them.
func (r *run) arrivals(ctx context.Context, push bool, got got) (stop func() error, err error) {
	if push {
		return r.receive(ctx, got)
	}
	return r.consume(ctx, r.sizes.Consumers, got)
}
