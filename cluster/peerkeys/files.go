package peerkeys

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// NameSuffix ends the DNS name by which a certificate names a node: "n1" + NameSuffix. An authority may issue other
// certificates for a company; only names with this suffix are nodes.
const NameSuffix = ".node.belfry"

// Files are the paths of a node's files.
type Files struct {
	Cert   string // PEM: this node's certificate, as client and as server
	Key    string // PEM: its private key
	CA     string // PEM: the authorities that sign the nodes' certificates
	Gossip string // keys of gossip packets, as FormatGossip writes them
}

// NodeName returns the name of the node that a certificate names. A certificate that names none or several is an error.
func NodeName(cert *x509.Certificate) (string, error) {
	found := ""
	for _, dns := range cert.DNSNames {
		name, ok := strings.CutSuffix(strings.ToLower(dns), NameSuffix)
		if !ok {
			continue
		}
		if found != "" || name == "" || strings.ContainsAny(name, ".*") {
			return "", fmt.Errorf("the certificate names not one node: %v", cert.DNSNames)
		}
		found = name
	}
	if found == "" {
		return "", fmt.Errorf("the certificate names no node (a DNS name ending in %s): %v", NameSuffix, cert.DNSNames)
	}
	return found, nil
}

// errCutOff is the error of a PEM file whose last block has no end.
var errCutOff = errors.New("its last block is cut off")

// ParseCertificates returns all certificates in PEM data. A block that is cut off is an error, because the file may
// still be copied.
func ParseCertificates(data []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		block, data = pem.Decode(data)
		switch {
		case block == nil && bytes.Contains(data, []byte("-----BEGIN")):
			return nil, errCutOff
		case block == nil && len(certs) == 0:
			return nil, errors.New("it has no certificate")
		case block == nil:
			return certs, nil
		case block.Type != "CERTIFICATE":
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, cert)
	}
}
