package certs

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/cluster/reload"
)

// Entry is one certificate or gossip key of a folder.
type Entry struct {
	Kind        string    `json:"kind"` // authority, gossip or node
	Subject     string    `json:"subject,omitempty"`
	Names       []string  `json:"names,omitempty"` // DNS names and IP addresses
	Role        string    `json:"role,omitempty"`  // in a rotation: used, next or former
	Fingerprint string    `json:"fingerprint"`     // as in the metric belfry_peer_key_info
	Begins      time.Time `json:"begins,omitzero"`
	Ends        time.Time `json:"ends,omitzero"`
	State       State     `json:"state"`
	Fault       string    `json:"fault,omitempty"` // the reason for the state Faulty
}

// State is the condition of an entry.
type State string

// The states. Nodes refuse a certificate that is Faulty, Ended or NotYet.
const (
	Valid    State = "valid"
	EndsSoon State = "ends soon" // within reload.NearEnd
	Ended    State = "ended"
	NotYet   State = "not valid yet"
	Faulty   State = "faulty"
)

// Usable reports whether nodes accept the entry.
func (e Entry) Usable() bool { return e.State == Valid || e.State == EndsSoon }

// Inspect returns the certificates and keys of a folder: one that Init has made, or the folder of one node.
func Inspect(dir string) ([]Entry, error) {
	f, err := Open(Config{Dir: dir})
	if err == nil {
		return f.inspect()
	}
	if _, statErr := os.Stat(filepath.Join(dir, certFile)); !errors.Is(err, fs.ErrNotExist) || statErr != nil {
		return nil, err
	}
	return inspectNodeDir(nodeFiles{dir})
}

func (f *Folder) inspect() ([]Entry, error) {
	var entries []Entry
	for i, a := range f.secrets.authorities.all() {
		entries = append(entries, entryOf("authority", a.cert, f.secrets.authorities.roles()[i]))
	}
	for i, key := range f.secrets.gossip.all() {
		entries = append(entries, gossipEntry(key, f.secrets.gossip.roles()[i]))
	}
	names, err := nodeNames(f.cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		files := nodeFiles{f.NodeDir(name)}
		e, err := files.entry(name)
		if err != nil {
			return nil, err
		}
		if e.State != Faulty && f.isStale(files) {
			e.State, e.Fault = Faulty, "it lacks the last change of the folder: repeat the last command"
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// isStale reports whether a command was killed before it brought the node's files up to date.
func (f *Folder) isStale(files nodeFiles) bool {
	ca, caErr := os.ReadFile(files.path(caFile))
	gossip, gossipErr := os.ReadFile(files.path(gossipFile))
	return caErr != nil || gossipErr != nil || !f.isCurrent(files) ||
		!bytes.Equal(ca, f.secrets.caPEM()) || !bytes.Equal(gossip, f.secrets.gossipFile())
}

// inspectNodeDir returns the entries of a folder as a node has it.
func inspectNodeDir(files nodeFiles) ([]Entry, error) {
	var entries []Entry
	ca, err := os.ReadFile(files.path(caFile))
	if err != nil {
		return nil, err
	}
	authorities, err := peerkeys.ParseCertificates(ca)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files.path(caFile), err)
	}
	for _, cert := range authorities {
		entries = append(entries, entryOf("authority", cert, ""))
	}
	gossip, err := os.ReadFile(files.path(gossipFile))
	if err != nil {
		return nil, err
	}
	keys, err := peerkeys.ParseGossip(gossip)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files.path(gossipFile), err)
	}
	for _, key := range keys {
		entries = append(entries, gossipEntry(key, ""))
	}
	e, err := files.entry("")
	return append(entries, e), err
}

func gossipEntry(key []byte, role string) Entry {
	return Entry{Kind: "gossip", Role: role, Fingerprint: peerkeys.Fingerprint(key), State: Valid}
}

// entryOf describes a certificate.
func entryOf(kind string, cert *x509.Certificate, role string) Entry {
	e := Entry{
		Kind: kind, Subject: cert.Subject.CommonName, Names: cert.DNSNames, Role: role,
		Fingerprint: peerkeys.Fingerprint(cert.Raw), Begins: cert.NotBefore, Ends: cert.NotAfter, State: Valid,
	}
	for _, ip := range cert.IPAddresses {
		e.Names = append(e.Names, ip.String())
	}
	switch now := time.Now(); {
	case now.After(e.Ends):
		e.State = Ended
	case now.Before(e.Begins):
		e.State = NotYet
	case e.Ends.Sub(now) <= reload.NearEnd:
		e.State = EndsSoon
	}
	return e
}

// entry describes the node's certificate. It is faulty if a node of this name could not use the files. An empty name
// stands for the name in the certificate.
func (f nodeFiles) entry(name string) (Entry, error) {
	data, err := os.ReadFile(f.path(certFile))
	if err != nil {
		return Entry{}, err
	}
	certs, err := peerkeys.ParseCertificates(data)
	if err != nil {
		return Entry{Kind: "node", Subject: name, State: Faulty, Fault: err.Error()}, nil
	}
	e := entryOf("node", certs[0], "")
	if name == "" {
		if name, err = peerkeys.NodeName(certs[0]); err != nil {
			e.State, e.Fault = Faulty, err.Error()
			return e, nil
		}
	}
	_, err = peerkeys.Open(peerkeys.Config{Files: f.files(), NodeName: name})
	if err != nil {
		e.State, e.Fault = Faulty, err.Error()
	}
	return e, nil
}

func (f nodeFiles) files() peerkeys.Files {
	return peerkeys.Files{
		Cert: f.path(certFile), Key: f.path(keyFile), CA: f.path(caFile), Gossip: f.path(gossipFile),
	}
}

// NodeFiles returns the files of a node in a folder, such as the one to which they were copied.
func NodeFiles(dir string) peerkeys.Files { return nodeFiles{dir}.files() }
