package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/node"
)

// healthTime bounds a health check.
const healthTime = 5 * time.Second

func newHealthcheck() *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Check that the node of this container or machine is alive",
		Long: `Check that the node of this container or machine is alive.

The images name this command as their HEALTHCHECK. It asks GET /healthz at the
node's own address, which needs no key, over TLS or without it. The exit code
is 0 if the node is alive, and 1 if it is not, or has not opened its data yet. A
node that waits for the others of its cluster is alive: /readyz says whether it
takes calls.`,
		Example: `  belfry healthcheck
  belfry healthcheck --http 127.0.0.1:8410`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if addr == "" {
				addr = os.Getenv("BELFRY_SERVE_HTTP")
			}
			if addr == "" {
				addr = node.DefaultConfig().HTTPAddr
			}
			near, err := nearAddr(addr)
			if err != nil {
				return cli.WrongUsage(fmt.Errorf("--http: %w", err))
			}
			return checkHealth(cmd.Context(), near)
		},
	}
	cmd.Flags().StringVar(&addr, "http", "",
		"`address` at which the node serves callers (default: that of BELFRY_SERVE_HTTP, or of a node without settings)")
	return cmd
}

// nearAddr returns the address by which this machine reaches a node that listens at addr.
func nearAddr(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port), nil
}

// checkHealth returns an error unless GET /healthz is answered with 200.
func checkHealth(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	// The check sends no secret and reads a status, so that it need not know the names in the certificate.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	caller := &http.Client{Transport: transport}
	defer caller.CloseIdleConnections()
	for _, scheme := range []string{"https://", "http://"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+addr+"/healthz", nil)
		if err != nil {
			return err
		}
		answer, err := caller.Do(req)
		switch {
		case errors.Is(err, http.ErrSchemeMismatch):
			continue
		case err != nil:
			return err
		case answer.StatusCode != http.StatusOK:
			err = fmt.Errorf("GET /healthz at %s: %d %s", addr, answer.StatusCode, http.StatusText(answer.StatusCode))
		}
		return errors.Join(err, answer.Body.Close())
	}
	return http.ErrSchemeMismatch
}
