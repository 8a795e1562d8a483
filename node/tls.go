package node

import "errors"

// TLSConfig holds the files by which the node's ports for callers speak TLS. The zero value makes them plain.
type TLSConfig struct {
	Cert     string // PEM file with the certificate, then intermediate certificates if any; empty: no TLS
	Key      string // PEM file with its private key
	ClientCA string // PEM file with the authorities of callers' certificates; empty: callers are asked for none
	// PlainLoopback lets callers on this machine speak plain HTTP at the same port.
	PlainLoopback bool
}

// checkPair returns an error if one of the certificate and its key is missing.
func (c *TLSConfig) checkPair() error {
	if (c.Cert == "") != (c.Key == "") {
		return errors.New("the certificate and its key go together: give both --http-cert and --http-key")
	}
	return nil
}

// checkNeeds returns an error if a setting that needs TLS is set without it.
func (c *TLSConfig) checkNeeds(set bool) error {
	if set && c.Cert == "" {
		return errors.New("needs TLS: give --http-cert and --http-key")
	}
	return nil
}
