package node

import (
	"runtime/debug"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
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
		assert.Equal(t, buildOf(&tt.info), tt.want, "%+v", tt.info)
	}
}

func TestStamped(t *testing.T) {
	recorded := Build{"v1.2.3", "0123abc", "go1.26"}
	assert.Equal(t, recorded.stamped("", ""), recorded, "without stamps")
	got, want := recorded.stamped("v1.3.0", "4567def"), (Build{"v1.3.0", "4567def", "go1.26"})
	assert.Equal(t, got, want)
}
