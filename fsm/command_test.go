package fsm

import (
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The table has every kind of command that an entry may contain.
func TestEveryKindOfCommandIsApplied(t *testing.T) {
	kinds := (&fsmpb.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range kinds.Len() {
		c := (&fsmpb.Command{}).ProtoReflect()
		c.Set(kinds.Get(i), c.NewField(kinds.Get(i)))
		op := c.Interface().(*fsmpb.Command).Op
		if commandOf(op).apply == nil {
			t.Errorf("%T is not in the table", op)
		}
	}
}
