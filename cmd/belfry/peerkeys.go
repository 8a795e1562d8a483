package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/cluster/peer"
)

// peerKeyFlags name the files with which nodes prove to each other that they belong together. A secret is never a flag.
type peerKeyFlags struct {
	cert, key, ca, gossip string
}

func (f *peerKeyFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.cert, "peer-cert", "", "PEM `file` with this node's certificate, for <name>"+peer.NameSuffix+
		"; the four files go together, and without them --peer must be on loopback")
	flags.StringVar(&f.key, "peer-key", "", "PEM `file` with its private key")
	flags.StringVar(&f.ca, "peer-ca", "", "PEM `file` with the authority that signed the nodes' certificates")
	flags.StringVar(&f.gossip, "gossip-key-file", "", "`file` with 32 random bytes in base64, the same on all nodes")
}

// load reads the files. It returns nil if none is named.
func (f *peerKeyFlags) load() (*peer.Keys, error) {
	given := 0
	for _, file := range []string{f.cert, f.key, f.ca, f.gossip} {
		if file != "" {
			given++
		}
	}
	switch given {
	case 0:
		return nil, nil
	case 4:
	default:
		return nil, errors.New("--peer-cert, --peer-key, --peer-ca and --gossip-key-file go together")
	}
	text, err := os.ReadFile(f.gossip)
	if err != nil {
		return nil, fmt.Errorf("--gossip-key-file: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("--gossip-key-file: %s does not hold 32 bytes in base64", f.gossip)
	}
	return &peer.Keys{CertFile: f.cert, KeyFile: f.key, CAFile: f.ca, Gossip: key}, nil
}
