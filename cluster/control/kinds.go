package control

import (
	"errors"
	"reflect"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/bulk"
	"github.com/belfryhq/belfry/cluster/internal/tenancy"
)

// kind is what a replica does with the entries of one kind. The message that an entry carries tells its kind.
type kind struct {
	since uint32 // lowest command version that reads the kind
	// apply carries out an operation on a state, whose changed parts it replaces. The error is errConflict if nothing is
	// to change. After any error the state is spoiled.
	apply func(s *clusterpb.ControlState, op proto.Message) error
	// answer describes the outcome by the states before and after the operation; nil: there is nothing to tell.
	answer func(c *Change, before, after *clusterpb.ControlState, op proto.Message)
}

// errConflict ends an operation that expects another version than the state has. Its answer has Conflict set.
var errConflict = errors.New("the state has another version than the operation expects")

// kinds is the table of the kinds of entries, by the type of their message.
var kinds = tableOf(
	does(firstVersion, applyInit),
	does(firstVersion, applyRegister),
	does(firstVersion, applyRaise),

	does(firstVersion, applyPlace),
	does(firstVersion, applyRetarget),
	does(firstVersion, applyAssign),
	does(firstVersion, applyMend),
	does(firstVersion, applySetReplication),

	does(firstVersion, applySplit),
	does(firstVersion, applyMoveSlots),
	does(firstVersion, applyTurnMove),
	does(firstVersion, applyEndMove),

	does(firstVersion, func(s *clusterpb.ControlState, begin *clusterpb.Begin) error {
		return applyBegin(s, begin.GetOperation())
	}),
	does(firstVersion, applyEnd),

	answers(does(firstVersion, applySetQueue), answerSetQueue),
	answers(does(firstVersion, applyDeleteQueue), answerDeleteQueue),
	answers(does(firstVersion, applySetCalendar), answerSetCalendar),
	answers(does(firstVersion, applyDeleteCalendar), answerDeleteCalendar),

	does(firstVersion, applySetBackups),
	does(firstVersion, applyAddToken),
	does(firstVersion, applyRemoveToken),
	does(firstVersion, applyUseClusterKey),
	does(firstVersion, applySetReceiptKey),

	does(firstVersion, tenancy.AddKey),
	does(firstVersion, tenancy.RemoveKey),
	does(firstVersion, tenancy.RotateKey),
	does(firstVersion, tenancy.UseKeys),
	does(firstVersion, tenancy.EnforceKeys),
	does(firstVersion, tenancy.SetNamespace),
	does(firstVersion, applyDeleteNamespace),
	does(firstVersion, applyEndNamespace),

	does(firstVersion, bulk.Begin),
	does(firstVersion, bulk.Pin),
	does(firstVersion, bulk.Count),
	does(firstVersion, bulk.Stop),
)

// row is a kind with the type of its message.
type row struct {
	op reflect.Type
	kind
}

func tableOf(rows ...row) map[reflect.Type]kind {
	table := make(map[reflect.Type]kind)
	for _, r := range rows {
		table[r.op] = r.kind
	}
	return table
}

// does returns the row of a kind that is read from a command version on.
func does[M proto.Message](since uint32, apply func(*clusterpb.ControlState, M) error) row {
	return row{reflect.TypeFor[M](), kind{since: since, apply: func(s *clusterpb.ControlState, op proto.Message) error {
		return apply(s, op.(M)) // the table was searched by this type
	}}}
}

// answers adds the answer to a row.
func answers[M proto.Message](r row, answer func(c *Change, before, after *clusterpb.ControlState, op M)) row {
	r.answer = func(c *Change, before, after *clusterpb.ControlState, op proto.Message) {
		answer(c, before, after, op.(M))
	}
	return r
}

// opField is the oneof of ControlEntry that carries the operation.
var opField = (&clusterpb.ControlEntry{}).ProtoReflect().Descriptor().Oneofs().ByName("op")

// kindOf returns the kind of an entry, and the message that the entry carries. It reports false for an operation of a
// later build.
func kindOf(entry *clusterpb.ControlEntry) (k kind, op proto.Message, known bool) {
	message := entry.ProtoReflect()
	field := message.WhichOneof(opField)
	if field == nil {
		return kind{}, nil, false
	}
	op = message.Get(field).Message().Interface()
	k, known = kinds[reflect.TypeOf(op)]
	return k, op, known
}
