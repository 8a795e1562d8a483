package workload

import (
	"context"
	"errors"
	"io"
	"net"
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
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: receiver(got), ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	stop = func() error {
		err := server.Close() // open requests need no answer any more
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
	return "http://" + listener.Addr().String() + "/", stop, nil
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
