package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestBuildOf(t *testing.T) {
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "0123abc"}, {Key: "vcs.modified", Value: modified}}
	}
	for _, tt := range []struct {
		info debug.BuildInfo
		want build
	}{
		{debug.BuildInfo{GoVersion: "go1.26"}, build{"dev", "unknown", "go1.26"}},
		{debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs("true")}, build{"dev", "0123abc-dirty", ""}},
		{debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: vcs("false")}, build{"v1.2.3", "0123abc", ""}},
		{debug.BuildInfo{Settings: vcs("true")[1:]}, build{"dev", "unknown", ""}},
	} {
		if got := buildOf(&tt.info); got != tt.want {
			t.Errorf("%+v: %+v, want %+v", tt.info, got, tt.want)
		}
	}
}

// The flag --version prints the same text as the command, even where an image sets the environment variable of its
// name.
func TestVersionFlag(t *testing.T) {
	t.Setenv("BELFRY_VERSION", "1.2.3")
	flag, code := belfry(t, "--version")
	command, _ := belfry(t, "version")
	if code != 0 || flag != command || !strings.HasPrefix(flag, "belfry dev (commit ") {
		t.Errorf("%d: %q, and the command prints %q", code, flag, command)
	}
	if out, code := belfry(t); code != 0 || !strings.Contains(out, "--version") {
		t.Errorf("%d\n%s", code, out)
	}
}
