package peerkeys

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const every = 2 * time.Second

// Config holds the files and the node that they belong to.
type Config struct {
	Files
	NodeName string          // must be in the certificate, followed by NameSuffix
	Every    time.Duration   // interval at which Run reads the files; 0: two seconds
	Reload   <-chan struct{} // each receive makes Run read the files at once; nil: none comes

	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: no metrics
}

// Keys are the present contents of a node's files. Their methods are safe for concurrent use.
type Keys struct {
	cfg         Config
	credentials source[*Credentials]
	gossip      source[[][]byte]
	metrics     *metrics
	reminded    time.Time // last reminder of an end; only of Run's goroutine
}

// Open reads the files.
func Open(cfg Config) (*Keys, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Every == 0 {
		cfg.Every = every
	}
	k := &Keys{cfg: cfg}
	f := cfg.Files
	k.credentials.files = []string{f.Cert, f.Key, f.CA}
	k.credentials.parse = func(c [][]byte) (*Credentials, error) { return f.parseCredentials(cfg.NodeName, c) }
	k.credentials.admit = func(present, next *Credentials) error { return next.mayReplace(present) }
	k.gossip.files, k.gossip.parse = []string{f.Gossip}, f.parseGossip
	if err := k.credentials.open(); err != nil {
		return nil, err
	}
	if err := k.gossip.open(); err != nil {
		return nil, err
	}
	k.metrics = newMetrics(k)
	return k, nil
}

// Credentials returns the present certificate and authorities.
func (k *Keys) Credentials() *Credentials { return k.credentials.get() }

// Gossip returns the present keys of gossip packets. The first one encrypts. The caller must not change them.
func (k *Keys) Gossip() [][]byte { return k.gossip.get() }

// Run reads the files again and again until the context ends. It calls onGossip with new keys of gossip packets.
func (k *Keys) Run(ctx context.Context, onGossip func(keys [][]byte) error) {
	ticker := time.NewTicker(k.cfg.Every)
	defer ticker.Stop()
	k.remind()
	for {
		now := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-k.cfg.Reload:
			now = true
		}
		k.lookAtCredentials(now)
		k.lookAtGossip(now, onGossip)
		k.remind()
	}
}

func (k *Keys) lookAtCredentials(now bool) {
	switch out, err := k.credentials.look(now); out {
	case taken:
		c := k.Credentials()
		k.metrics.taken("certificate")
		k.reminded = time.Time{}
		k.cfg.Logger.Info("a new certificate is in use for new connections to other nodes", "file", k.cfg.Cert,
			"fingerprint", Fingerprint(c.Cert.Leaf.Raw), "ends", c.Ends(), "authorities", len(c.authorities))
	case faulty:
		k.cfg.Logger.Warn("the files of the certificate are faulty: the earlier certificate stays in use",
			"ends", k.Credentials().Ends(), "err", err)
	}
}

func (k *Keys) lookAtGossip(now bool, onGossip func([][]byte) error) {
	switch out, err := k.gossip.look(now); out {
	case taken:
		if err := onGossip(k.Gossip()); err != nil {
			k.cfg.Logger.Error("the new gossip keys could not be used", "err", err)
			return
		}
		k.metrics.taken("gossip")
		k.cfg.Logger.Info("new gossip keys are in use", "file", k.cfg.Gossip, "keys", len(k.Gossip()),
			"encrypts", Fingerprint(k.Gossip()[0]))
	case faulty:
		k.cfg.Logger.Warn("the file of the gossip keys is faulty: the earlier keys stay in use", "err", err)
	}
}
