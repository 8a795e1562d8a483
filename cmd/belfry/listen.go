package main

import (
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/deploy/listen"
)

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
