package port

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/cluster/reload"
)

// Files are the paths of the files of the API's port, all of them PEM.
type Files struct {
	Cert     string // certificate of the node, then intermediate certificates if any
	Key      string // its private key
	ClientCA string // authorities of the callers' certificates; empty: callers are asked for none
}

// Config holds the files and the host for callers.
type Config struct {
	Files
	Host   string          // host name or IP address that callers are given; a certificate should name it
	Every  time.Duration   // interval at which Run reads the files; 0: reload.Every
	Reload <-chan struct{} // each receive makes Run read the files at once; nil: none comes

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Certificates are the present contents of the files. Their methods are safe for concurrent use.
type Certificates struct {
	cfg         Config
	server      reload.Value[*tls.Certificate]
	authorities reload.Value[[]*x509.Certificate] // of callers; unused without ClientCA
	metrics     *metrics
	reminder    reload.Reminder // only of Run's goroutine
}

// Open reads the files. It refuses faulty ones, except a certificate that is not valid now: new files mend that without
// a restart.
func Open(cfg Config) (*Certificates, error) {
	c := &Certificates{cfg: cfg}
	c.server.Files, c.server.Parse = []string{cfg.Cert, cfg.Key}, cfg.parseServer
	c.server.Admit = func(present, next *tls.Certificate) error { return mayReplace(present, next, time.Now()) }
	if err := c.server.Open(); err != nil {
		return nil, err
	}
	c.authorities.Files, c.authorities.Parse = []string{cfg.ClientCA}, cfg.parseAuthorities
	if cfg.ClientCA != "" {
		if err := c.authorities.Open(); err != nil {
			return nil, err
		}
	}
	c.metrics = newMetrics(c)
	peerkeys.WarnOfMode(cfg.Logger, cfg.Key)
	c.checkHost()
	return c, nil
}

func (f Files) parseServer(contents [][]byte) (*tls.Certificate, error) {
	if _, err := peerkeys.ParseCertificates(contents[0]); err != nil {
		return nil, fmt.Errorf("certificate %s: %w", f.Cert, err)
	}
	cert, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, fmt.Errorf("certificate %s with the key %s: %w", f.Cert, f.Key, err)
	}
	return &cert, nil
}

func (f Files) parseAuthorities(contents [][]byte) ([]*x509.Certificate, error) {
	found, err := peerkeys.ParseCertificates(contents[0])
	if err != nil {
		return nil, fmt.Errorf("certificate authorities %s: %w", f.ClientCA, err)
	}
	for _, cert := range found {
		if !cert.IsCA {
			return nil, fmt.Errorf("certificate authorities %s: %q is the certificate of no authority", f.ClientCA, cert.Subject)
		}
	}
	return found, nil
}

// Run reads the files again and again until the context ends.
func (c *Certificates) Run(ctx context.Context) {
	c.remind()
	reload.Loop(ctx, c.cfg.Every, c.cfg.Reload, func(now bool) {
		c.lookAtServer(now)
		if c.cfg.ClientCA != "" {
			c.lookAtAuthorities(now)
		}
		c.remind()
	})
}

func (c *Certificates) lookAtServer(now bool) {
	switch out, err := c.server.Look(now); out {
	case reload.Taken:
		c.metrics.changes.WithLabelValues(serverKind).Inc()
		c.reminder.Renewed()
		_, ends := c.validity()
		c.cfg.Logger.Info("a new certificate is in use for new connections of callers", "file", c.cfg.Cert,
			"fingerprint", peerkeys.Fingerprint(c.server.Get().Leaf.Raw), "ends", ends)
		c.checkHost()
	case reload.Faulty:
		_, ends := c.validity()
		c.cfg.Logger.Warn("the files of --http-cert and --http-key are faulty: the earlier certificate stays in use",
			"ends", ends, "err", err)
	}
}

func (c *Certificates) lookAtAuthorities(now bool) {
	switch out, err := c.authorities.Look(now); out {
	case reload.Taken:
		c.metrics.changes.WithLabelValues(callersKind).Inc()
		c.cfg.Logger.Info("new authorities of the callers' certificates are in use for new connections",
			"file", c.cfg.ClientCA, "authorities", len(c.authorities.Get()))
	case reload.Faulty:
		c.cfg.Logger.Warn("the file of --http-client-ca is faulty: the earlier authorities stay in use", "err", err)
	}
}

// TLS returns the settings of new connections, which follow the files.
func (c *Certificates) TLS() *tls.Config {
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.server.Get(), nil },
	}
	if c.cfg.ClientCA == "" {
		return cfg
	}
	cfg.ClientAuth, cfg.SessionTicketsDisabled = tls.VerifyClientCertIfGiven, true
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		present := cfg.Clone()
		present.ClientCAs = x509.NewCertPool()
		for _, a := range c.authorities.Get() {
			present.ClientCAs.AddCert(a)
		}
		return present, nil
	}
	return cfg
}

// Ends returns the last instant at which the certificate and its intermediate certificates are valid.
func (c *Certificates) Ends() time.Time {
	_, ends := c.validity()
	return ends
}

func (c *Certificates) validity() (begins, ends time.Time) { return validity(c.server.Get()) }

// validity returns the first and the last instant at which a certificate and its intermediate certificates are valid.
func validity(cert *tls.Certificate) (begins, ends time.Time) {
	begins, ends = cert.Leaf.NotBefore, cert.Leaf.NotAfter
	for _, der := range cert.Certificate[1:] {
		between, err := x509.ParseCertificate(der)
		if err != nil {
			continue // parseServer has parsed it
		}
		if between.NotBefore.After(begins) {
			begins = between.NotBefore
		}
		if between.NotAfter.Before(ends) {
			ends = between.NotAfter
		}
	}
	return begins, ends
}

// errNotValid is the error of a certificate that is not valid now.
var errNotValid = errors.New("the certificate is not valid now")

// mayReplace returns an error if the next certificate is not valid and the present one is.
func mayReplace(present, next *tls.Certificate, now time.Time) error {
	begins, ends := validity(next)
	if isValid(next, now) || !isValid(present, now) {
		return nil
	}
	return fmt.Errorf("%w: it is valid from %s to %s", errNotValid, begins.UTC().Format(time.RFC3339),
		ends.UTC().Format(time.RFC3339))
}

func isValid(cert *tls.Certificate, now time.Time) bool {
	begins, ends := validity(cert)
	return !now.Before(begins) && !now.After(ends)
}

// checkHost logs a warning if the certificate does not name the host that callers are given.
func (c *Certificates) checkHost() {
	leaf := c.server.Get().Leaf
	if err := leaf.VerifyHostname(c.cfg.Host); err != nil {
		c.cfg.Logger.Warn("the certificate does not name the host that callers are given: those that follow "+
			"/v1/cluster to this node refuse it", "file", c.cfg.Cert, "host", c.cfg.Host, "err", err)
	}
}

// remind logs that the certificate ends soon, or has ended.
func (c *Certificates) remind() {
	now := time.Now()
	begins, ends := c.validity()
	due, valid := c.reminder.Due(now, begins, ends)
	if !due {
		return
	}
	log := c.cfg.Logger.With("file", c.cfg.Cert, "begins", begins, "ends", ends)
	if !valid {
		log.Error("the certificate of the API is not valid now: callers refuse new connections to this node")
		return
	}
	log.Warn("the certificate of the API ends soon: replace its files, and the node takes the new ones without a "+
		"restart", "left", ends.Sub(now).Round(time.Hour))
}
