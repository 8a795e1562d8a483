package node

import "errors"

// TLSConfig holds the files by which the node's ports for callers speak TLS. The zero value makes them plain.
type TLSConfig struct {
	Cert        string // PEM file with the certificate, then intermediate certificates if any; empty: no TLS
	Key         string // PEM file with its private key
	ClientCA    string // PEM file with the authorities of callers' certificates; empty: callers are asked for none
	ClientRoles string // file with the grants of callers' certificates; see access.LoadCertificateRoles
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

// checkClients returns an error if callers' certificates could not be verified, or told no caller.
func (c *TLSConfig) checkClients() error {
	if (c.ClientCA == "") != (c.ClientRoles == "") {
		return errors.New("the authorities and the grants of callers' certificates go together: give both " +
			"--http-client-ca and --http-client-roles")
	}
	return c.checkNeeded(c.ClientCA != "")
}

// checkNeeded returns an error if a setting that needs TLS is set without it.
func (c *TLSConfig) checkNeeded(set bool) error {
	if set && c.Cert == "" {
		return errors.New("needs TLS: give --http-cert and --http-key")
	}
	return nil
}
