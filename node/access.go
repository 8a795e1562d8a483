package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/node/internal/callers"
	"github.com/belfryhq/belfry/node/internal/port"
)

// AccessConfig names the credentials that the node knows beside the keys of its cluster. With any of them, and with
// TLSConfig.ClientRoles, calls need credentials from the first one on.
type AccessConfig struct {
	RootKeyFile string // file with one API key, whose caller is an admin of all namespaces; empty: none

	OIDCIssuer   string // URL of the OpenID Connect issuer of tokens; empty: none
	OIDCCA       string // PEM file with the authorities of the issuer's certificate; empty: those of the system
	OIDCAudience string // claim aud that the tokens have
	OIDCRoles    string // file with the grants of the tokens; see package oidc
}

// checkIssuer returns an error if some of the settings of the issuer are missing.
func (c *AccessConfig) checkIssuer() error {
	none := c.OIDCIssuer+c.OIDCAudience+c.OIDCRoles+c.OIDCCA == ""
	if none || c.OIDCIssuer != "" && c.OIDCAudience != "" && c.OIDCRoles != "" {
		return nil
	}
	return errors.New("the issuer, the audience and the roles go together: give --oidc-issuer, --oidc-audience and " +
		"--oidc-roles")
}

// demandsCredentials reports whether the node demands credentials by its own settings.
func (c *Config) demandsCredentials() bool {
	return c.Access.RootKeyFile != "" || c.Access.OIDCIssuer != "" || c.TLS.ClientCA != ""
}

// The commands and flags that make a port safe for other machines.
const (
	mendCredentials = `give --root-key-file FILE, which "belfry key new-root > FILE" makes`
	mendProxy       = "--behind-proxy if a proxy speaks TLS with the callers"
)

// checkExposed returns an error if other machines can reach an address without credentials or without TLS. A host name
// other than localhost is judged once it is bound.
func (c *Config) checkExposed(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || port.IsLoopback(host) || host != "" && net.ParseIP(host) == nil {
		return nil // an address that is none cannot be bound
	}
	return c.checkOpen(addr)
}

// checkBound is checkExposed for an address that is bound.
func (c *Config) checkBound(bound net.Addr) error {
	if tcp, ok := bound.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return nil
	}
	return c.checkOpen(bound.String())
}

// checkOpen returns an error unless calls from other machines need credentials and are encrypted.
func (c *Config) checkOpen(addr string) error {
	var faults []string
	if !c.demandsCredentials() {
		faults = append(faults, "calls need no credentials: "+mendCredentials)
	}
	if c.TLS.Cert == "" && !c.BehindProxy {
		faults = append(faults, "calls are not encrypted: "+c.mendTLS())
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("other machines can reach %s, and %s", addr, strings.Join(faults, "; and "))
}

// mendTLS returns the flags that make a port speak TLS. The certificate between nodes will do for callers, too.
func (c *Config) mendTLS() string {
	cert, key := "FILE", "FILE"
	if c.PeerKeys != nil {
		cert, key = c.PeerKeys.Cert, c.PeerKeys.Key
	}
	return fmt.Sprintf("give --http-cert %s and --http-key %s, or %s", cert, key, mendProxy)
}

// checkProxy returns an error for a proxy that would let other machines in without credentials.
func (c *Config) checkProxy() error {
	if !c.BehindProxy || c.demandsCredentials() {
		return nil
	}
	return errors.New("callers of the proxy need no credentials: " + mendCredentials)
}

// openCallers reads the files of credentials, and keeps them up to date as long as the node runs.
func (n *Node) openCallers(context.Context) error {
	cfg := callers.Config{
		RootKeyFile: n.cfg.Access.RootKeyFile, ClientRoles: n.cfg.TLS.ClientRoles,
		Issuer: n.cfg.Access.OIDCIssuer, IssuerCA: n.cfg.Access.OIDCCA,
		Audience: n.cfg.Access.OIDCAudience, TokenRoles: n.cfg.Access.OIDCRoles,
		Before:  cluster.KeysOnDisk(n.cfg.DataDir, n.log),
		Network: n.cfg.Network, Reload: n.again.Reader(), Logger: n.log, Registerer: n.registry,
	}
	var err error
	n.callers, err = callers.Open(cfg)
	var file *callers.FileError
	if errors.As(err, &file) {
		return &SettingError{file.Setting, file.Err}
	}
	if err == nil {
		n.background(n.callers.Run)
	}
	return err
}
