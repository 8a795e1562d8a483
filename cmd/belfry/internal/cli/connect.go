package cli

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
)

// KeyVariable holds an API key or a token, for the commands that call a cluster. No flag does: other users of the
// machine see the flags of a process.
const KeyVariable = "BELFRY_KEY"

// AddrVariable sets --addr of every command that calls a cluster.
const AddrVariable = "BELFRY_ADDR"

// connectionVariables are the environment variables of a Connection's flags.
var connectionVariables = map[string]string{
	"addr": AddrVariable, "key-file": "BELFRY_KEY_FILE", "ca": "BELFRY_CA", "client-cert": "BELFRY_CLIENT_CERT",
	"client-key": "BELFRY_CLIENT_KEY", "namespace": "BELFRY_NAMESPACE", "context": "BELFRY_CONTEXT",
}

// Connection holds the flags by which a command reaches a cluster.
type Connection struct {
	addrs     []string
	timeout   time.Duration
	namespace string
	keyFile   string
	ca        string
	cert      string
	certKey   string
	context   string
	key       client.Secret // of the context
	clock     *clock        // nil: no call was made
}

// connectionFlag is the annotation of the flags of a connection, which a help shows in a section of their own.
const connectionFlag = "belfry-connection"

// IsConnection reports whether a flag is one of a connection.
func IsConnection(f *pflag.Flag) bool {
	_, ok := f.Annotations[connectionFlag]
	return ok
}

// AddFlags adds the flags of a connection.
func (c *Connection) AddFlags(all *pflag.FlagSet) {
	flags := pflag.NewFlagSet("connection", pflag.ContinueOnError)
	defer all.AddFlagSet(flags)
	defer flags.VisitAll(func(f *pflag.Flag) { f.Annotations = map[string][]string{connectionFlag: nil} })
	flags.StringSliceVarP(&c.addrs, "addr", "a", []string{"http://127.0.0.1:8400"},
		"`nodes` of the cluster; the next is tried when one is down; also set by "+AddrVariable)
	flags.Var(NewSpan(&c.timeout, 30*time.Second), "timeout", "how long to try")
	for _, f := range []struct {
		text              *string
		name, short, help string
	}{
		{&c.namespace, "namespace", "N", "`name` of the namespace (default: the key's)"},
		{&c.keyFile, "key-file", "", "`file` with an API key or a token; " + KeyVariable + " holds one itself"},
		{&c.ca, "ca", "", "`file` with the authority of the nodes' certificates (default: the system's)"},
		{&c.cert, "client-cert", "", "`file` with a certificate to show to the nodes"},
		{&c.certKey, "client-key", "", "`file` with the key of that certificate"},
	} {
		flags.StringVarP(f.text, f.name, f.short, "", f.help+"; also set by "+connectionVariables[f.name])
	}
	flags.Var(&contextValue{c}, "context", "`name` of a context, which `belfry context` keeps; also set by "+
		connectionVariables["context"])
}

// ConnectionOf returns the connection of a command's flags.
func ConnectionOf(flags *pflag.FlagSet) (*Connection, error) {
	if f := flags.Lookup("context"); f != nil {
		if value, ok := f.Value.(*contextValue); ok {
			return value.conn, nil
		}
	}
	return nil, errors.New("the command calls no cluster")
}

// WithoutNamespace makes commands, and those below them, refuse --namespace: their calls are the same in every
// namespace. They ignore its variable, which is for all commands.
func WithoutNamespace(commands ...*cobra.Command) []*cobra.Command {
	for _, cmd := range commands {
		if f := cmd.Flags().Lookup("namespace"); f != nil {
			f.Hidden = true
		}
		WithoutNamespace(cmd.Commands()...)
	}
	return commands
}

// checkNamespace returns an error if --namespace is given to a command without a use for it.
func checkNamespace(cmd *cobra.Command) error {
	if f := cmd.Flags().Lookup("namespace"); f == nil || !f.Hidden || !f.Changed {
		return nil
	}
	return fmt.Errorf("--namespace has no effect on %s, which is not about one namespace: leave it out", cmd.CommandPath())
}

// Namespace returns the value of --namespace.
func (c *Connection) Namespace() string { return c.namespace }

// Addrs returns the values of --addr.
func (c *Connection) Addrs() []string { return c.addrs }

// Open returns a client of the cluster, in the namespace of --namespace. Its errors are those of wrong flags.
func (c *Connection) Open() (*client.Client, error) { return c.OpenIn(c.namespace) }

// OpenIn is Open for another namespace. An empty name is for calls about no namespace.
func (c *Connection) OpenIn(namespace string) (*client.Client, error) {
	return c.OpenWith(namespace, func(*client.Config) {})
}

// OpenWith is OpenIn with a change to the settings of the client.
func (c *Connection) OpenWith(namespace string, change func(*client.Config)) (*client.Client, error) {
	cfg := client.Config{Addrs: c.addrs, Timeout: c.timeout, FixedAddrs: true, SingleCalls: true, KeyFile: c.keyFile,
		Namespace: namespace}
	if c.keyFile == "" {
		cfg.Key = c.key
		if text := os.Getenv(KeyVariable); text != "" {
			cfg.Key = client.NewSecret(text)
		}
	}
	var err error
	if cfg.HTTPClient, err = c.httpClient(); err != nil {
		return nil, WrongUsage(err)
	}
	change(&cfg)
	conn, err := client.New(cfg)
	if err != nil {
		return nil, WrongUsage(err)
	}
	return conn, nil
}
