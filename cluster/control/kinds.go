package control

import (
	"errors"
	"reflect"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// kind holds the functions and rules for one kind of entry. The type of an entry's message is its kind.
type kind struct {
	since uint32 // lowest command version that reads the kind
	// apply carries out an operation on a state, whose changed parts it replaces. The error is errConflict if nothing is
	// to change. After any error the state is spoiled.
	apply func(s *clusterpb.ControlState, op proto.Message) error
	// answer describes the outcome by the states before and after the operation; nil: there is nothing to tell.
	answer func(c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, op proto.Message)
	// prepare checks a change that a node asks for, at the leader, and completes its entry. It drops the entry if nothing
	// is to be committed, and returns the answer then. Nil: no node may ask for a change of this kind.
	prepare func(*reconciler, *clusterpb.ControlChange) (*clusterpb.ControlChanged, error)
	repeats bool // a repeated change has no further effect, so a node repeats one of unknown outcome
}

// errConflict ends an operation that expects another version than the state has. Its answer has conflict set.
var errConflict = errors.New("the state has another version than the operation expects")

// kinds is the table of the kinds of entries, by the type of their message.
var kinds = tableOf(
	does(firstVersion, applyInit),
	does(firstVersion, applyRegister).asked(prepareRegister).repeated(),
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

	answers(does(firstVersion, applyBegun), answerBegin).asked(prepareBegin).repeated(),
	does(firstVersion, applyEnd),

	answers(does(firstVersion, applySetQueue), answerSetQueue).asked(prepareSetQueue),
	answers(does(firstVersion, applyDeleteQueue), answerDeleteQueue).asked(prepareDeleteQueue),
	answers(does(firstVersion, applySetCalendar), answerSetCalendar).asked(prepareSetCalendar),
	answers(does(firstVersion, applyDeleteCalendar), answerDeleteCalendar).asked(prepareDeleteCalendar),

	does(firstVersion, applySetBackups).asked(asIs),
	answers(does(firstVersion, applyAddToken), answerAddToken).asked(prepareAddToken).repeated(),
	answers(does(firstVersion, applyRemoveToken), answerRemoveToken).asked(asIs).repeated(),
	does(firstVersion, applyUseClusterKey),
	does(firstVersion, applySetReceiptKey),
	answers(does(firstVersion, applySetJwtKeys), answerSetJwtKeys).asked(prepareSetJwtKeys),

	answers(does(firstVersion, applyAddKey), keyed(addedKey)).asked(prepareAccess).repeated(),
	answers(does(firstVersion, applyRemoveKey), keyed((*clusterpb.RemoveKey).GetId)).asked(prepareAccess).repeated(),
	answers(does(firstVersion, applyRotateKey), keyed((*clusterpb.RotateKey).GetId)).asked(prepareAccess).repeated(),
	answers(does(firstVersion, applyUseKeys), answerVersion[*clusterpb.UseKeys]).asked(prepareAccess).repeated(),
	answers(does(firstVersion, applyEnforceKeys), answerVersion[*clusterpb.EnforceKeys]).
		asked(prepareAccess).repeated(),
	answers(does(firstVersion, applySetNamespace), named(setName)).asked(prepareAccess).repeated(),
	answers(does(firstVersion, applyDeleteNamespace), named((*clusterpb.DeleteNamespace).GetName)).
		asked(prepareAccess).repeated(),
	does(firstVersion, applyEndNamespace),

	answers(does(firstVersion, applyBeginBulk), answerBeginBulk).asked(prepareBeginBulk).repeated(),
	does(firstVersion, applyPinBulk),
	does(firstVersion, applyCountBulk),
	answers(does(firstVersion, applyStopBulk), answerStopBulk).asked(prepareStopBulk).repeated(),
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
func answers[M proto.Message](
	r row, answer func(c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, op M),
) row {
	r.answer = func(c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, op proto.Message) {
		answer(c, before, after, op.(M))
	}
	return r
}

// asked lets nodes ask for changes of a kind.
func (r row) asked(prepare func(*reconciler, *clusterpb.ControlChange) (*clusterpb.ControlChanged, error)) row {
	r.prepare = prepare
	return r
}

// repeated lets nodes repeat a change whose outcome is unknown.
func (r row) repeated() row {
	r.repeats = true
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
