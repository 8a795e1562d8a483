package certs

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/raftgroup/durable"
)

// Modes of files.
const (
	private fs.FileMode = 0o600
	public  fs.FileMode = 0o644
)

// nodeFiles are the files of one node.
type nodeFiles struct{ dir string }

func (f nodeFiles) path(file string) string { return filepath.Join(f.dir, file) }

// node returns the node that the certificate names.
func (f nodeFiles) node() (Node, error) {
	path := f.path(certFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return Node{}, err
	}
	certs, err := peerkeys.ParseCertificates(data)
	if err != nil {
		return Node{}, fmt.Errorf("%s: %w", path, err)
	}
	n, err := nodeOf(certs[0])
	if err != nil {
		return Node{}, fmt.Errorf("%s: %w", path, err)
	}
	if n.Name != filepath.Base(f.dir) {
		return Node{}, fmt.Errorf("%s: the certificate is node %q's, not %q's", path, n.Name, filepath.Base(f.dir))
	}
	return n, nil
}

// publish brings a node's files up to date. It makes a new certificate if renew is set, if the present one is not from
// the authority in use, or if its key does not fit.
func (f *Folder) publish(files nodeFiles, n Node, renew bool) error {
	if err := replaceChanged(files.path(caFile), f.secrets.caPEM(), public); err != nil {
		return err
	}
	if err := replaceChanged(files.path(gossipFile), f.secrets.gossipFile(), private); err != nil {
		return err
	}
	if !renew && f.isCurrent(files) {
		return nil
	}
	cert, key, err := f.secrets.authorities.used.issue(n, f.cfg.NodeValidity)
	if err != nil {
		return err
	}
	if err := replace(files.path(keyFile), key, private); err != nil {
		return err
	}
	return replace(files.path(certFile), cert, public)
}

// isCurrent reports whether a node has a certificate from the authority in use, and its key.
func (f *Folder) isCurrent(files nodeFiles) bool {
	pair, err := tls.LoadX509KeyPair(files.path(certFile), files.path(keyFile))
	return err == nil && pair.Leaf.CheckSignatureFrom(f.secrets.authorities.used.cert) == nil
}

func replaceChanged(path string, data []byte, mode fs.FileMode) error {
	present, err := os.ReadFile(path)
	if err == nil && bytes.Equal(present, data) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return replace(path, data, mode)
}

// replace makes data the content of a file with this mode. A crash leaves the old file or the new one.
func replace(path string, data []byte, mode fs.FileMode) error {
	return durable.ReplaceWith(path, func(aside *os.File) ([]byte, error) { return data, aside.Chmod(mode) }, nil)
}
