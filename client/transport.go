package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

// newRequest returns a request with the client's key.
func (c *conn) newRequest(ctx context.Context, method, url string, body io.Reader) (*http.Request, error) {
	key, err := c.credential.authorization()
	if err != nil {
		return nil, &unsendableError{err}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, &unsendableError{err}
	}
	if key != "" {
		req.Header["Authorization"] = []string{key}
	}
	return req, nil
}

// newHTTPClient returns a client that keeps as many idle connections to a node as a busy program uses. The standard two
// per host would close and reopen a connection for nearly every concurrent call.
func newHTTPClient(security *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSClientConfig:     security,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
	}}
}

// maxRedirects is the limit of net/http.
const maxRedirects = 10

// stayHome returns a copy of a client that follows redirects only within a scheme, host and port. net/http itself would
// send the key to another port, to a subdomain, and from https to http.
func stayHome(given *http.Client) *http.Client {
	own := *given
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		switch {
		case req.URL.Scheme != via[0].URL.Scheme || req.URL.Host != via[0].URL.Host:
			return http.ErrUseLastResponse
		case given.CheckRedirect != nil:
			return given.CheckRedirect(req, via)
		case len(via) >= maxRedirects:
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		}
		return nil
	}
	return &own
}

// redirected describes an answer that redirects to another host, and returns "" for other answers.
func redirected(resp *http.Response) string {
	to, err := resp.Location()
	if err != nil || resp.Request == nil || to.Scheme == resp.Request.URL.Scheme && to.Host == resp.Request.URL.Host {
		return ""
	}
	place := &url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}
	return "the answer redirects to " + place.String() + ", and a key is never sent to another host: name that address " +
		"itself"
}

// LoadTLS returns settings for calls by TLS, for Config.TLS. Each name is a file in PEM, and may be empty. Nodes must
// have a certificate of an authority in the file ca; empty: of one that the system trusts. The client presents the
// certificate in the file cert, whose key is in the file key. Both are read again for each new connection once they
// have changed; faulty new ones leave the earlier ones in use.
func LoadTLS(ca, cert, key string) (*tls.Config, error) {
	security := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pool, err := readAuthorities(ca)
		if err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
		security.RootCAs = pool
	}
	switch {
	case cert == "" && key == "":
		return security, nil
	case cert == "":
		return nil, fmt.Errorf("client: the key %s has no certificate", key)
	case key == "":
		return nil, fmt.Errorf("client: the certificate %s has no key", cert)
	}
	pair := &certificate{cert: cert, key: key}
	if _, err := pair.current(nil); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	security.GetClientCertificate = pair.current
	return security, nil
}

func readAuthorities(name string) (*x509.CertPool, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s has no certificate in PEM", name)
	}
	return pool, nil
}

// certificate is a client certificate in files.
type certificate struct {
	cert, key string

	mu     sync.Mutex
	seen   [2]os.FileInfo // states of the files when they were read last
	loaded *tls.Certificate
}

// current returns the certificate. The files may be replaced one after the other, so a pair that does not fit together
// leaves the earlier one in use.
func (p *certificate) current(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.reload()
	if p.loaded != nil {
		return p.loaded, nil
	}
	return nil, err
}

// reload reads the files if they have changed.
func (p *certificate) reload() error {
	var now [2]os.FileInfo
	for i, name := range [...]string{p.cert, p.key} {
		var err error
		if now[i], err = os.Stat(name); err != nil {
			return err
		}
	}
	if p.loaded != nil && sameFile(p.seen[0], now[0]) && sameFile(p.seen[1], now[1]) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", p.cert, p.key, err)
	}
	p.seen, p.loaded = now, &pair
	return nil
}

var errTwoTransports = errors.New("client: Config.TLS has no effect beside Config.HTTPClient: set it in its transport")
