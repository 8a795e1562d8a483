package receivers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/cluster/reload"
	"github.com/belfryhq/belfry/delivery"
)

// Certificates are the certificates that a node shows to receivers: NAME.crt with the key NAME.key, in a folder for the
// tasks of all namespaces, or in a subfolder with the name of a namespace for that one. A pair is read when a task
// first names it, and follows its files from then on. The methods are safe for concurrent use.
type Certificates struct {
	dir string
	log *slog.Logger

	mu    sync.Mutex
	pairs map[string]*pair    // by path without its ending
	found map[[2]string]*pair // by namespace and name; forgotten with each look, since files come and go
}

// pair is a certificate in use.
type pair struct {
	reload.Value[*tls.Certificate]
	reminder reload.Reminder
}

var _ delivery.Certificates = (*Certificates)(nil)

// OpenCertificates returns the certificates of a folder, which must exist.
func OpenCertificates(dir string, log *slog.Logger) (*Certificates, error) {
	if _, err := os.ReadDir(dir); err != nil {
		return nil, err
	}
	return &Certificates{dir: dir, log: log, pairs: map[string]*pair{}, found: map[[2]string]*pair{}}, nil
}

// Certificate returns the certificate with a name for the tasks of a namespace. Its errors tell callers no path.
func (c *Certificates) Certificate(namespace, name string) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{namespace, name}
	if p := c.found[key]; p != nil {
		return p.Get(), nil
	}
	for _, path := range []string{filepath.Join(c.dir, namespace, name), filepath.Join(c.dir, name)} {
		if _, err := os.Stat(path + ".crt"); errors.Is(err, fs.ErrNotExist) && c.pairs[path] == nil {
			continue
		}
		p, err := c.open(path)
		if err != nil {
			c.log.Warn("a certificate for receivers cannot be used", "file", path+".crt", "err", err)
			return nil, fmt.Errorf("the files of client certificate %s are faulty on this node: see its log", name)
		}
		c.found[key] = p
		return p.Get(), nil
	}
	return nil, fmt.Errorf("this node has no client certificate %s: give it %[1]s.crt and %[1]s.key in its "+
		"--receiver-certs", name)
}

// open returns the pair of a path, which it reads unless it is in use.
func (c *Certificates) open(path string) (*pair, error) {
	if p := c.pairs[path]; p != nil {
		return p, nil
	}
	p := new(pair)
	p.Files, p.Parse = []string{path + ".crt", path + ".key"}, parsePair
	if err := p.Open(); err != nil {
		return nil, err
	}
	c.pairs[path] = p
	peerkeys.WarnOfMode(c.log, path+".key")
	c.remind(path, p)
	return p, nil
}

func parsePair(contents [][]byte) (*tls.Certificate, error) {
	cert, err := tls.X509KeyPair(contents[0], contents[1])
	return &cert, err
}

// Run reads the files of the certificates in use again and again until the context ends, and at once after a receive.
func (c *Certificates) Run(ctx context.Context, again <-chan struct{}) {
	reload.Loop(ctx, 0, again, c.look)
}

func (c *Certificates) look(now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.found)
	for path, p := range c.pairs {
		switch outcome, err := p.Look(now); {
		case outcome == reload.Taken:
			p.reminder.Renewed()
			c.log.Info("a new certificate is in use for new connections to receivers", "file", path+".crt",
				"fingerprint", peerkeys.Fingerprint(p.Get().Leaf.Raw), "ends", p.Get().Leaf.NotAfter)
		case outcome == reload.Faulty && errors.Is(err, fs.ErrNotExist):
			delete(c.pairs, path)
			c.log.Warn("a certificate for receivers is gone: attempts that name it fail", "file", path+".crt", "err", err)
			continue
		case outcome == reload.Faulty:
			c.log.Warn("the files of a certificate for receivers are faulty: the earlier one stays in use",
				"file", path+".crt", "err", err)
		}
		c.remind(path, p)
	}
}

// remind logs that a certificate ends soon, or has ended.
func (c *Certificates) remind(path string, p *pair) {
	now, leaf := time.Now(), p.Get().Leaf
	due, valid := p.reminder.Due(now, leaf.NotBefore, leaf.NotAfter)
	switch log := c.log.With("file", path+".crt", "begins", leaf.NotBefore, "ends", leaf.NotAfter); {
	case !due:
	case valid:
		log.Warn("a certificate for receivers ends soon: replace its files, and the node takes the new ones without a "+
			"restart", "left", leaf.NotAfter.Sub(now).Round(time.Hour))
	default:
		log.Error("a certificate for receivers is not valid now: receivers refuse the attempts that name it")
	}
}
