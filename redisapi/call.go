package redisapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/internal/inside"
)

// The times of calls. The API answers within 10 s, and an answer tells whether the call was carried out. So a call is
// not cut before.
const (
	repeatTime = 5 * time.Second  // after which a call is not repeated any more
	answerTime = 15 * time.Second // for the answer to one request
)

// newClient returns a client whose calls carry a key, which may be empty, and come from a connection.
func (c *conn) newClient(key string) (*client.Client, error) {
	return client.New(client.Config{
		Addrs: []string{"http://localhost"}, FixedAddrs: true, SingleCalls: true, Timeout: repeatTime,
		AttemptTimeout: 2 * answerTime, Key: client.NewSecret(key),
		HTTPClient: &http.Client{Transport: &patient{
			c.server.ctx, inside.Transport{Handler: c.server.cfg.API, From: c.from, TLS: c.state},
		}},
	})
}

// patient makes requests whose context does not cut their handler, since the outcome would be unknown.
type patient struct {
	ctx context.Context // ends all calls
	inside.Transport
}

// RoundTrip returns when the handler does.
func (p *patient) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(p.ctx, answerTime)
	defer cancel()
	return p.Transport.RoundTrip(req.WithContext(ctx))
}

// The refusals that clients know by their texts.
var (
	errNoAuth    error = verbatim("NOAUTH Authentication required.")
	errWrongPass error = verbatim("WRONGPASS invalid username-password pair or user is disabled.")
)

// verbatim is an error with the very text of Redis.
type verbatim string

func (v verbatim) Error() string { return string(v) }

// refusal words the error of a call as Redis would, by its code. TRYAGAIN tells that nothing has happened, so that a
// client may repeat the command.
func refusal(err error) error {
	var problem *client.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrUnknown):
		return fmt.Errorf("ERR it is unknown whether the command was carried out: %w", err)
	case !errors.As(err, &problem):
		return fmt.Errorf("TRYAGAIN %w", err)
	case errors.Is(err, client.ErrUnauthenticated):
		return errNoAuth
	case errors.Is(err, client.ErrForbidden):
		return fmt.Errorf("NOPERM %s", detail(problem))
	case errors.Is(err, client.ErrNoRoom), problem.Type == contract.ProblemPrefix+contract.MemoryFull:
		return fmt.Errorf("OOM %s", detail(problem))
	case errors.Is(err, client.ErrQuotaExceeded):
		return fmt.Errorf("ERR a quota is used up: %s", detail(problem))
	case problem.Status == http.StatusTooManyRequests, problem.Status >= 500:
		return fmt.Errorf("TRYAGAIN %s", detail(problem))
	}
	return fmt.Errorf("ERR %s", detail(problem))
}

// detail returns the text of a problem without its status.
func detail(p *client.Error) string {
	_, text, _ := strings.Cut(p.Error(), " ")
	return text
}

// clip returns the beginning of a text of a caller, for an error.
func clip(text []byte) string { return contract.Clip(string(text)) }
