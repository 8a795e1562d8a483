package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
	"github.com/belfryhq/belfry/deploy/demo"
	"github.com/belfryhq/belfry/deploy/listen"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/node"
)

func newLocal() *cobra.Command {
	var cfg local.Config
	cmd := &cobra.Command{
		Use:   "local [-- SERVE FLAGS]",
		Short: "Run a cluster of child processes on this machine",
		Long: `Run a cluster on this machine: nodes as child processes on loopback.

The data folder is the cluster: a later run on it continues with its tasks.
Ctrl-C, SIGTERM and a closed terminal stop the nodes in order; under nohup a
closed terminal does not. A node that dies is reported and left dead unless
--restart is given. The process id of node-2 is in DATA/node-2/belfry.pid and
its log in DATA/node-2/belfry.log. Arguments after -- go to each node's serve.

With --auth calls need a key, at later runs on the folder, too. The key of the
first admin is in DATA/admin.key.`,
		Example: `  belfry local
  belfry local --auth
  belfry local --nodes 5 --data /tmp/five --http-port 9400 -- --shards 24`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.ExtraArgs = args
			cfg.Out = cmd.OutOrStdout()
			return runLocal(cmd, cfg)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Nodes, "nodes", 3, "number of nodes")
	flags.StringVar(&cfg.DataDir, "data", "./belfry-data", "`folder` of the cluster")
	flags.IntVar(&cfg.HTTPPort, "http-port", 8400, "HTTP `port` of the first node; the others count up; 0: free ones")
	flags.BoolVar(&cfg.Auth, "auth", false, "let calls need a key; the first one is in DATA/admin.key")
	flags.BoolVar(&cfg.Restart, "restart", false, "restart a node that dies")
	return cmd
}

func runLocal(cmd *cobra.Command, cfg local.Config) error {
	ctx, stop := untilHangup(cmd.Context())
	defer stop()
	cluster, err := local.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer cluster.Stop()
	hint := keyHint(cluster.KeyFile(), cluster.URLs()[0])
	if _, err := fmt.Fprintf(cfg.Out, "ready: %s\n%s", strings.Join(cluster.URLs(), " "), hint); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// keyHint returns lines that show how to call a node of a cluster whose first key is in a file, or "" for a cluster
// whose calls need no key. The key is in no argument of a command, since all users of a machine see those.
func keyHint(path, url string) string {
	if path == "" {
		return ""
	}
	return fmt.Sprintf(`calls need a key. The key of the first admin is in %[1]s:
  belfry task list --addr %[2]s --key-file %[1]s
  sed 's/^/Authorization: Bearer /' %[1]s | curl -H @- %[2]s/v1/tasks
`, shellWord(path), url)
}

// shellWord quotes a path for a shell, if that is necessary.
func shellWord(path string) string {
	plain := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-", r) }
	if strings.TrimFunc(path, plain) != "" {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

func newDemo() *cobra.Command {
	var cfg demo.Config
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a cluster lose its leader without losing a task",
		Long: `Watch a cluster lose its leader without losing a task.

Starts three nodes and a receiver, and schedules thousands of tasks over the
next seconds. Kills the leader of the busiest shard with SIGKILL in the middle,
starts it again, and prints a verdict. Exits with 0 only if no task was lost and
none came early. Ctrl-C and a closed terminal stop the nodes.`,
		Example: `  belfry demo
  belfry demo --tasks 50000 --stay`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Out = cmd.OutOrStdout()
			cfg.Live = term.IsTerminal(int(os.Stdout.Fd()))
			ctx, stop := untilHangup(cmd.Context())
			defer stop()
			verdict, err := demo.Run(ctx, cfg)
			if err == nil && !verdict.OK() {
				err = errSaid
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Tasks, "tasks", 5000, "number of tasks to schedule")
	flags.StringVar(&cfg.DataDir, "data", "",
		"`folder` in which the nodes' data is kept (default: a temporary one, removed at the end)")
	flags.BoolVar(&cfg.Stay, "stay", false, "keep the cluster up after the verdict, until Ctrl-C")
	return cmd
}

func newDev() *cobra.Command {
	addr, redis, issuer := node.DefaultConfig().HTTPAddr, "", ""
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a node for tests, whose clock can be set ahead",
		Long: `Run a node for tests, whose clock can be set ahead.

The node is empty at its start, and removes its temporary data folder at its
end. It delivers to receivers and brokers on this machine, and calls need no
credentials. "belfry advance 48h" and POST /v1/dev/advance set its clock ahead:
the tasks due until then come due in their order, within milliseconds. Ctrl-C
and SIGTERM stop the node.`,
		Example: `  belfry dev
  belfry dev --http 127.0.0.1:0`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilHangup(cmd.Context())
			defer stop()
			return runDev(ctx, addr, redis, issuer, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&addr, "http", addr, "`address` on this machine at which callers are served")
	cmd.Flags().StringVar(&redis, "redis", "", "`address` on this machine at which Redis clients are served, with scores "+
		"in seconds (default: none)")
	cmd.Flags().StringVar(&issuer, "jwt-issuer", "", "`name` of the node in the claim iss of the tokens that receivers "+
		"get (default: the cluster's id)")
	return cmd
}

// runDev runs a node in dev mode until the context ends, and removes its folder.
func runDev(ctx context.Context, addr, redis, issuer string, out, logTo io.Writer) (err error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "belfry-dev-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg := node.DevConfig(filepath.Join(dir, "data"))
	cfg.HTTPAddr, cfg.RedisAddr, cfg.JWTIssuer = addr, redis, issuer
	cfg.Logger = slog.New(slog.NewTextHandler(logTo, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if host, _, err := net.SplitHostPort(addr); err != nil || !cli.IsLoopback(host) {
		return cli.WrongUsage(fmt.Errorf("--http %q is not an address on this machine, such as 127.0.0.1:8400", addr))
	}
	if host, _, err := net.SplitHostPort(redis); redis != "" && (err != nil || !cli.IsLoopback(host)) {
		return cli.WrongUsage(fmt.Errorf("--redis %q is not an address on this machine, such as 127.0.0.1:6380", redis))
	}
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return flagNamed(err)
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.AwaitReady(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if _, err := fmt.Fprintf(out, devText, n.HTTPAddr(), time.Since(began).Round(time.Millisecond)); err != nil {
		return err
	}
	return n.Wait(ctx)
}

// devText shows how to use a node in dev mode at the address %[1]s, which was ready after %[2]v.
const devText = `ready: http://%[1]s after %[2]v
webhooks may go to receivers on this machine and on the Internet
  curl -X PUT --json '{"delay": "48h"}' http://%[1]s/v1/tasks/hello
  curl --json '{"by": "48h"}' http://%[1]s/v1/dev/advance
`

func newAdvance() *cobra.Command {
	return cli.Verb(&cobra.Command{
		Use:   "advance DURATION",
		Short: "Set the clock of a node of \"belfry dev\" ahead",
		Long: `Set the clock of a node of "belfry dev" ahead. The command returns when the
attempts that came due have begun.`,
		Example: `  belfry advance 48h
  belfry advance 30m --addr 127.0.0.1:8400 --json | jq .begun`,
	}, func(c *cli.Call) (*client.Advanced, error) {
		var by time.Duration
		if err := cli.NewSpan(&by, 0).Set(c.Args[0]); err != nil {
			return nil, cli.WrongUsage(err)
		}
		advanced, err := c.Client.Advance(c.Context(), by)
		if cli.IsUnknownRoute(err) {
			return nil, errors.New("the clock of this node cannot be set: only a node of \"belfry dev\" has one that can")
		}
		return advanced, err
	}, fillAdvanced)
}

func fillAdvanced(t *output.Table, a *client.Advanced) {
	t.Field("now", instant.Stamp(a.Now.Time))
	t.Field("begun", fmt.Sprint(a.Begun))
}

func newListen() *cobra.Command {
	var cfg listen.Config
	cmd := &cobra.Command{
		Use:   "listen",
		Short: "Receive webhooks: print each with its headers and lateness",
		Example: `  belfry listen
  belfry listen --addr :9000 --fail 2        # fail two attempts of each task
  belfry listen --fail 1 --hang              # never answer the first attempt
  belfry listen --secret-file queue.secret   # refuse unsigned requests`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Out = cmd.OutOrStdout()
			return listen.Run(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&cfg.Addr, "addr", "a", "127.0.0.1:9000",
		"`address` to listen at; :9000 is port 9000 of every interface")
	flags.IntVar(&cfg.Fail, "fail", 0, "answer this many attempts of each task with 500, from the first on")
	flags.BoolVar(&cfg.Hang, "hang", false, "never answer: the attempts that --fail counts, or all")
	flags.BoolVar(&cfg.Reset, "reset", false, "reset the connection: of the attempts that --fail counts, or of all")
	flags.Var(cli.NewSpan(&cfg.Delay, 0), "delay", "`duration` to wait before each answer")
	flags.IntVar(&cfg.Status, "status", 200, "HTTP `status` of the answers")
	flags.StringVar(&cfg.SecretFile, "secret-file", "",
		"`file` with the queue's secrets, one whsec_… a line; refuse requests that are not signed with one")
	flags.BoolVarP(&cfg.JSON, "json", "j", false, "print JSON, one value a line")
	return cmd
}
