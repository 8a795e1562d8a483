package certs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

// Config holds the folder and the validity of new certificates.
type Config struct {
	Dir               string
	NodeValidity      time.Duration // 0: DefaultNodeValidity
	AuthorityValidity time.Duration // 0: DefaultAuthorityValidity
}

func (c Config) withDefaults() Config {
	if c.NodeValidity == 0 {
		c.NodeValidity = DefaultNodeValidity
	}
	if c.AuthorityValidity == 0 {
		c.AuthorityValidity = DefaultAuthorityValidity
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Dir == "":
		return errors.New("no folder for the certificates")
	case c.NodeValidity < time.Hour:
		return fmt.Errorf("nodes' certificates valid for %s: an hour at least", c.NodeValidity)
	case c.AuthorityValidity < c.NodeValidity:
		return fmt.Errorf("an authority valid for %s: at least as long as the nodes' certificates, %s",
			c.AuthorityValidity, c.NodeValidity)
	}
	return nil
}

// The names of files and folders.
const (
	secretsFile = "cluster.pem"
	nodesDir    = "nodes"
	certFile    = "node.pem"
	keyFile     = "node.key"
	caFile      = "ca.pem"
	gossipFile  = "gossip.key"
)

// Folder is an operator's folder with the files of a cluster. One process at a time may change it.
type Folder struct {
	cfg     Config
	secrets *secrets
}

// Init makes a new folder with an authority, a gossip key, and the files of the nodes. It never overwrites a folder.
func Init(cfg Config, nodes []Node) (*Folder, error) {
	cfg = cfg.withDefaults()
	if err := errors.Join(cfg.validate(), validateAll(nodes)); err != nil {
		return nil, err
	}
	f := &Folder{cfg: cfg}
	var err error
	if f.secrets, err = newSecrets(f.newAuthority); err != nil {
		return nil, err
	}
	err = buildAside(cfg.Dir, func(aside string) error {
		building := &Folder{cfg: cfg, secrets: f.secrets}
		building.cfg.Dir = aside
		return building.fill(nodes)
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// fill writes all files into a new folder.
func (f *Folder) fill(nodes []Node) error {
	if err := f.save(); err != nil {
		return err
	}
	if err := durable.MakeDir(filepath.Join(f.cfg.Dir, nodesDir)); err != nil {
		return err
	}
	for _, n := range nodes {
		if err := f.addNode(n); err != nil {
			return err
		}
	}
	return nil
}

// Open opens a folder that Init has made.
func Open(cfg Config) (*Folder, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	path := filepath.Join(cfg.Dir, secretsFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &Folder{cfg: cfg}
	if f.secrets, err = decodeSecrets(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Add makes the files of further nodes, which must not be there yet.
func (f *Folder) Add(nodes []Node) error {
	if err := validateAll(nodes); err != nil {
		return err
	}
	present, err := nodeNames(f.cfg.Dir)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		same := func(name string) bool { return strings.EqualFold(name, n.Name) } // as in certificates
		if at := slices.IndexFunc(present, same); at >= 0 {
			return fmt.Errorf("%s: %w, and is never overwritten", f.NodeDir(present[at]), fs.ErrExist)
		}
	}
	for _, n := range nodes {
		if err := f.addNode(n); err != nil {
			return err
		}
	}
	return nil
}

func (f *Folder) addNode(n Node) error {
	return buildAside(f.NodeDir(n.Name), func(aside string) error {
		return f.publish(nodeFiles{dir: aside}, n, true)
	})
}

// NodeDir returns the folder of a node's files.
func (f *Folder) NodeDir(name string) string { return filepath.Join(f.cfg.Dir, nodesDir, name) }

// Nodes returns the nodes of the folder, by name.
func (f *Folder) Nodes() ([]Node, error) {
	names, err := nodeNames(f.cfg.Dir)
	if err != nil {
		return nil, err
	}
	var nodes []Node
	for _, name := range names {
		n, err := nodeFiles{dir: f.NodeDir(name)}.node()
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func nodeNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, nodesDir))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Renew makes new certificates and keys for nodes, or for all nodes if none is named, with the hosts that they have.
func (f *Folder) Renew(names []string) error {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(f.NodeDir(name), certFile)); err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
	}
	return f.publishAll(func(n Node) bool { return len(names) == 0 || slices.Contains(names, n.Name) })
}

// RotateGossip makes a step of the rotation of the gossip key, and reports whether the step was new.
func (f *Folder) RotateGossip(step Step) (changed bool, err error) {
	if changed, err = f.secrets.gossip.advance(step, newGossipKey); err != nil {
		return false, fmt.Errorf("gossip key: %w", err)
	}
	return changed, errors.Join(f.save(), f.publishAll(func(Node) bool { return false }))
}

// RotateAuthority makes a step of the rotation of the authority, and reports whether the step was new. The step Use
// makes new certificates for all nodes.
func (f *Folder) RotateAuthority(step Step) (changed bool, err error) {
	if changed, err = f.secrets.authorities.advance(step, f.newAuthority); err != nil {
		return false, fmt.Errorf("authority: %w", err)
	}
	return changed, errors.Join(f.save(), f.publishAll(func(Node) bool { return false }))
}

func (f *Folder) newAuthority() (*authority, error) { return newAuthority(f.cfg.AuthorityValidity) }

func (f *Folder) save() error {
	data, err := f.secrets.encode()
	if err != nil {
		return err
	}
	if err := durable.MakeDir(f.cfg.Dir); err != nil {
		return err
	}
	return replace(filepath.Join(f.cfg.Dir, secretsFile), data, private)
}

// publishAll brings the files of all nodes up to date, and renews the certificates that renew chooses.
func (f *Folder) publishAll(renew func(Node) bool) error {
	nodes, err := f.Nodes()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := f.publish(nodeFiles{dir: f.NodeDir(n.Name)}, n, renew(n)); err != nil {
			return err
		}
	}
	return nil
}

// checkAbsent returns an error if a path exists.
func checkAbsent(path string) error {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return fmt.Errorf("%s: %w, and is never overwritten", path, fs.ErrExist)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// buildAside makes a folder that must not exist. It builds the folder under another name and renames it, so that a
// killed process leaves no part of it. The remains of an earlier attempt are removed.
func buildAside(dir string, build func(aside string) error) error {
	if err := checkAbsent(dir); err != nil {
		return err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	aside := filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".unfinished")
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err := durable.MakeDir(aside); err != nil {
		return err
	}
	if err := build(aside); err != nil {
		return errors.Join(err, os.RemoveAll(aside))
	}
	if err := os.Rename(aside, dir); err != nil {
		return errors.Join(err, os.RemoveAll(aside))
	}
	return durable.SyncDir(filepath.Dir(dir))
}
