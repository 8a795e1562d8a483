package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
)

// Config sets the addresses and the limits of a Client. Only Addrs is required.
type Config struct {
	// Addrs are the base URLs of one or more nodes of one cluster, such as http://127.0.0.1:8400, without a user.
	Addrs []string
	// HTTPClient carries the calls; nil: a client with its own connection pool and the usual settings.
	HTTPClient *http.Client

	// Key is an API key, or a token of the issuer that the nodes trust. Calls carry it as a bearer token, but never to a
	// host to which another one redirects. Empty: calls carry none.
	Key Secret
	// KeyFile is a file with the key, in place of Key. It is read again once it has changed.
	KeyFile string
	// TLS is for calls to https:// addresses; nil: the usual settings. LoadTLS makes it of files. It needs a nil
	// HTTPClient.
	TLS *tls.Config
	// Namespace is the namespace of the calls about tasks, schedules and queues; empty: the key's own. That is "default"
	// without keys, and for keys of several namespaces.
	Namespace string

	// Timeout bounds a call with all its repeats, or each chunk of a batch. Default 30 s. A context may end a call sooner.
	Timeout time.Duration
	// AttemptTimeout bounds the node's silence during one request, so that a node that hangs costs no more. Default 5 s.
	AttemptTimeout time.Duration
	// MaxAttempts bounds the requests of one call; 0: as many as fit into Timeout.
	MaxAttempts int

	// FixedAddrs limits calls to Addrs. It suits a load balancer's address, or calls to one certain node.
	FixedAddrs bool
	// SingleCalls makes every call a request of its own, with the caller's context, instead of a line in a shared request.
	// It suits programs that call rarely, or an HTTPClient that follows each call by its context. The client then learns
	// nothing about leaders.
	SingleCalls bool
}

// FromEnv returns the Config of the environment, as the clients of other languages and the command line have it:
// BELFRY_ADDR has the addresses, with commas between them, and is http://127.0.0.1:8400 unless set. BELFRY_KEY or
// BELFRY_KEY_FILE has the key, and BELFRY_NAMESPACE the namespace.
func FromEnv() Config {
	addrs := os.Getenv("BELFRY_ADDR")
	if addrs == "" {
		addrs = "http://127.0.0.1:8400"
	}
	return Config{
		Addrs: strings.Split(addrs, ","), Namespace: os.Getenv("BELFRY_NAMESPACE"),
		Key: NewSecret(os.Getenv("BELFRY_KEY")), KeyFile: os.Getenv("BELFRY_KEY_FILE"),
	}
}

// namespaceForm is the form of a namespace's name.
var namespaceForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

const (
	defaultTimeout        = 30 * time.Second
	defaultAttemptTimeout = 5 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.AttemptTimeout == 0 {
		c.AttemptTimeout = defaultAttemptTimeout
	}
	if c.HTTPClient == nil {
		c.HTTPClient = newHTTPClient(c.TLS)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case len(c.Addrs) == 0:
		return errors.New("client: Config.Addrs is empty")
	case c.Timeout < 0 || c.AttemptTimeout < 0:
		return errors.New("client: a timeout is negative")
	case c.MaxAttempts < 0:
		return errors.New("client: Config.MaxAttempts is negative")
	case c.HTTPClient != nil && c.TLS != nil:
		return errTwoTransports
	case c.Key.Text() != "" && c.KeyFile != "":
		return errors.New("client: Config.Key and Config.KeyFile exclude each other")
	case c.Namespace != "" && !namespaceForm.MatchString(c.Namespace):
		return fmt.Errorf("client: Config.Namespace %q is not 1 to 63 of a-z, 0-9 and -, with no - at either end",
			c.Namespace)
	}
	return nil
}

// parseAddrs returns the base URLs of addresses, which may lack http:// or end with a slash.
func parseAddrs(addrs []string) ([]string, error) {
	bases := make([]string, 0, len(addrs))
	for _, addr := range addrs {
		if !strings.Contains(addr, "://") {
			addr = "http://" + addr
		}
		u, err := url.Parse(addr)
		if err != nil {
			var refused *url.Error // it would show the whole address, perhaps with a password
			if errors.As(err, &refused) {
				err = refused.Err
			}
			return nil, fmt.Errorf("client: an address is none: %w", err)
		}
		if u.User != nil {
			return nil, fmt.Errorf("client: address %q has a user or password: calls do not carry them", u.Redacted())
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("client: address %q is not http://host:port", addr)
		}
		bases = append(bases, strings.TrimRight(u.Scheme+"://"+u.Host+u.Path, "/"))
	}
	return bases, nil
}
