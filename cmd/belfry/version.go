package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "belfry", readBuild())
			return err
		},
	}
}

// build is the build information that the Go command recorded in this binary.
type build struct {
	version   string // a tag, or a pseudo-version; "dev" if it is not known
	commit    string // of Git, with "-dirty" after it if files were changed; "unknown" if it is not known
	goVersion string
}

func readBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return buildOf(info)
}

func buildOf(info *debug.BuildInfo) build {
	b := build{version: info.Main.Version, goVersion: info.GoVersion}
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if b.version == "" || b.version == "(devel)" {
		b.version = "dev"
	}
	if b.commit != "" {
		b.commit += dirty
	}
	b.commit = cmp.Or(b.commit, "unknown")
	return b
}

// String returns the version, the commit, the Go version and the platform of the binary.
func (b build) String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s/%s)", b.version, b.commit, b.goVersion, runtime.GOOS, runtime.GOARCH)
}

// collector makes the metric whose labels say which build runs.
func (b build) collector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "belfry_build_info", Help: "1, with the build of this node as labels.",
		ConstLabels: prometheus.Labels{"version": b.version, "commit": b.commit, "goversion": b.goVersion},
	}, func() float64 { return 1 })
}

// version is the version that this binary was built from.
func version() string { return readBuild().version }
