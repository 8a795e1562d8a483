package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// Explain returns the message of an error for the user of a command. It leaves out the steps of a failed dial, and adds
// a remedy.
func Explain(cmd *cobra.Command, err error) string {
	var refusal *client.Error
	var op *net.OpError
	switch {
	case errors.As(err, &refusal): // its text is a node's, or that of a server which is none
		return output.Text(plainRefusal(cmd, err, refusal) + remedy(err))
	case strings.Contains(err.Error(), keyFile): // no call was made
		_, fault, _ := strings.Cut(err.Error(), keyFile)
		return output.Lines("the key file" + fault)
	case !errors.As(err, &op) || op.Op != "dial":
		return output.Lines(err.Error() + remedy(err))
	}
	addrs, flagErr := cmd.Flags().GetStringSlice("addr")
	if flagErr != nil {
		return err.Error() // not a command that calls a cluster
	}
	return fmt.Sprintf("no node answers at %s: %v; start one with `belfry local`, or name another with --addr",
		strings.Join(addrs, ", "), cause(op))
}

// remedy returns the end of a message about keys or TLS, which says what to do. It is empty for other errors.
func remedy(err error) string {
	var refusal *client.Error
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.Is(err, client.ErrUnauthenticated):
		return "; show a key with --key-file, set " + KeyVariable + ", or name a context with --context"
	case errors.As(err, &authority):
		return "; name the file of the nodes' authority with --ca"
	case errors.As(err, &certificate):
		return "; the certificate must have the name in --addr"
	case IsUnknownRoute(err):
		return "; is there a path in --addr, which is like http://127.0.0.1:8400, or a node of another version?"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "; the node speaks plain HTTP: name it as http:// in --addr"
	case errors.As(err, &refusal) && refusal.Status == http.StatusBadRequest && strings.Contains(refusal.Detail, toTLS):
		return "; the node speaks TLS: name it as https:// in --addr"
	}
	return ""
}

// IsUnknownRoute reports whether a node has refused a call that it does not know.
func IsUnknownRoute(err error) bool {
	var refusal *client.Error
	return errors.As(err, &refusal) && strings.HasSuffix(refusal.Type, ":unknown-route")
}

// keyFile begins the fault of a key file, behind the call that it was for.
const keyFile = ": the key file"

// toTLS is the answer of net/http to plain HTTP at a port with TLS.
const toTLS = "HTTP request to an HTTPS server"

// cause returns the reason why a connection could not be made, without the steps that led there.
func cause(op *net.OpError) error {
	var call *os.SyscallError
	var name *net.DNSError
	switch {
	case errors.As(op, &call):
		return call.Err
	case errors.As(op, &name):
		return errors.New(name.Err)
	}
	return op.Err
}
