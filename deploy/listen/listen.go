package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/deploy/receiver"
)

// Config sets the address and the behaviour of the receiver.
type Config struct {
	Addr   string        // host:port; an empty host means all addresses of the machine
	Fail   int           // number of first attempts of each occurrence that get a 500
	Hang   bool          // never answer failing attempts, or any attempt if Fail is 0
	Reset  bool          // reset the connection in the cases of Hang
	Delay  time.Duration // before each answer
	Status int           // of successful answers; default 200
	JSON   bool          // print one JSON object a line instead of text
	Out    io.Writer

	// SecretFile holds the queue's secrets, one a line. Blank lines and lines that begin with # are skipped. An attempt
	// that no secret has signed gets a 401. Empty: signatures are not checked.
	SecretFile string
}

func (c Config) validate() error {
	switch {
	case c.Fail < 0:
		return fmt.Errorf("%d attempts cannot fail", c.Fail)
	case c.Delay < 0:
		return fmt.Errorf("the delay is negative: %v", c.Delay)
	case c.Hang && c.Reset:
		return errors.New("it can hang or reset, not both")
	case c.Status < 200 || c.Status > 599:
		return fmt.Errorf("status %d: an answer has one of 200 to 599", c.Status)
	}
	return nil
}

// Run listens until the context ends.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Status == 0 {
		cfg.Status = http.StatusOK
	}
	if err := cfg.validate(); err != nil {
		return err
	}
	secrets, err := readSecrets(cfg.SecretFile)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", cfg.Addr)
	if err != nil {
		return err
	}
	p := &printer{cfg: cfg, secrets: secrets}
	p.say("listening on http://%s\n", listener.Addr())
	server := &http.Server{
		Handler:           receiver.RequestHandler(func(a []receiver.Arrival) []int { return p.take(ctx, a) }),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
	}
	return serve(ctx, server, listener)
}

const closeGrace = time.Second

func serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type printer struct {
	cfg     Config
	secrets [][]byte
	mu      sync.Mutex // keeps a request's lines together
}

// take prints a request's arrivals and returns the statuses of their answers.
func (p *printer) take(ctx context.Context, arrivals []receiver.Arrival) []int {
	statuses, signatures := make([]int, len(arrivals)), make([]string, len(arrivals))
	for i, a := range arrivals {
		statuses[i], signatures[i] = p.judge(a)
	}
	for _, none := range []int{receiver.Hang, receiver.Reset} { // a request is answered as a whole or not at all
		if slices.Contains(statuses, none) {
			statuses = slices.Repeat([]int{none}, len(arrivals))
		}
	}
	p.show(arrivals, statuses, signatures)
	if p.cfg.Delay > 0 {
		delay := time.NewTimer(p.cfg.Delay)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-ctx.Done():
		}
	}
	return statuses
}

// judge returns the status of an arrival's answer and the result of checking its signature; "" if there are no secrets.
func (p *printer) judge(a receiver.Arrival) (status int, signature string) {
	if len(p.secrets) > 0 {
		if err := receiver.Verify(a, p.secrets...); err != nil {
			return http.StatusUnauthorized, err.Error()
		}
		signature = "good"
	}
	fails := a.Attempt <= p.cfg.Fail
	switch {
	case p.cfg.Hang && (fails || p.cfg.Fail == 0):
		return receiver.Hang, signature
	case p.cfg.Reset && (fails || p.cfg.Fail == 0):
		return receiver.Reset, signature
	case fails && p.cfg.Fail > 0:
		return http.StatusInternalServerError, signature
	}
	return p.cfg.Status, signature
}
