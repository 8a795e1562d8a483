package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

// Explain returns the message of an error for the user of a command. It leaves out the steps of a failed dial, and adds
// a remedy.
func Explain(cmd *cobra.Command, err error) string {
	var refusal *client.Error
	var op *net.OpError
	if errors.As(err, &refusal) || !errors.As(err, &op) || op.Op != "dial" {
		return err.Error()
	}
	addrs, flagErr := cmd.Flags().GetStringSlice("addr")
	if flagErr != nil {
		return err.Error() // not a command that calls a cluster
	}
	return fmt.Sprintf("no node answers at %s: %v; start one with `belfry local`, or name another with --addr",
		strings.Join(addrs, ", "), cause(op))
}

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
