package peerkeys

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/reload"
)

// Config holds the files and the node that they belong to.
type Config struct {
	Files
	NodeName string          // must be in the certificate, followed by NameSuffix
	Every    time.Duration   // interval at which Run reads the files; 0: reload.Every
	Reload   <-chan struct{} // each receive makes Run read the files at once; nil: none comes

	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: no metrics
}

// Keys are the present contents of a node's files. Their methods are safe for concurrent use.
type Keys struct {
	cfg         Config
	credentials reload.Value[*Credentials]
	gossip      reload.Value[[][]byte]
	metrics     *metrics
	reminder    reload.Reminder // only of Run's goroutine
}

// Open reads the files.
func Open(cfg Config) (*Keys, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Keys{cfg: cfg}
	f := cfg.Files
	k.credentials.Files = []string{f.Cert, f.Key, f.CA}
	k.credentials.Parse = func(c [][]byte) (*Credentials, error) { return f.parseCredentials(cfg.NodeName, c) }
	k.credentials.Admit = func(present, next *Credentials) error { return next.mayReplace(present) }
	k.gossip.Files, k.gossip.Parse = []string{f.Gossip}, f.parseGossip
	if err := k.credentials.Open(); err != nil {
		return nil, err
	}
	if err := k.gossip.Open(); err != nil {
		return nil, err
	}
	k.metrics = newMetrics(k)
	for _, path := range []string{f.Key, f.Gossip} {
		WarnOfMode(k.cfg.Logger, path)
	}
	return k, nil
}

// WarnOfMode warns of a file of keys that others may read or change. The node starts all the same: a volume of secrets
// may have no other modes.
func WarnOfMode(log *slog.Logger, path string) {
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o027 != 0 {
		log.Warn("others may read or change a file with keys: take the rights of others away (chmod 640 or 600)",
			"path", path, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
}

// Credentials returns the present certificate and authorities.
func (k *Keys) Credentials() *Credentials { return k.credentials.Get() }

// Gossip returns the present keys of gossip packets. The first one encrypts. The caller must not change them.
func (k *Keys) Gossip() [][]byte { return k.gossip.Get() }

// Run reads the files again and again until the context ends. It calls onGossip with new keys of gossip packets.
func (k *Keys) Run(ctx context.Context, onGossip func(keys [][]byte) error) {
	k.remind()
	reload.Loop(ctx, k.cfg.Every, k.cfg.Reload, func(now bool) {
		k.lookAtCredentials(now)
		k.lookAtGossip(now, onGossip)
		k.remind()
	})
}

func (k *Keys) lookAtCredentials(now bool) {
	switch out, err := k.credentials.Look(now); out {
	case reload.Taken:
		c := k.Credentials()
		k.metrics.taken("certificate")
		k.reminder.Renewed()
		k.cfg.Logger.Info("a new certificate is in use for new connections to other nodes", "file", k.cfg.Cert,
			"fingerprint", Fingerprint(c.Cert.Leaf.Raw), "ends", c.Ends(), "authorities", len(c.authorities))
	case reload.Faulty:
		k.cfg.Logger.Warn("the files of the certificate are faulty: the earlier certificate stays in use",
			"ends", k.Credentials().Ends(), "err", err)
	}
}

func (k *Keys) lookAtGossip(now bool, onGossip func([][]byte) error) {
	switch out, err := k.gossip.Look(now); out {
	case reload.Taken:
		if err := onGossip(k.Gossip()); err != nil {
			k.cfg.Logger.Error("the new gossip keys could not be used", "err", err)
			return
		}
		k.metrics.taken("gossip")
		k.cfg.Logger.Info("new gossip keys are in use", "file", k.cfg.Gossip, "keys", len(k.Gossip()),
			"encrypts", Fingerprint(k.Gossip()[0]))
	case reload.Faulty:
		k.cfg.Logger.Warn("the file of the gossip keys is faulty: the earlier keys stay in use", "err", err)
	}
}
