package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/cluster/certs"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newCerts() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "certs",
		Short: "Make and renew the certificates and keys between nodes",
		Example: `  belfry certs init node-1=10.0.0.1 node-2=10.0.0.2 node-3=10.0.0.3
  belfry certs show`,
	}, newCertsInit(), newCertsAdd(), newCertsRotate(), newCertsShow())
}

// certsFlags are the flags of the commands that make certificates.
type certsFlags struct {
	certs.Config
	onNode   string
	peerPort uint16
}

const certsDirUsage = "`folder` with the files of all nodes"

func (f *certsFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.Dir, "dir", "belfry-certs", certsDirUsage)
	flags.Var(cli.NewSpan(&f.NodeValidity, certs.DefaultNodeValidity), "valid-for", "`duration`, such as 365d, for which "+
		"the nodes' certificates are valid; never longer than the authority")
}

func (f *certsFlags) addPlaceFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.onNode, "on-node", "/etc/belfry", "`folder` to which a node's files will be copied, for the "+
		"commands that are printed")
	flags.Uint16Var(&f.peerPort, "peer-port", 8500, "peer `port` of all nodes, for the commands that are printed")
}

func newCertsInit() *cobra.Command {
	var f certsFlags
	cmd := &cobra.Command{
		Use:   "init NAME[=HOST,HOST...]...",
		Short: "Make the authority, the gossip key and the files of all nodes",
		Long: `Make the files by which the nodes of a new cluster authenticate each other: an
authority, a certificate and a private key for each node, and a gossip key.

NAME is a node's name, as in serve --name. HOST is a name or an IP address at
which other nodes reach it, the first one in the commands that are printed
(default: NAME). Nodes prove their names, not their hosts, so a node may move.

An existing folder is never overwritten. The file cluster.pem in the folder
signs certificates: keep it secret, keep a copy of it, and copy it to no node.`,
		Example: `  belfry certs init node-1=10.0.0.1 node-2=10.0.0.2 node-3=10.0.0.3
  belfry certs init --dir certs --valid-for 90d node-1=n1.example,10.0.0.1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			nodes, err := parseNodes(args)
			if err != nil {
				return cli.WrongUsage(err)
			}
			if _, err := certs.Init(f.Config, nodes); err != nil {
				return err
			}
			return f.printMade(cmd, true, nodes, nodes)
		},
	}
	f.addFlags(cmd.Flags())
	cmd.Flags().Var(cli.NewSpan(&f.AuthorityValidity, certs.DefaultAuthorityValidity), "ca-valid-for",
		"`duration` for which the authority is valid")
	f.addPlaceFlags(cmd.Flags())
	return cmd
}

func parseNodes(args []string) ([]certs.Node, error) {
	var nodes []certs.Node
	for _, arg := range args {
		n, err := certs.ParseNode(arg)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func newCertsAdd() *cobra.Command {
	var f certsFlags
	cmd := &cobra.Command{
		Use:   "add NAME[=HOST,HOST...]...",
		Short: "Make the files of further nodes, with the same authority",
		Long: `Make a certificate and a private key for each further node, signed by the
authority in the folder. The files of nodes that are there already stay.`,
		Example: `  belfry certs add node-4=10.0.0.4`,
		RunE: func(cmd *cobra.Command, args []string) error {
			nodes, err := parseNodes(args)
			if err != nil {
				return cli.WrongUsage(err)
			}
			folder, err := certs.Open(f.Config)
			if err != nil {
				return err
			}
			if err := folder.Add(nodes); err != nil {
				return err
			}
			all, err := folder.Nodes()
			if err != nil {
				return err
			}
			return f.printMade(cmd, false, nodes, all)
		},
	}
	f.addFlags(cmd.Flags())
	f.addPlaceFlags(cmd.Flags())
	return cmd
}

// printMade prints the new files with the places that they belong to, and the commands that start the nodes.
func (f *certsFlags) printMade(cmd *cobra.Command, forming bool, made, all []certs.Node) error {
	t := new(output.Table)
	t.Columns("MADE", "GOES TO").Add()
	if forming {
		t.Row("%s\tno node: it signs certificates. Keep it secret, and keep a copy", filepath.Join(f.Dir, "cluster.pem"))
	}
	for _, n := range made {
		t.Row("%s\t%s:%s", filepath.Join(f.Dir, "nodes", n.Name, "*"), n.Host(), f.onNode)
	}
	if forming {
		t.Row("\nCallers need credentials. Make the key of the first admin, and copy it to %s on each node:", f.onNode)
		t.Row("\nbelfry key new-root > %s", filepath.Join(f.Dir, rootKeyFile))
	}
	t.Row("\nA node's files must be readable by the user that runs the node, and by no other. Start it with:")
	expected := 0
	if forming {
		expected = forms(len(all))
	}
	for i, n := range made {
		t.Row("\n%s", f.serveLine(n, i < expected, expected, all))
	}
	if len(made) > expected {
		t.Row("\nA node without --bootstrap-expect joins a running cluster. The file of --join-token-file needs a token of")
		t.Row("its own, which is valid for an hour: belfry node token create --addr https://NODE:8400 --ca %s \\",
			filepath.Join(f.Dir, "nodes", made[0].Name, "ca.pem"))
		t.Row("  --key-file %s > join.token", filepath.Join(f.Dir, rootKeyFile))
	}
	return t.Print(cmd.OutOrStdout())
}

// forms returns the number of nodes that form a cluster if there are n of them: 1, 3 or 5. The others join it.
func forms(n int) int {
	switch {
	case n >= 5:
		return 5
	case n >= 3:
		return 3
	}
	return 1
}

// rootKeyFile is the name of the root key's file, on the nodes and beside their files.
const rootKeyFile = "root.key"

// maxJoined is the number of addresses in --join. A node needs one that answers.
const maxJoined = 5

// serveLine returns the command that starts a node. former is set for one of the expected nodes that form the cluster.
func (f *certsFlags) serveLine(n certs.Node, former bool, expected int, all []certs.Node) string {
	port := strconv.Itoa(int(f.peerPort))
	files := certs.NodeFiles(f.onNode)
	words := []string{
		"belfry serve --data /var/lib/belfry", "--name " + n.Name, "--http :8400", "--http-cert " + files.Cert,
		"--http-key " + files.Key, "--root-key-file " + filepath.Join(f.onNode, rootKeyFile), "--peer :" + port,
		"--advertise-peer " + net.JoinHostPort(n.Host(), port), "--peer-cert " + files.Cert, "--peer-key " + files.Key,
		"--peer-ca " + files.CA, "--gossip-key-file " + files.Gossip,
	}
	others := all
	if former {
		others = all[:expected]
	}
	var join []string
	for _, other := range others {
		if other.Name != n.Name && len(join) < maxJoined {
			join = append(join, net.JoinHostPort(other.Host(), port))
		}
	}
	if len(join) > 0 {
		words = append(words, "--join "+strings.Join(join, ","))
	}
	if former {
		words = append(words, "--bootstrap-expect "+strconv.Itoa(expected))
	} else {
		words = append(words, "--join-token-file "+filepath.Join(f.onNode, "join.token"))
	}
	return strings.Join(words, " ")
}

func newCertsRotate() *cobra.Command {
	var f certsFlags
	var gossip, ca string
	cmd := &cobra.Command{
		Use:   "rotate [NODE...]",
		Short: "Renew certificates, or replace the gossip key or the authority",
		Long: `Renew the certificates and private keys of the nodes, or of all nodes if none
is named. Copy the new files to the nodes: they use them within seconds, without
a restart, and connections that are open go on.

With --gossip or --ca, replace the gossip key or the authority in three steps.
After each step copy the files to all nodes, and check that all of them use the
files before the next step:

  install   the nodes get to know the new one
  use       the nodes use the new one; --ca makes new certificates for all nodes
  remove    the nodes forget the old one

A repeated step changes nothing, and a step out of order is refused.`,
		Example: `  belfry certs rotate
  belfry certs rotate node-2
  belfry certs rotate --gossip install
  belfry certs rotate --ca install`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case gossip != "" && ca != "":
				return cli.WrongUsage(errors.New("give one of --gossip and --ca: they are separate rotations"))
			case len(args) > 0 && gossip+ca != "":
				return cli.WrongUsage(errors.New("--gossip and --ca concern all nodes: name none"))
			}
			return runRotate(cmd, f.Config, args, gossip, ca)
		},
	}
	f.addFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.Var(cli.NewSpan(&f.AuthorityValidity, certs.DefaultAuthorityValidity), "ca-valid-for",
		"`duration` for which a new authority is valid")
	flags.StringVar(&gossip, "gossip", "", "`step` to replace the gossip key: install, use or remove")
	flags.StringVar(&ca, "ca", "", "`step` to replace the authority: install, use or remove")
	for _, flag := range []string{"gossip", "ca"} {
		cli.CompleteWords(cmd, flag, string(certs.Install), string(certs.Use), string(certs.Remove))
	}
	return cmd
}

// runRotate carries out `belfry certs rotate`.
func runRotate(cmd *cobra.Command, cfg certs.Config, names []string, gossip, ca string) error {
	flag, text := "gossip", gossip
	if ca != "" {
		flag, text = "ca", ca
	}
	var step certs.Step
	var err error
	if text != "" {
		if step, err = certs.ParseStep(text); err != nil {
			return cli.WrongUsage(fmt.Errorf("--%s: %w", flag, err))
		}
	}
	folder, err := certs.Open(cfg)
	if err != nil {
		return err
	}
	changed := true
	switch {
	case text == "":
		err = folder.Renew(names)
	case flag == "ca":
		changed, err = folder.RotateAuthority(step)
	default:
		changed, err = folder.RotateGossip(step)
	}
	if err != nil {
		return err
	}
	return printRotated(cmd, cfg.Dir, flag, step, changed)
}

// printRotated prints the operator's next steps.
func printRotated(cmd *cobra.Command, dir, flag string, step certs.Step, changed bool) error {
	t := new(output.Table)
	switch {
	case step == "":
		t.Row("made    new certificates and keys")
	case changed:
		t.Row("done    --%s %s", flag, step)
	default:
		t.Row("done    --%s %s had been made already; all files are up to date", flag, step)
	}
	nodes := filepath.Join(dir, "nodes")
	t.Row("now     copy the files in %s to each node, and check that it uses them: its metric", nodes)
	t.Row("        belfry_peer_key_info shows the fingerprints that `belfry certs show` prints")
	if next := map[certs.Step]certs.Step{certs.Install: certs.Use, certs.Use: certs.Remove}[step]; next != "" {
		t.Row("then    belfry certs rotate --dir %s --%s %s", dir, flag, next)
	}
	return t.Print(cmd.OutOrStdout())
}

func newCertsShow() *cobra.Command {
	var dir string
	cmd := cli.LocalVerb(&cobra.Command{
		Use:   "show",
		Short: "Show certificates and keys with their expiry dates",
		Long: `Show the certificates and keys in a folder that "belfry certs init" has made, or
in the folder of one node. The fingerprints are those of a node's metric
belfry_peer_key_info. The exit status is 1 if nodes refuse one of them.`,
		Example: `  belfry certs show
  belfry certs show --dir /etc/belfry
  belfry certs show --json`,
	}, func(c *cli.Call) error {
		entries, err := certs.Inspect(dir)
		if err != nil {
			return err
		}
		err = output.ShowEach(c.Out, entries, fillCerts)
		refused := func(e certs.Entry) bool { return !e.Usable() }
		if err == nil && slices.ContainsFunc(entries, refused) {
			err = fmt.Errorf("%s has certificates that nodes refuse", dir)
		}
		return err
	})
	cmd.Flags().StringVar(&dir, "dir", "belfry-certs", certsDirUsage+", or those of one node")
	return cmd
}

func fillCerts(t *output.Table, entries []certs.Entry) {
	t.Columns("KIND", "SUBJECT", "NAMES", "FINGERPRINT", "ENDS", "STATE").Add()
	for _, e := range entries {
		ends := ""
		if !e.Ends.IsZero() {
			ends = e.Ends.UTC().Format(time.DateOnly) + " " + daysUntil(e.Ends)
		}
		kind := e.Kind
		if e.Role != "" && e.Role != "used" {
			kind += ", " + e.Role
		}
		t.Row("%s\t%s\t%s\t%s\t%s\t%s", kind, e.Subject, strings.Join(e.Names, " "), e.Fingerprint, ends, stateOf(e))
	}
}

// stateOf returns the state of an entry in capitals unless it is valid, and its fault.
func stateOf(e certs.Entry) string {
	switch {
	case e.State == certs.Valid:
		return string(e.State)
	case e.Fault == "":
		return strings.ToUpper(string(e.State))
	}
	return strings.ToUpper(string(e.State)) + ": " + e.Fault
}

func daysUntil(at time.Time) string {
	days := int(time.Until(at).Hours() / 24)
	if time.Until(at) < 0 {
		return fmt.Sprintf("(%d days ago)", -days)
	}
	return fmt.Sprintf("(in %d days)", days)
}
