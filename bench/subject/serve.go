package subject

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Serve serves a handler on loopback. stop closes the server and its connections.
func Serve(ctx context.Context, handler http.Handler) (url string, stop func() error, err error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
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
