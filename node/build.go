package node

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// Build is the build information that the Go command recorded in this binary, or that was stamped on it.
type Build struct {
	Version   string // a tag, or a pseudo-version; "dev" if it is not known
	Commit    string // of Git, with "-dirty" after it if files were changed; "unknown" if it is not known
	GoVersion string
}

// Stamps of a build from sources without Git's history, such as that of a container image. The linker sets them:
//
//	go build -ldflags "-X github.com/belfryhq/belfry/node.stampedVersion=v1.2.3
//	                   -X github.com/belfryhq/belfry/node.stampedCommit=0123abc"
var stampedVersion, stampedCommit string

// ReadBuild returns the build information of the running binary.
func ReadBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return buildOf(info).stamped(stampedVersion, stampedCommit)
}

// stamped returns the build information with a version and a commit in the place of those of the Go command. Empty ones
// change nothing.
func (b Build) stamped(version, commit string) Build {
	b.Version, b.Commit = cmp.Or(version, b.Version), cmp.Or(commit, b.Commit)
	return b
}

func buildOf(info *debug.BuildInfo) Build {
	b := Build{Version: info.Main.Version, GoVersion: info.GoVersion}
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "dev"
	}
	if b.Commit != "" {
		b.Commit += dirty
	}
	b.Commit = cmp.Or(b.Commit, "unknown")
	return b
}

// String returns the version, the commit, the Go version and the platform of the binary.
func (b Build) String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s/%s)", b.Version, b.Commit, b.GoVersion, runtime.GOOS, runtime.GOARCH)
}

// collector returns the metric whose labels describe the build.
func (b Build) collector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "belfry_build_info", Help: "1, with the build of this node as labels.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "goversion": b.GoVersion},
	}, func() float64 { return 1 })
}
