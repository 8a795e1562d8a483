package node

import (
	"runtime/debug"
	"testing"
)

func TestBuildOf(t *testing.T) {
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "0123abc"}, {Key: "vcs.modified", Value: modified}}
	}
	for _, tt := range []struct {
		info debug.BuildInfo
		want Build
	}{
		{debug.BuildInfo{GoVersion: "go1.26"}, Build{"dev", "unknown", "go1.26"}},
		{debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs("true")}, Build{"dev", "0123abc-dirty", ""}},
		{debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: vcs("false")}, Build{"v1.2.3", "0123abc", ""}},
		{debug.BuildInfo{Settings: vcs("true")[1:]}, Build{"dev", "unknown", ""}},
	} {
		if got := buildOf(&tt.info); got != tt.want {
			t.Errorf("%+v: %+v, want %+v", tt.info, got, tt.want)
		}
	}
}
