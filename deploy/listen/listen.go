package listen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/deploy/receiver"
)

// Config says where to listen and how to behave.
type Config struct {
	Addr   string        // host:port; an empty host is every address of the machine
	Fail   int           // the first so many attempts of each occurrence are answered with 500
	Delay  time.Duration // before each answer
	Status int           // of the answers that do not fail; default 200
	JSON   bool          // print an object a line instead of text
	Out    io.Writer
}

func (c Config) validate() error {
	switch {
	case c.Fail < 0:
		return fmt.Errorf("%d attempts cannot fail", c.Fail)
	case c.Delay < 0:
		return fmt.Errorf("the delay is negative: %v", c.Delay)
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
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", cfg.Addr)
	if err != nil {
		return err
	}
	p := &printer{cfg: cfg}
	p.say("listening on http://%s\n", listener.Addr())
	server := &http.Server{
		Handler:           receiver.Handler(func(a receiver.Arrival) int { return p.take(ctx, a) }),
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
	cfg Config
	mu  sync.Mutex // keeps an arrival's lines together
}

// take prints an arrival and returns the status of its answer.
func (p *printer) take(ctx context.Context, a receiver.Arrival) int {
	status := p.cfg.Status
	if a.Attempt <= p.cfg.Fail && p.cfg.Fail > 0 {
		status = http.StatusInternalServerError
	}
	p.show(a, status)
	if p.cfg.Delay > 0 {
		delay := time.NewTimer(p.cfg.Delay)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-ctx.Done():
		}
	}
	return status
}

func (p *printer) show(a receiver.Arrival, status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cfg.JSON {
		p.showJSON(a, status)
		return
	}
	_, _ = io.WriteString(p.cfg.Out, text(a, status)) // a terminal that is gone cannot be told so
}

// say is for people; in JSON there is nothing but arrivals.
func (p *printer) say(format string, args ...any) {
	if !p.cfg.JSON {
		_, _ = fmt.Fprintf(p.cfg.Out, format, args...)
	}
}

func (p *printer) showJSON(a receiver.Arrival, status int) {
	headers := make(map[string]string, len(a.Header))
	for name, values := range a.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	line := struct {
		At         time.Time         `json:"at"`
		ID         string            `json:"id"`
		WebhookID  string            `json:"webhook_id"`
		Attempt    int               `json:"attempt"`
		Fence      uint64            `json:"fence"`
		Due        time.Time         `json:"due,omitzero"`
		LatenessMs float64           `json:"lateness_ms"`
		Status     int               `json:"status"`
		Headers    map[string]string `json:"headers"`
		Body       string            `json:"body"`
	}{
		a.At.UTC(), a.TaskID, a.WebhookID, a.Attempt, a.Fence, a.Due,
		float64(a.Lateness().Microseconds()) / 1000, status, headers, string(a.Body),
	}
	enc := json.NewEncoder(p.cfg.Out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(line) // as above
}

func text(a receiver.Arrival, status int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  attempt %d  %s  answered %d\n",
		a.At.Format("15:04:05.000"), printable(a.TaskID), a.Attempt, timing(a), status)
	names := make([]string, 0, len(a.Header))
	for name := range a.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "    %s: %s\n", strings.ToLower(name), printable(strings.Join(a.Header[name], ", ")))
	}
	fmt.Fprintf(&b, "    %s\n\n", body(a.Body))
	return b.String()
}

func timing(a receiver.Arrival) string {
	late := a.Lateness()
	switch {
	case a.Due.IsZero():
		return "no due time"
	case late < 0:
		return fmt.Sprintf("%.1f ms EARLY", -late.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f ms late", late.Seconds()*1000)
}

const maxShown = 1000

func body(data []byte) string {
	if len(data) > maxShown {
		return fmt.Sprintf("%s… (%d bytes)", printable(string(data[:maxShown])), len(data))
	}
	return printable(string(data))
}

// printable quotes what would not leave the terminal as it was: a receiver prints what strangers send.
func printable(s string) string {
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}
