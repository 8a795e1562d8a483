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

func TestStamped(t *testing.T) {
	recorded := Build{"v1.2.3", "0123abc", "go1.26"}
	if got := recorded.stamped("", ""); got != recorded {
		t.Errorf("without stamps: %+v", got)
	}
	if got, want := recorded.stamped("v1.3.0", "4567def"), (Build{"v1.3.0", "4567def", "go1.26"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
