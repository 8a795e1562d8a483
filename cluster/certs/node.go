package certs

import (
	"fmt"
	"net"
	"strings"

	"github.com/belfryhq/belfry/cluster/peerkeys"
)

// Node is a node to be given a certificate.
type Node struct {
	Name  string   // node name, as in --name
	Hosts []string // DNS names and IP addresses at which others reach it, best first; none: its name
}

// Host returns the best host of the node.
func (n Node) Host() string {
	if len(n.Hosts) == 0 {
		return n.Name
	}
	return n.Hosts[0]
}

const (
	maxNameBytes = 63
	maxHostBytes = 253
	maxHosts     = 16
)

// ParseNode reads a node in the form NAME or NAME=HOST,HOST.
func ParseNode(text string) (Node, error) {
	name, hosts, given := strings.Cut(text, "=")
	n := Node{Name: name}
	if given {
		n.Hosts = strings.Split(hosts, ",")
	}
	return n, n.validate()
}

func (n Node) validate() error {
	if n.Name == "" || len(n.Name) > maxNameBytes || strings.ContainsFunc(n.Name, isNotLabel) {
		return fmt.Errorf("node name %q: 1 to %d letters, digits and hyphens", n.Name, maxNameBytes)
	}
	if len(n.Hosts) > maxHosts {
		return fmt.Errorf("node %s has %d hosts; at most %d", n.Name, len(n.Hosts), maxHosts)
	}
	for _, host := range n.Hosts {
		if net.ParseIP(host) != nil {
			continue
		}
		if strings.HasSuffix(strings.ToLower(host), peerkeys.NameSuffix) {
			return fmt.Errorf("host %q of node %s ends in %s, as the names of nodes do", host, n.Name, peerkeys.NameSuffix)
		}
		if host == "" || len(host) > maxHostBytes || strings.ContainsFunc(host, isNotHost) {
			return fmt.Errorf("host %q of node %s is neither a host name nor an IP address; it has no port", host, n.Name)
		}
	}
	return nil
}

func isNotLabel(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
}

func isNotHost(r rune) bool { return isNotLabel(r) && r != '.' && r != '_' }

// validateAll returns an error for nodes of which a name is there twice.
func validateAll(nodes []Node) error {
	seen := make(map[string]bool)
	for _, n := range nodes {
		if err := n.validate(); err != nil {
			return err
		}
		name := strings.ToLower(n.Name)
		if seen[name] {
			return fmt.Errorf("node %s is there twice", n.Name)
		}
		seen[name] = true
	}
	return nil
}
