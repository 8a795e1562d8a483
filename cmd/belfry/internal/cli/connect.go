package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/contexts"
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
	contexts.Context // its key is that of the context that --context names
	timeout          time.Duration
	context          string
	clock            *clock // nil: no call was made
	ofCluster        bool   // calls are about no namespace
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
	AddContextFlags(flags, &c.Context, []string{"http://127.0.0.1:8400"})
	flags.Lookup("key-file").Usage += "; " + KeyVariable + " holds one itself"
	flags.VisitAll(func(f *pflag.Flag) { f.Usage += "; also set by " + connectionVariables[f.Name] })
	flags.Var(NewSpan(&c.timeout, 30*time.Second), "timeout", "how long to try")
	flags.Var(&contextValue{c}, "context", "`name` of a context, which `belfry context` keeps; also set by "+
		connectionVariables["context"])
}

// AddContextFlags adds the flags of the settings that a context has, apart from its key. addrs are the default of
// --addr.
func AddContextFlags(flags *pflag.FlagSet, c *contexts.Context, addrs []string) {
	flags.StringSliceVarP(&c.Addrs, "addr", "a", addrs, "`nodes` of the cluster; the next is tried when one is down")
	flags.StringVarP(&c.Namespace, "namespace", "N", "", "`name` of the namespace (default: the key's)")
	flags.StringVar(&c.KeyFile, "key-file", "", "`file` with an API key or a token")
	flags.StringVar(&c.CA, "ca", "", "`file` with the authority of the nodes' certificates (default: the system's)")
	flags.StringVar(&c.ClientCert, "client-cert", "", "`file` with a certificate to show to the nodes")
	flags.StringVar(&c.ClientKey, "client-key", "", "`file` with the key of that certificate")
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

// OfCluster makes the calls of a command be about the whole cluster, whatever --namespace is.
func OfCluster(cmd *cobra.Command) {
	if c, err := ConnectionOf(cmd.Flags()); err == nil {
		c.ofCluster = true
	}
}

// WithoutNamespace makes commands, and those below them, refuse --namespace: their calls are the same in every
// namespace. They ignore its variable, which is for all commands.
func WithoutNamespace(commands ...*cobra.Command) []*cobra.Command {
	for _, cmd := range commands {
		if f := cmd.Flags().Lookup("namespace"); f != nil {
			f.Hidden = true
		}
		OfCluster(cmd)
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

// Open returns a client of the cluster, in the namespace of --namespace, with changes to its settings. Its errors are
// those of wrong flags.
func (c *Connection) Open(changes ...func(*client.Config)) (*client.Client, error) {
	cfg := client.Config{Addrs: c.Addrs, Timeout: c.timeout, FixedAddrs: true, SingleCalls: true, KeyFile: c.KeyFile}
	if !c.ofCluster {
		cfg.Namespace = c.Namespace
	}
	if c.KeyFile == "" {
		cfg.Key = c.Key.Secret
		if text := os.Getenv(KeyVariable); text != "" {
			cfg.Key = client.NewSecret(text)
		}
	}
	var err error
	if cfg.HTTPClient, err = c.httpClient(); err != nil {
		return nil, WrongUsage(err)
	}
	for _, change := range changes {
		change(&cfg)
	}
	conn, err := client.New(cfg)
	if err != nil {
		return nil, WrongUsage(err)
	}
	return conn, nil
}

// clock carries the calls to the nodes, and reads the clock that a node of "belfry dev" has in its answers. That clock
// is ahead of the machine's after "belfry advance". The answers of other nodes have none, and the machine's counts.
type clock struct {
	http.Transport
	ahead atomic.Int64 // nanoseconds
}

// RoundTrip makes a call.
func (c *clock) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if at, err := time.Parse(time.RFC3339Nano, answer.Header.Get("Belfry-Clock")); err == nil {
		c.ahead.Store(int64(time.Until(at)))
	}
	return answer, nil
}

// httpClient returns the carrier of the connection's calls.
func (c *Connection) httpClient() (*http.Client, error) {
	if c.clock == nil {
		carrier := &clock{Transport: http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
			ForceAttemptHTTP2: true,
		}}
		if cmp.Or(c.CA, c.ClientCert, c.ClientKey) != "" {
			security, err := client.LoadTLS(c.CA, c.ClientCert, c.ClientKey)
			if err != nil {
				return nil, err
			}
			carrier.TLSClientConfig = security
		}
		c.clock = carrier
	}
	return &http.Client{Transport: c.clock}, nil
}

// Now returns the time by the clock of the node that answered last.
func (c *Connection) Now() time.Time {
	if c.clock == nil {
		return time.Now()
	}
	return time.Now().Add(time.Duration(c.clock.ahead.Load()))
}

// askClock reads the clock of a node on this machine, for times that count from now. No node of "belfry dev" is
// elsewhere. A node that does not answer has the machine's clock.
func (c *Connection) askClock(ctx context.Context) time.Time {
	carrier, err := c.httpClient()
	if err != nil || len(c.Addrs) == 0 || !isLoopback(c.Addrs[0]) {
		return c.Now()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	health := strings.TrimRight(withScheme(c.Addrs[0]), "/") + "/healthz"
	ask, err := http.NewRequestWithContext(ctx, http.MethodHead, health, nil)
	if err == nil {
		if answer, err := carrier.Do(ask); err == nil {
			_ = answer.Body.Close() // it is empty
		}
	}
	return c.Now()
}

// withScheme returns an address of a node as a URL.
func withScheme(addr string) string {
	if strings.Contains(addr, "://") {
		return addr
	}
	return "http://" + addr
}

// isLoopback reports whether an address of a node is one of this machine that others cannot reach.
func isLoopback(addr string) bool {
	u, err := url.Parse(withScheme(addr))
	return err == nil && IsLoopback(u.Hostname())
}

// IsLoopback reports whether a host is an address of this machine that others cannot reach.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// contextValue is the value of --context. It leads from the flags of a command to its connection.
type contextValue struct{ conn *Connection }

func (v *contextValue) String() string {
	if v.conn == nil {
		return ""
	}
	return v.conn.context
}

func (v *contextValue) Type() string { return "string" }

func (v *contextValue) Set(name string) error {
	v.conn.context = name
	return nil
}

// applyContext fills the unset flags of a connection from a context: by the name in --context or its variable, or else
// from the current one. The current one is for calls without an address, so that its key goes to no other cluster. An
// empty name means no context.
func applyContext(flags *pflag.FlagSet, lookupEnv func(string) (string, bool)) error {
	f := flags.Lookup("context")
	if f == nil {
		return nil
	}
	value, ok := f.Value.(*contextValue)
	name, named := f.Value.String(), f.Changed
	if !ok || named && name == "" || !named && flags.Changed("addr") {
		return nil
	}
	file, err := contexts.Load(contexts.Path(lookupEnv))
	if err != nil {
		return err
	}
	if !named {
		name = file.Current
	}
	if name == "" {
		return nil
	}
	c, err := file.Get(name)
	if err != nil {
		return err
	}
	key, _ := lookupEnv(KeyVariable)
	return value.conn.use(flags, c, key != "")
}

// use fills the unset flags from a context. A certificate and its key come from one place, and so
// does the API key: hasKey reports whether the environment has one.
func (c *Connection) use(flags *pflag.FlagSet, from *contexts.Context, hasKey bool) error {
	set := func(name, value string) error {
		if value == "" || flags.Changed(name) {
			return nil
		}
		return flags.Set(name, value)
	}
	if list, ok := flags.Lookup("addr").Value.(pflag.SliceValue); ok && len(from.Addrs) > 0 && !flags.Changed("addr") {
		flags.Lookup("addr").Changed = true
		if err := list.Replace(from.Addrs); err != nil {
			return err
		}
	}
	values := [][2]string{{"namespace", from.Namespace}, {"ca", from.CA}}
	if !flags.Changed("client-cert") && !flags.Changed("client-key") {
		values = append(values, [2]string{"client-cert", from.ClientCert}, [2]string{"client-key", from.ClientKey})
	}
	if !flags.Changed("key-file") && !hasKey {
		c.Key = from.Key
		values = append(values, [2]string{"key-file", from.KeyFile})
	}
	for _, v := range values {
		if err := set(v[0], v[1]); err != nil {
			return err
		}
	}
	return nil
}
