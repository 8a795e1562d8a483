package main

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/internal/assert"
)

// A variable belongs to one command. Commands that call a cluster take only their connection from the environment.
func TestVariables(t *testing.T) {
	owners := map[string]string{}
	connection := map[string]string{"addr": "BELFRY_ADDR", "key-file": "BELFRY_KEY_FILE", "ca": "BELFRY_CA",
		"client-cert": "BELFRY_CLIENT_CERT", "client-key": "BELFRY_CLIENT_KEY", "namespace": "BELFRY_NAMESPACE", "context": "BELFRY_CONTEXT"}
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		if cmd.InheritedFlags(); cmd.HasSubCommands() {
			return // the command has no settings
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			name := cli.Variable(cmd, f)
			switch {
			case cli.IsCall(cmd):
				if want := connection[f.Name]; name != want {
					t.Errorf("%s sets --%s of %s", name, f.Name, cmd.CommandPath())
				}
			case name == "":
				if cli.Settable(f) {
					t.Errorf("no variable sets --%s of %s", f.Name, cmd.CommandPath())
				}
			case owners[name] != "" || isConnection(connection, name):
				t.Errorf("%s sets a flag of %s and of %s", name, owners[name], cmd.CommandPath())
			default:
				owners[name] = cmd.CommandPath()
			}
		})
	})
	for name, want := range map[string]string{
		"BELFRY_SERVE_DATA": "belfry serve", "BELFRY_DEMO_DATA": "belfry demo", "BELFRY_LOCAL_HTTP_PORT": "belfry local",
		"BELFRY_LISTEN_ADDR": "belfry listen", "BELFRY_SERVE_CONFIG": "belfry serve", "BELFRY_DATA": "",
		"BELFRY_QUEUE_SET_PAUSED": "", "BELFRY_PAUSED": "",
	} {
		assert.Equal(t, owners[name], want, "%s belongs to", name)
	}
}

// isConnection reports whether a variable belongs to all commands that call a cluster.
func isConnection(connection map[string]string, name string) bool {
	return name == cli.KeyVariable || slices.Contains(slices.Collect(maps.Values(connection)), name)
}

// The address of a cluster in the environment reaches the calls, and --addr wins over it.
func TestAddressFromTheEnvironment(t *testing.T) {
	s, other := serveOne(t, 200, taskJSON), serveOne(t, 404, `{"type":"urn:belfry:problem:task-not-found"}`)
	t.Setenv(cli.AddrVariable, s.url)
	if out, code := belfry(t, "task", "get", "a"); code != 0 || s.uri != "/v1/tasks/a" {
		t.Errorf("%d, asked for %s\n%s", code, s.uri, out)
	}
	out, code := belfry(t, "task", "get", "a", "-a", other.url)
	assert.Equal(t, code, exitNotFound, "%s", out)
	listen, _, err := newRoot().Find([]string{"listen"})
	assert.NoError(t, err)
	listen.InheritedFlags() // adds --config
	if err := cli.Apply(listen, os.LookupEnv); err != nil || listen.Flag("addr").Changed {
		t.Errorf("belfry listen listens at %s, %v", listen.Flag("addr").Value, err)
	}
}
