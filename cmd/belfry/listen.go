package main

import (
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/deploy/listen"
)

func newListen() *cobra.Command {
	var cfg listen.Config
	cmd := &cobra.Command{
		Use:   "listen",
		Short: "Be a receiver: print each arrival with its headers and its lateness",
		Example: "  belfry listen\n" +
			"  belfry listen --addr :9000 --fail 2        # the first two attempts of each task fail\n" +
			"  belfry listen --fail 1 --hang              # the first one is never answered\n" +
			"  belfry listen --secret-file queue.secret   # refuse what is not signed with it",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Out = cmd.OutOrStdout()
			return listen.Run(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Addr, "addr", "127.0.0.1:9000", "where to listen; :9000 is every address of the machine")
	flags.IntVar(&cfg.Fail, "fail", 0, "answer the first so many attempts of each task with 500")
	flags.BoolVar(&cfg.Hang, "hang", false, "never answer: the attempts that --fail is about, or all")
	flags.BoolVar(&cfg.Reset, "reset", false, "reset the connection: the attempts that --fail is about, or all")
	flags.Var(newSpan(&cfg.Delay, 0), "delay", "wait so long before each answer")
	flags.IntVar(&cfg.Status, "status", 200, "answer with this status")
	flags.StringVar(&cfg.SecretFile, "secret-file", "",
		"verify signatures with the queue's secrets in this file, one whsec_… a line; refuse the others with 401")
	flags.BoolVar(&cfg.JSON, "json", false, "print an object of JSON a line")
	return cmd
}
