package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/cluster/recovery"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// recoverFlags are the flags of belfry recover.
type recoverFlags struct {
	cfg        recovery.Config
	lostQuorum bool
	to         string
	confirm    string
}

func newRecover() *cobra.Command {
	var f recoverFlags
	cmd := cli.LocalVerb(&cobra.Command{
		Use:   "recover --lost-quorum --data DIR --to NEW",
		Short: "Make a new cluster of the remaining disks after the loss of a majority",
		Long: `Make a new cluster of one node from the remaining disks of a cluster that has
lost those of a majority. Acknowledged tasks may be lost. If the disks are only
away, start their nodes instead.

Give the data folder of each node that is left, with the nodes stopped. For each
shard the newest replica among them is kept. The command first prints what it
would keep and what may be lost, and changes nothing until the id of the lost
cluster confirms it. It writes a new folder, and leaves the given ones alone. It
may be repeated after an interruption.

The new cluster has another id, so a node of the lost cluster that returns takes
no part in it. Keep the disks of the lost nodes off all the same: a majority of
them would serve the lost cluster again.`,
		Example: `  belfry recover --lost-quorum --data /var/lib/belfry --to /var/lib/belfry-new
  belfry recover --lost-quorum --data n1 --data n2 --to new \
    --confirm u5u5tod4nc7i2m53`,
	}, f.run)
	flags := cmd.Flags()
	flags.BoolVar(&f.lostQuorum, "lost-quorum", false, "the disks of a majority are gone, and tasks may be lost with them")
	flags.StringArrayVar(&f.cfg.Dirs, "data", nil, "data `folder` of a stopped node that is left; repeatable")
	flags.StringVar(&f.to, "to", "", "`folder` of the new cluster's node: empty, or absent")
	flags.StringVar(&f.confirm, "confirm", "", "`id` of the lost cluster (default: the command asks for it)")
	flags.StringVar(&f.cfg.Temp, "temp", "", "`folder` for copies of the logs (default: the system's temporary folder)")
	addLogStore(cmd, &f.cfg.LogStore)
	return cmd
}

func (f *recoverFlags) check() error {
	switch {
	case !f.lostQuorum:
		return errors.New("--lost-quorum is needed: it says that the disks of a majority are gone")
	case len(f.cfg.Dirs) == 0:
		return errors.New("--data is needed: the folder of each node that is left")
	case f.to == "":
		return errors.New("--to is needed: the folder of the new cluster's node")
	}
	return nil
}

func (f *recoverFlags) run(c *cli.Call) (err error) {
	if err := f.check(); err != nil {
		return cli.WrongUsage(err)
	}
	r, err := recovery.Open(c.Context(), f.cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	plan := r.Plan()
	if err := output.Show(c.Out, plan, fillPlanned); err != nil {
		return err
	}
	if err := f.askConfirmation(c, plan.ClusterID); err != nil {
		return err
	}
	made, err := r.Write(c.Context(), f.to)
	if err != nil {
		return err
	}
	return output.Show(c.Out, made, func(t *output.Table, made recovery.Made) { fillMade(t, made, f.to) })
}

var errNotConfirmed = errors.New("it was not confirmed with the id of the lost cluster: nothing was changed")

// askConfirmation returns nil if --confirm, or else the next line of the input, is the id of the lost cluster.
func (f *recoverFlags) askConfirmation(c *cli.Call, cluster string) error {
	given := f.confirm
	if given == "" {
		c.Command.PrintErr("\nTo go on, type the id of the lost cluster: ")
		line, err := bufio.NewReader(c.In()).ReadString('\n')
		if err != nil && line == "" {
			return errNotConfirmed
		}
		given = strings.TrimSpace(line)
	}
	if given != cluster {
		return errNotConfirmed
	}
	return nil
}

// lossText describes the losses in the table of a plan.
var lossText = map[recovery.Loss]string{
	recovery.None:     "nothing",
	recovery.Possible: "perhaps the last moments",
	recovery.Whole:    "ALL TASKS",
}

func fillPlanned(t *output.Table, p recovery.Plan) {
	t.Row("lost cluster %s\n\nNODE\tDATA", p.ClusterID)
	for _, s := range p.Survivors {
		t.Row("%s\t%s", s.NodeID, s.Dir)
	}
	t.Row("")
	t.Columns("SHARD", "NEWEST IN", "VOTERS HERE", "TERM", "LAST ENTRY", "OF", "TASKS", "LOST").Add()
	for _, g := range p.Groups {
		name := fmt.Sprint(g.Number)
		if g.Number == 0 {
			name = "control"
		}
		lost := lossText[g.Loss]
		if g.Loss == recovery.Certain {
			lost = fmt.Sprintf("%d ENTRIES AT LEAST: %s had entry %d", g.LeastMissing(), g.SeenBy, g.SeenAt)
		}
		t.Row("%s\t%s\t%d of %d\t%d\t%d\t%s\t%s\t%s", name, cmp.Or(g.From, "-"), g.Held, g.Voters, g.Term, g.Index,
			cmp.Or(g.At, "-"), cmp.Or(statesOf(g.Tasks), "-"), lost)
	}
	t.Row("\nTasks that were scheduled, changed, cancelled or delivered after a shard's last entry are as they were\n" +
		"before. Some may be delivered again, with the same webhook-id.")
}

func fillMade(t *output.Table, m recovery.Made, dir string) {
	t.Row("\ncluster %s, with the node %s\n", m.ClusterID, m.NodeID)
	t.Row("start it          belfry serve --data %s", dir)
	t.Row("join other nodes  belfry serve --data EMPTY-FOLDER --join ADDRESS")
	t.Row("then              belfry doctor")
}
