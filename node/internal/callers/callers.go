package callers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/access/oidc"
	"github.com/belfryhq/belfry/cluster/reload"
	"github.com/belfryhq/belfry/internal/wait"
)

// Keys are the keys of the cluster.
type Keys interface {
	access.Source
	// Enforce commits that calls need credentials.
	Enforce(ctx context.Context) error
}

// Network connects to an address.
type Network interface {
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// Config names the node's own credentials. Each of them may be missing.
type Config struct {
	RootKeyFile string // file with the root key; empty: none
	ClientRoles string // file with the grants of client certificates; empty: they tell no caller
	Issuer      string // URL of the issuer of tokens; empty: none
	IssuerCA    string // file with the authorities of the issuer's certificate; empty: those of the system
	Audience    string // of the tokens
	TokenRoles  string // file with the grants of tokens

	Network Network // connects to the issuer; nil: the system's
	// Before is the source of the keys until Use. Nil: they are not known.
	Before access.Source

	Every      time.Duration   // interval at which Run reads the files; 0: reload.Every
	Reload     <-chan struct{} // each receive makes Run read the files at once; nil: none comes
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Callers finds callers. Its methods are safe for concurrent use.
type Callers struct {
	cfg       Config
	root      reload.Value[*access.RootKey]
	roles     reload.Value[*access.CertificateRoles]
	tokens    reload.Value[*oidc.Roles]
	issuer    *oidc.Issuer // nil: none
	source    source
	authority atomic.Pointer[access.Authority]
}

// Open reads the files.
func Open(cfg Config) (*Callers, error) {
	c := &Callers{cfg: cfg, source: source{before: cfg.Before, used: make(chan struct{})}}
	c.root.Files, c.root.Parse = []string{cfg.RootKeyFile}, func([][]byte) (*access.RootKey, error) {
		return access.LoadRootKey(cfg.RootKeyFile) // it checks the file's mode, too
	}
	c.roles.Files, c.roles.Parse = []string{cfg.ClientRoles}, func([][]byte) (*access.CertificateRoles, error) {
		return access.LoadCertificateRoles(cfg.ClientRoles)
	}
	c.tokens.Files, c.tokens.Parse = []string{cfg.TokenRoles}, func([][]byte) (*oidc.Roles, error) {
		return oidc.LoadRoles(cfg.TokenRoles)
	}
	for _, open := range []func() error{
		func() error { return openNamed("root-key-file", &c.root) },
		func() error { return openNamed("http-client-roles", &c.roles) },
		func() error { return openNamed("oidc-roles", &c.tokens) },
		c.openIssuer, c.renew,
	} {
		if err := open(); err != nil {
			return nil, err
		}
	}
	c.register()
	return c, nil
}

// FileError is the error of a file or an issuer that a setting names.
type FileError struct {
	Setting string
	Err     error
}

func (e *FileError) Error() string { return e.Setting + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// openNamed reads the value of a setting, if the setting names a file.
func openNamed[T any](setting string, v *reload.Value[T]) error {
	if v.Files[0] == "" {
		return nil
	}
	if err := v.Open(); err != nil {
		return &FileError{setting, err}
	}
	return nil
}

func (c *Callers) openIssuer() error {
	if c.cfg.Issuer == "" {
		return nil
	}
	client, err := issuerClient(c.cfg)
	if err != nil {
		return &FileError{"oidc-ca", err}
	}
	c.issuer, err = oidc.New(oidc.Config{
		Issuer: c.cfg.Issuer, Audience: c.cfg.Audience, Roles: c.tokens.Get(), Client: client, Logger: c.cfg.Logger,
	})
	if err != nil {
		return &FileError{"oidc-issuer", err}
	}
	return nil
}

// issuerClient returns a client that trusts only the authorities in the file IssuerCA, or those of the system without a
// file.
func issuerClient(cfg Config) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if cfg.Network != nil {
		transport.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
			return cfg.Network.Dial(ctx, addr)
		}
	}
	if ca := cfg.IssuerCA; ca != "" {
		data, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%s has no certificate in PEM", ca)
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	return &http.Client{Transport: transport}, nil
}

// renew makes the authority anew, by the present contents of the files.
func (c *Callers) renew() error {
	cfg := access.Config{Source: &c.source}
	if c.cfg.RootKeyFile != "" {
		cfg.Root = c.root.Get()
	}
	if c.cfg.ClientRoles != "" {
		cfg.Certificates = c.roles.Get()
	}
	if c.issuer != nil {
		cfg.Tokens = c.issuer
	}
	build := access.New
	if earlier := c.authority.Load(); earlier != nil {
		build = earlier.Renewed
	}
	authority, err := build(cfg)
	if err == nil {
		c.authority.Store(authority)
	}
	return err
}

// Use makes the keys of the cluster count. It is called once.
func (c *Callers) Use(keys Keys) { c.source.use(keys) }

// Caller returns the caller with these credentials. The error is an *access.Refusal.
func (c *Callers) Caller(ctx context.Context, credentials access.Credentials) (*access.Caller, error) {
	if cert := credentials.Certificate; cert != nil && time.Now().After(cert.NotAfter) {
		credentials.Certificate = nil // it has ended since its connection was opened
	}
	return c.authority.Load().Caller(ctx, credentials)
}

// IssuerFault returns the instant at which the keys of the issuer of tokens were read, zero if they never were, and the
// reason why they are missing or not fresh, or nil. A node without an issuer has no fault.
func (c *Callers) IssuerFault() (keysRead time.Time, fault error) {
	if c.issuer == nil {
		return time.Time{}, nil
	}
	return c.issuer.LastAnswer(), c.issuer.Fault()
}

// Run keeps the files and the issuer up to date, and commits that calls need credentials, until the context ends.
func (c *Callers) Run(ctx context.Context) {
	var parts sync.WaitGroup
	if c.issuer != nil {
		parts.Go(func() { c.issuer.Run(ctx) })
	}
	parts.Go(func() { c.enforce(ctx) })
	reload.Loop(ctx, c.cfg.Every, c.cfg.Reload, c.look)
	parts.Wait()
}

// look looks at all files. now is set to judge them at once.
func (c *Callers) look(now bool) {
	changed := look(c, &c.root, "root key", now)
	changed = look(c, &c.roles, "grants of client certificates", now) || changed
	if look(c, &c.tokens, "grants of tokens", now) {
		c.issuer.UseRoles(c.tokens.Get())
		changed = true
	}
	if !changed {
		return
	}
	if err := c.renew(); err != nil {
		c.cfg.Logger.Error("the changed credentials could not be used", "err", err)
	}
}

// look looks at a file, if there is one, and reports whether its value has changed.
func look[T any](c *Callers, v *reload.Value[T], subject string, now bool) (changed bool) {
	if v.Files[0] == "" {
		return false
	}
	switch out, err := v.Look(now); out {
	case reload.Taken:
		c.cfg.Logger.Info("a changed file of credentials is in use", "file", v.Files[0], "holds", subject)
		return true
	case reload.Faulty:
		c.cfg.Logger.Warn("a file of credentials is faulty: its earlier contents stay in use", "holds", subject, "err", err)
	}
	return false
}

// enforcePause is the interval of attempts to commit that calls need credentials.
const enforcePause = 5 * time.Second

// enforce commits that calls need credentials, if the node has credentials of its own.
func (c *Callers) enforce(ctx context.Context) {
	if c.cfg.RootKeyFile == "" && c.cfg.ClientRoles == "" && c.issuer == nil {
		return
	}
	select {
	case <-c.source.used:
	case <-ctx.Done():
		return
	}
	for {
		err := c.source.keys.Enforce(ctx)
		if err == nil {
			return
		}
		c.cfg.Logger.Debug("that calls need credentials is not committed yet", "err", err)
		if !wait.For(ctx, enforcePause) {
			return
		}
	}
}

// register registers the metrics of faulty files and of the issuer.
func (c *Callers) register() {
	if c.cfg.Registerer == nil {
		return
	}
	for file, refused := range map[string]func() bool{
		"root_key": c.root.Refused, "client_roles": c.roles.Refused, "token_roles": c.tokens.Refused,
	} {
		c.cfg.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "belfry_http_credential_files_refused",
			Help:        "1 while a file is faulty and its earlier contents stay in use: root_key, client_roles or token_roles.",
			ConstLabels: prometheus.Labels{"file": file},
		}, func() float64 {
			if refused() {
				return 1
			}
			return 0
		}))
	}
	c.registerIssuer()
}

// registerIssuer registers the metric of the issuer, if there is one.
func (c *Callers) registerIssuer() {
	if c.issuer == nil {
		return
	}
	c.cfg.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "belfry_oidc_last_answer_timestamp_seconds",
		Help: "Unix time at which the keys of the issuer of tokens were read last, or 0. They are read every 10 minutes.",
	}, func() float64 {
		if at := c.issuer.LastAnswer(); !at.IsZero() {
			return float64(at.Unix())
		}
		return 0
	}))
}
